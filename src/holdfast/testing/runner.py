"""Runner: the real engine for tests, on a store in memory, with a clock that moves only while the test waits.

The method names are those of the official testing package where possible. Time passes only in `advance`, in `run` and in the methods
`wait_for_…`. In `run` and `wait_for_…` it passes only when the engine has no work left: a wait of a year takes no real time, and no
callback times out while the test does something else. Ids are the same in every run, and so are `context.uuid()`, `context.random()` and
the ids of callbacks.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.descriptions.history import HistoryEvent
from holdfast.durable.delays import Duration
from holdfast.durable.execution import DurableFunction
from holdfast.durable.plain import plain_function
from holdfast.engine.quarantine_messages import quarantined
from holdfast.hosts.inline import InlineHost
from holdfast.model.clock import SystemClock, VirtualClock, monotonic
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import MAX_RETENTION_DAYS, Execution, State
from holdfast.model.ids import Arn, Ids, id_at
from holdfast.model.operations import Status, Type
from holdfast.model.ports import Host
from holdfast.model.seal import Seal
from holdfast.service.engines import BlockingEngine, BlockingExecution
from holdfast.service.engines import open as open_engine
from holdfast.service.settings import Settings
from holdfast.store.seam import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.results import Result, seen

if TYPE_CHECKING:
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime
    from holdfast.workers.approvals import Approval

_PATIENCE = 60.0
_POLL_SECONDS = 0.002
_AT_REST: Final = (State.CLOSED, State.QUARANTINED)
_SEAL: Final = Seal(bytes(32))
_MADE_NAME: Final = " create callback id"
"""How the name of the callback of a `wait_for_callback` ends, in the official SDK and here. Before it is the author's name."""


class TestClock(VirtualClock):
    """A clock that moves to the next timer only while the test waits for something, and stops when this has happened."""

    __test__ = False  # pytest must not collect it as a test

    def __init__(self, now: int) -> None:
        super().__init__(now, skipping=False)
        self.reached: Callable[[], bool] = lambda: True
        """Whether time stands still: the test waits for nothing, or what it waits for has happened."""

    def skip_to(self, at: int) -> None:
        """Move the clock to `at`, the time of the engine's next timer or schedule. Does nothing if the test waits for nothing, or if what
        it waits for has happened (`reached` returns True)."""
        if not self.reached():
            self.move_to(at)


class WaitingCallback(NamedTuple):
    """A callback that waits for its answer."""

    id: str
    name: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a test may ask for it: its own name (empty if it has none), and, if it belongs to a `wait_for_callback`, the
        name of that."""
        own = self.name or ""
        return (own, own.removesuffix(_MADE_NAME)) if own.endswith(_MADE_NAME) else (own,)


class NotYet(HoldfastError, TimeoutError):
    """What the test waited for did not happen within the timeout, or it cannot happen, because the execution ended.

    The timeout is in real time.
    """

    code = "test_waited_in_vain"


class Runner:
    """Runs durable functions for tests. Use it as a context manager."""

    def __init__(
        self,
        function: DurableFunction,
        *,
        functions: Sequence[DurableFunction] = (),
        stubs: Mapping[str, Any] | None = None,
        workers: Mapping[str, Any] | Sequence[str | os.PathLike[str]] = (),
        now: int = 1_767_225_600_000,
        replay: bool = True,
        settings: Settings | None = None,
    ) -> None:
        """`function` is the one that `run` starts. `functions` are real functions that it may invoke. `stubs` replace functions that it
        invokes, by name: a value, an exception to raise, or a callable that gets the payload. `workers` are the workers that `context.run`
        may run: files of real workers, or a mapping from a worker's id to its file or to a stub. Such a stub is a mapping of outputs, an
        exception to raise, a callable that gets the inputs, or a list of these for one call after the other, of which the last is used
        again.

        `now` is the time at which the clock begins, in milliseconds since 1970. With `replay`, waiting coroutines are removed from memory,
        so that every wake-up is a replay. `replay=False` keeps them, as an engine with free memory does. `settings` are an engine's
        settings; the runner sets clock, ids and randomness unless `settings` do, always sets `tune` to False and, with `replay`, `resting`
        to 0.
        """
        if not isinstance(function, DurableFunction):
            raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
        self.function = _kept(function)
        self.clock = TestClock(now)
        self._stack = ExitStack()
        self._engine: BlockingEngine | None = None
        self.wrap: Callable[[InlineHost], Host] = lambda host: host
        """Called when the engine is opened, with the host that runs the code. It returns the host that the engine uses."""
        self._functions = [self.function, *map(_kept, functions)]
        for name, stub in (stubs or {}).items():
            self.register_function(name, stub)
        self._workers = workers
        self._settings = self._set(settings or Settings(resting=1000, threads=8), replay)

    def _set(self, settings: Settings, replay: bool) -> Settings:
        """The settings, with the runner's clock, ids and randomness in place of the defaults. With `replay`, no waiting coroutine stays in
        memory."""
        if isinstance(settings.clock, TestClock):
            self.clock = settings.clock
        return msgspec.structs.replace(
            settings,
            clock=self.clock if isinstance(settings.clock, SystemClock) else settings.clock,
            ids=Ids(Random(0)) if settings.ids is id_at else settings.ids,
            chance=(lambda: Random(0)) if settings.chance is SystemRandom else settings.chance,
            resting=0 if replay else settings.resting,
            tune=False,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine."""
        self._engine = None
        self._stack.close()

    # --- functions

    def register_durable_function(self, function: DurableFunction) -> None:
        """Add a function that may be invoked. Raises InvalidParameter if the engine is open already, for example after the first run."""
        self._register(function)

    def register_function(self, name: str, handler: Any) -> None:
        """Add a stub for an invoked function: a callable that gets the payload, or the result itself, or an exception to raise. Raises
        InvalidParameter if the engine is open already, for example after the first run."""

        def stub(event: Any, context: object) -> Any:
            if isinstance(handler, BaseException):
                raise handler
            return handler(event) if callable(handler) else handler

        self._register(plain_function(name=name)(stub))

    def _register(self, function: DurableFunction) -> None:
        if self._engine is not None:
            raise InvalidParameter("The runner has begun: register functions before the first run.")
        self._functions.append(_kept(function))

    # --- running

    def run(self, input: Any = None, *, name: str | None = None, timeout: float = _PATIENCE) -> Result:
        """Start the function and let time pass until the execution is over, successful or not. Raises NotYet after `timeout` seconds of
        real time, and ExecutionQuarantined if the execution is quarantined."""
        return self.wait_for_result(self.run_async(input, name=name), timeout)

    def run_async(self, input: Any = None, *, name: str | None = None) -> str:
        """Start the function and return the execution's ARN at once. The function runs, but the clock stands still until the test waits."""
        execution: BlockingExecution = self.engine.start(self.function, input, name=name)
        return execution.arn

    def wait_for_result(self, execution_arn: str, timeout: float = _PATIENCE) -> Result:
        """Let time pass until the execution is over. Raises NotYet after `timeout` seconds of real time, and ExecutionQuarantined if the
        execution is quarantined."""
        self._wait(execution_arn, lambda _: False, timeout, "the execution to end")
        return self.look(execution_arn)

    def wait_for_callback(self, execution_arn: str, name: str | None = None, timeout: float = _PATIENCE) -> str:
        """Let time pass until the execution waits for a callback of this name, or for any callback if `name` is None. Returns the
        callback's id. The callback of `wait_for_callback` with the name `sign` has the name `sign create callback id`; both names find it.

        Raises NotYet if the execution ends first, or after `timeout` seconds of real time; ExecutionQuarantined if the execution is
        quarantined.
        """
        self._wait(execution_arn, lambda _: self._open_callback(execution_arn, name) is not None, timeout, f"callback {name!r}")
        found = self._open_callback(execution_arn, name)
        if found is None or self._header(execution_arn).state is State.CLOSED:
            raise NotYet(f"The execution ended, {self._header(execution_arn).status.value}, without waiting for callback {name!r}.")
        return found.id

    def wait_for_callback_or_end(self, execution_arn: str, *, among: Container[str], timeout: float = _PATIENCE) -> WaitingCallback | None:
        """Let time pass until the execution waits for a callback of one of the names in `among`, or is over. Returns the callback, or None
        if the execution is over. Raises NotYet after `timeout` seconds of real time, and ExecutionQuarantined if the execution is
        quarantined."""

        def found() -> WaitingCallback | None:
            return next((open_ for open_ in self._open_callbacks(execution_arn) if any(name in among for name in open_.names)), None)

        self._wait(execution_arn, lambda state: state is State.SUSPENDED and found() is not None, timeout, "a callback or the end")
        return None if self._header(execution_arn).state is State.CLOSED else found()

    def _open_callback(self, execution_arn: str, name: str | None) -> WaitingCallback | None:
        found = [open_ for open_ in self._open_callbacks(execution_arn) if name in (None, open_.name, *open_.names)]
        return min(found, key=lambda open_: name not in (None, open_.name), default=None)  # its own name comes first

    def _open_callbacks(self, execution_arn: str) -> Iterator[WaitingCallback]:
        for operation in self._store.operations(self._header(execution_arn).id):
            if operation.type is Type.CALLBACK and operation.status is Status.STARTED and operation.callback_id is not None:
                yield WaitingCallback(operation.callback_id, operation.name)

    def wait_for_approval(self, execution_arn: str, timeout: float = _PATIENCE) -> Approval:
        """Let time pass until the execution is suspended and a run of a worker in this runner asks a person. Returns the first approval
        that is not decided.

        Raises NotYet if the execution ends first, or after `timeout` seconds of real time; ExecutionQuarantined if the execution is
        quarantined.
        """
        self._wait(execution_arn, lambda state: state is State.SUSPENDED and bool(self._approvals()), timeout, "an approval")
        for approval in self._approvals():
            return approval
        ended = self.look(execution_arn)
        why = "" if ended.error is None else f": {ended.error.message}"
        raise NotYet(f"The execution ended, {ended.status.value}, and no run asked a person{why}")

    def _approvals(self) -> Sequence[Approval]:
        from holdfast.workers.approval_pages import undecided
        from holdfast.workers.run_lookup import Caller

        return list(undecided(self._store, Caller()))

    def decide(self, approval_id: str, verdict: str = "approve", **more: Any) -> Approval:
        """Decide an approval as a person does, with the verdict `approve`, `reject` or `answer`. `more` may have `edited_arguments`,
        `result` (the answer to a question) and `comment`. Returns the approval as it is after that."""
        from holdfast.workers.approvals import Decision
        from holdfast.workers.run_lookup import Caller

        decision = Decision(verdict=verdict, decided_by="tester", decided_at=self.clock.now(), **more)
        _ = self.engine
        return self._opening.call(lambda engine: engine.worker_service.decide(approval_id, decision, Caller(principal="test")))

    def advance(self, duration: Duration) -> None:
        """Move the clock forward by this duration. The engine begins what is due then; this method does not wait for it."""
        until = self.clock.now() + duration.to_seconds() * 1000
        self.clock.move_to(until)
        self._look_around()

    def send_callback_success(self, callback_id: str, result: str | bytes | None = None) -> None:
        """Answer a callback. The handler gets the text unchanged, or None if `result` is None."""
        self.engine.succeed_callback(callback_id, result)

    def send_callback_failure(self, callback_id: str, message: str | None = None, error_type: str | None = None) -> None:
        """Answer a callback with an error, which is raised in the handler."""
        self.engine.fail_callback(callback_id, message, error_type)

    def send_callback_heartbeat(self, callback_id: str) -> None:
        """Send a heartbeat for a callback: its heartbeat timeout starts again."""
        self.engine.heartbeat_callback(callback_id)

    def get_execution_history(self, execution_arn: str) -> Sequence[HistoryEvent]:
        """The events of the execution so far, in order."""
        return self.look(execution_arn).history

    def look(self, execution_arn: str) -> Result:
        """The current state of the execution. If other executions continued it, one after the other, the state of the last one of them.
        Raises InvalidParameter if this runner has no such execution."""
        header = self._header(execution_arn)
        return seen(self._store, header, next((one for one in self._functions if one.name == header.function), None))

    def _header(self, execution_arn: str) -> Execution:
        header = self._store.find(Arn.parse(execution_arn).id)
        while header is not None and header.continued_as is not None:
            header = self._store.find(header.continued_as)
        if header is None:
            raise InvalidParameter(f"This runner has no execution {execution_arn}.")
        return header

    # --- inside

    @property
    def engine(self) -> BlockingEngine:
        """The engine. It is opened when it is first used; after that, no function can be registered."""
        if self._engine is None:
            opening = open_engine(":memory:", functions=self._functions, settings=self._settings)
            opening.wrap, opening.runtime = self.wrap, self._runtime()
            self._engine, self._opening = self._stack.enter_context(opening), opening
            store = self._opened_store = opening.inside(lambda engine: engine.store)
            assert isinstance(store, SqliteStore)
            store.seal = _SEAL  # a store's own key is random, and callback ids depend on it
        return self._engine

    def _runtime(self) -> WorkerRuntime | None:
        if not self._workers:
            return None
        from holdfast.testing.worker_stubs import TestWorkers  # a test without workers does not load their modules

        return TestWorkers(self._workers)

    @property
    def _store(self) -> Store:
        _ = self.engine
        return self._opened_store

    def _look_around(self) -> None:
        """Wake the engine, so that it looks at the clock again."""
        _ = self.engine
        self._opening.inside(lambda engine: engine.look_for_work())

    def _wait(self, execution_arn: str, wanted: Callable[[State], bool], seconds: float, what: str) -> None:
        """Let time pass until the execution is at rest, or until `wanted` is true in the state that it is in. Raises NotYet, and
        ExecutionQuarantined."""

        def reached() -> bool:
            state = self._header(execution_arn).state
            return state in _AT_REST or wanted(state)

        deadline = monotonic() + seconds
        never = threading.Event()
        self.clock.reached = reached
        try:
            self._look_around()
            while not reached():
                if monotonic() > deadline:
                    told = self.engine.get(execution_arn).describe()
                    raise NotYet(f"Waited {seconds:g} s for {what}. {told.why}")
                never.wait(_POLL_SECONDS)
        finally:
            self.clock.reached = lambda: True
        header = self._header(execution_arn)
        if header.state is State.QUARANTINED:
            raise quarantined(self._store, header)


def _kept(function: DurableFunction) -> DurableFunction:
    """The function with a long retention, so that its executions stay while a test lets years pass."""
    kept = copy.copy(function)
    kept.terms = msgspec.structs.replace(function.terms, retention_days=MAX_RETENTION_DAYS)
    return kept
