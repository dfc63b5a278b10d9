"""A runner for tests: the real engine on a store in memory, under a clock that stands still until the test waits for something.

The verbs are those of the official testing package where they fit. Time passes only inside `run`, `wait_for_result` and
`wait_for_callback`, and then only when nothing is left to do: a year's wait takes no time, and no callback times out behind a test's back.
Ids are the same in every run, and with them `context.uuid()`, `context.random()` and the ids of callbacks.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from random import Random, SystemRandom
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.durable.delays import Duration
from holdfast.durable.execution import DurableFunction
from holdfast.durable.plain import plain_function
from holdfast.engine.quarantines import quarantined
from holdfast.hosts.inline import InlineHost
from holdfast.model.clock import SystemClock, VirtualClock, monotonic
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import MAX_RETENTION_DAYS, Execution, State
from holdfast.model.ids import Arn, Ids, Seal, id_at
from holdfast.model.operations import Status, Type
from holdfast.model.ports import Host
from holdfast.service.engines import BlockingEngine, BlockingExecution
from holdfast.service.engines import open as open_engine
from holdfast.service.settings import Settings
from holdfast.store.seam import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.results import Result, seen

_PATIENCE = 60.0
_POLL_SECONDS = 0.002
_AT_REST: Final = (State.CLOSED, State.QUARANTINED)
_SEAL: Final = Seal(bytes(32))


class TestClock(VirtualClock):
    """Goes on only while somebody waits, and not past what they wait for."""

    __test__ = False  # not a test, whatever its name says

    def __init__(self, now: int) -> None:
        super().__init__(now, skipping=False)
        self.reached: Callable[[], bool] = lambda: True
        """Whether the test has what it waits for, so that time must stand still."""

    def skip_to(self, at: int) -> None:
        """Go to the engine's next timer, if the test still waits."""
        if not self.reached():
            self.move_to(at)


class OpenCallback(NamedTuple):
    """A callback that waits for its answer."""

    id: str
    name: str | None


class NotYet(HoldfastError, TimeoutError):
    """What a test waited for did not come in real time."""

    code = "test_waited_in_vain"


class Runner:
    """Runs durable functions for tests. Use it as a context manager."""

    def __init__(
        self,
        function: DurableFunction,
        *,
        functions: Sequence[DurableFunction] = (),
        stubs: Mapping[str, Any] | None = None,
        now: int = 1_767_225_600_000,
        replay: bool = True,
        settings: Settings | None = None,
    ) -> None:
        """`functions` are invoked for real; `stubs` stand in for others: a value, an exception to raise, or a call of the payload.

        `replay` throws waiting coroutines out of memory, so that every wake is a replay; `replay=False` keeps them, as an engine with room
        does. `settings` are an engine's; time, ids and chance are the runner's unless they name others, and `replay` holds for them too.
        """
        if not isinstance(function, DurableFunction):
            raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
        self.function = _kept(function)
        self.clock = TestClock(now)
        self._stack = ExitStack()
        self._engine: BlockingEngine | None = None
        self.wrap: Callable[[InlineHost], Host] = lambda host: host
        """Puts something between the engine and the host that runs the code."""
        self._functions = [self.function, *map(_kept, functions)]
        for name, stub in (stubs or {}).items():
            self.register_function(name, stub)
        self._settings = self._set(settings or Settings(park=1000, threads=8), replay)

    def _set(self, settings: Settings, replay: bool) -> Settings:
        """An engine's settings with the runner's time, ids and chance where they name none of their own."""
        if isinstance(settings.clock, TestClock):
            self.clock = settings.clock
        return msgspec.structs.replace(
            settings,
            clock=self.clock if isinstance(settings.clock, SystemClock) else settings.clock,
            ids=Ids(Random(0)) if settings.ids is id_at else settings.ids,
            chance=(lambda: Random(0)) if settings.chance is SystemRandom else settings.chance,
            park=0 if replay else settings.park,
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

    # --- what is invoked

    def register_durable_function(self, function: DurableFunction) -> None:
        """A function that may be invoked."""
        self._register(function)

    def register_function(self, name: str, handler: Any) -> None:
        """A stub for a function that is invoked: `handler(payload)`, or the result itself, or an exception to raise."""

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
        """Start the function and wait for its end, however it ends; `timeout` is in seconds of real time."""
        return self.wait_for_result(self.run_async(input, name=name), timeout)

    def run_async(self, input: Any = None, *, name: str | None = None) -> str:
        """Start the function and return its ARN. Time stands still until something is waited for."""
        execution: BlockingExecution = self.engine.start(self.function, input, name=name)
        return execution.arn

    def wait_for_result(self, execution_arn: str, timeout: float = _PATIENCE) -> Result:
        """Let time pass until the execution is over. One that was put aside raises ExecutionQuarantined."""
        self._wait(lambda: self._header(execution_arn).state in _AT_REST, timeout, "the execution to end", execution_arn)
        self._check_not_aside(execution_arn)
        return self.look(execution_arn)

    def wait_for_callback(self, execution_arn: str, name: str | None = None, timeout: float = _PATIENCE) -> str:
        """Let time pass until the execution waits for a callback (of this name), and return its id."""

        def reached() -> bool:
            return self._open_callback(execution_arn, name) is not None or self._header(execution_arn).state in _AT_REST

        self._wait(reached, timeout, f"callback {name!r}", execution_arn)
        self._check_not_aside(execution_arn)
        found = self._open_callback(execution_arn, name)
        if found is None:
            raise NotYet(f"The execution ended, {self._header(execution_arn).status.value}, without waiting for callback {name!r}.")
        return found.id

    def wait_for_callback_or_end(self, execution_arn: str, *, among: Container[str], timeout: float = _PATIENCE) -> OpenCallback | None:
        """Let time pass until the execution waits for a callback of one of these names, or is over, which is None."""

        def found() -> OpenCallback | None:
            return next((open_ for open_ in self._open_callbacks(execution_arn) if (open_.name or "") in among), None)

        def reached() -> bool:
            state = self._header(execution_arn).state
            return state in _AT_REST or (state is State.SUSPENDED and found() is not None)

        self._wait(reached, timeout, "a callback or the end", execution_arn)
        self._check_not_aside(execution_arn)
        return None if self._header(execution_arn).state is State.CLOSED else found()

    def _check_not_aside(self, execution_arn: str) -> None:
        header = self._header(execution_arn)
        if header.state is State.QUARANTINED:
            raise quarantined(self._store, header)

    def _open_callback(self, execution_arn: str, name: str | None) -> OpenCallback | None:
        return next((open_ for open_ in self._open_callbacks(execution_arn) if name in (None, open_.name)), None)

    def _open_callbacks(self, execution_arn: str) -> Iterator[OpenCallback]:
        for operation in self._store.operations(self._header(execution_arn).id):
            if operation.type is Type.CALLBACK and operation.status is Status.STARTED and operation.callback_id is not None:
                yield OpenCallback(operation.callback_id, operation.name)

    def advance(self, duration: Duration) -> None:
        """Let time pass by hand, to the second, and whatever is due happen."""
        until = self.clock.now() + duration.to_seconds() * 1000
        self.clock.move_to(until)
        self._look_around()

    def send_callback_success(self, callback_id: str, result: str | bytes | None = None) -> None:
        """Answer a callback; the text is handed on as it is."""
        self.engine.succeed_callback(callback_id, result)

    def send_callback_failure(self, callback_id: str, message: str | None = None, error_type: str | None = None) -> None:
        """Answer a callback with an error."""
        self.engine.fail_callback(callback_id, message, error_type)

    def send_callback_heartbeat(self, callback_id: str) -> None:
        """Say that somebody still works on a callback."""
        self.engine.heartbeat_callback(callback_id)

    def get_execution_history(self, execution_arn: str) -> list[dict[str, Any]]:
        """Its events so far."""
        return self.look(execution_arn).history

    def look(self, execution_arn: str) -> Result:
        """The execution as it stands now; one that continued as another is the last of them."""
        header = self._header(execution_arn)
        return seen(self._store, header, next((one for one in self._functions if one.name == header.function), None))

    def _header(self, execution_arn: str) -> Execution:
        header = self._store.find(Arn.parse(execution_arn).id)
        while header is not None and header.continued_as is not None:
            header = self._store.find(header.continued_as)
        if header is None:
            raise InvalidParameter(f"There is no execution {execution_arn} here.")
        return header

    # --- inside

    @property
    def engine(self) -> BlockingEngine:
        """The engine, opened with the first run."""
        if self._engine is None:
            opening = open_engine(":memory:", functions=self._functions, settings=self._settings)
            opening.wrap = self.wrap
            self._engine = self._stack.enter_context(opening)
            store = self._engine._inner._store
            assert isinstance(store, SqliteStore)
            store.seal = _SEAL  # its own key is drawn anew each time, and callback ids with it
        return self._engine

    @property
    def _store(self) -> Store:
        return self.engine._inner._store

    def _look_around(self) -> None:
        """Have the engine look at the clock again."""
        inner = self.engine._inner

        async def look() -> None:
            inner._engine.look()

        self.engine._portal.call(look)

    def _wait(self, fact: Callable[[], bool], seconds: float, what: str, execution_arn: str) -> None:
        deadline = monotonic() + seconds
        never = threading.Event()
        self.clock.reached = fact
        try:
            self._look_around()
            while not fact():
                if monotonic() > deadline:
                    told = self.engine.get(execution_arn).describe()
                    raise NotYet(f"Waited {seconds:g} s for {what}. {told.why}")
                never.wait(_POLL_SECONDS)
        finally:
            self.clock.reached = lambda: True


def _kept(function: DurableFunction) -> DurableFunction:
    """The function, whose executions are not forgotten while a test lets years pass."""
    kept = copy.copy(function)
    kept.terms = msgspec.structs.replace(function.terms, retention_days=MAX_RETENTION_DAYS)
    return kept
