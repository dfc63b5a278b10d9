"""The official testing package's runner, driven by a case's script as running.py drives our engine.

The runner's own skip clock runs on while an invocation runs, and callback timeouts and retries of an invocation wait in real time. So
its clock and its timers are ours here: time stands still, but for a microsecond at each look (the runner sorts its history by time),
until the driver moves it, and it moves it only when the execution waits for nothing but time. All else is the runner's own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import msgspec
from aws_durable_execution_sdk_python.lambda_service import ErrorObject, OperationStatus, OperationType
from aws_durable_execution_sdk_python.lambda_service import Operation as OfficialOperation
from aws_durable_execution_sdk_python_testing import runner as runners
from aws_durable_execution_sdk_python_testing.execution import Execution
from aws_durable_execution_sdk_python_testing.scheduler import Event, Scheduler
from aws_durable_execution_sdk_python_testing.token import CallbackToken

from holdfast.durable.execution import DurableFunction
from holdfast.model.clock import VirtualClock, monotonic
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, ExecutionStatus
from tests.flow.official.running import PATIENCE_SECONDS, Answer, Deed, Ending, Fail

REGION, ACCOUNT = "local", "000000000000"
TICK = timedelta(microseconds=1)


class HeldClock:
    """Stands still, but for a tick at each look."""

    def __init__(self) -> None:
        self._now = datetime.fromtimestamp(VirtualClock().now() / 1000, UTC)
        self._tick_lock = threading.Lock()

    def now(self) -> datetime:
        with self._tick_lock:
            self._now += TICK
            return self._now

    def arm(self, wake: datetime) -> float:
        return (wake - self._now).total_seconds()

    def move_to(self, at: datetime) -> None:
        self._now = max(self._now, at)


class RunnerDied(Exception):
    """The runner's loop is gone: something escaped from a handler that it does not catch."""


class Timer(msgspec.Struct):
    at: datetime
    func: Callable[[], Any]
    completion_event: Event | None
    future: Future[Any]


class HeldTimers(Scheduler):
    """Does at once what is due at once; what is due later waits for the driver."""

    def __init__(self, clock: HeldClock) -> None:
        super().__init__()
        self._clock = clock
        self._waiting: list[Timer] = []
        self._live = 0
        self._changed = threading.Condition()

    def call_later(
        self, func: Callable[[], Any], delay: float = 0, count: int | None = 1, completion_event: Event | None = None
    ) -> Future[Any]:
        if delay > 0:
            timer = Timer(self._clock.now() + timedelta(seconds=delay), func, completion_event, Future())
            self._waiting.append(timer)
            return timer.future
        with self._changed:
            self._live += 1
        future: Future[Any] = super().call_later(func, 0, count, completion_event)
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        with self._changed:
            self._live -= 1
            self._changed.notify_all()

    def rested(self) -> None:
        """Wait until nothing runs and nothing is about to."""
        deadline = monotonic() + PATIENCE_SECONDS
        with self._changed:
            while self._live:
                if not self._thread.is_alive():
                    raise RunnerDied
                assert monotonic() < deadline, "the execution does not end or suspend"
                self._changed.wait(0.05)

    def _start_loop(self) -> None:
        try:
            super()._start_loop()  # type: ignore[no-untyped-call]
        except SystemExit:  # the runner is dead, and says no more about it
            self._loop.set_exception_handler(lambda loop, context: None)

    def stop(self) -> None:
        if self._thread.is_alive():
            super().stop()  # type: ignore[no-untyped-call]
        self._loop.close()

    def fire(self) -> None:
        """Go to the next timer and let it act."""
        self._waiting = [timer for timer in self._waiting if not timer.future.cancelled()]
        timer = min(self._waiting, key=lambda timer: timer.at)
        self._waiting.remove(timer)
        self._clock.move_to(timer.at)
        self.call_later(timer.func, 0, 1, timer.completion_event)


class Runner:
    """One execution of one handler on the official runner."""

    def __init__(self, runner: Any, timers: HeldTimers, clock: HeldClock) -> None:
        self._runner = runner
        self._timers = timers
        self._clock = clock
        self.arn = ""

    def start(self, event: object) -> None:
        payload = msgspec.json.encode(event).decode()
        where = {"function_name": "handler", "execution_name": "case", "account_id": ACCOUNT}
        self.arn = self._runner.run_async(payload, execution_timeout=MAX_TIMEOUT_SECONDS, **where)

    @property
    def execution(self) -> Execution:
        found: Execution = self._runner._store.load(self.arn)
        return found

    def open_callbacks(self) -> dict[str, OfficialOperation]:
        """Callbacks that wait for an answer, by name."""
        operations = self.execution.operations
        started = (op for op in operations if op.operation_type is OperationType.CALLBACK and op.status is OperationStatus.STARTED)
        return {op.name or "": op for op in started}

    def until(self, fact: Callable[[Execution], bool], what: str) -> None:
        """Wait for a fact about the execution."""
        deadline = monotonic() + PATIENCE_SECONDS
        never = threading.Event()
        while not fact(self.execution):
            assert monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for: {what}"
            never.wait(0.001)

    def drive(self, script: dict[str, list[Deed]]) -> None:
        """Follow the script until the execution is closed."""
        while True:
            self._timers.rested()
            if self.execution.is_complete:
                return
            for name, callback in self.open_callbacks().items():
                if script.get(name):
                    self.do(script[name].pop(0), callback)
                    break
            else:
                self._timers.fire()

    def do(self, deed: Deed, callback: OfficialOperation) -> None:
        """Do what the script says to a callback."""
        assert callback.callback_details is not None
        callback_id = callback.callback_details.callback_id
        if isinstance(deed, Answer):
            self._runner.send_callback_success(callback_id, None if deed.text is None else deed.text.encode())
        elif isinstance(deed, Fail):
            error = deed.error
            trace = None if error.stack_trace is None else list(error.stack_trace)
            self._runner.send_callback_failure(callback_id, ErrorObject(error.message, error.type, error.data, trace))
        else:
            self._clock.move_to(self._clock.now() + timedelta(seconds=deed.after_seconds))
            self._runner.send_callback_heartbeat(callback_id)

    def ending(self) -> Ending:
        """What it came to."""
        execution = self.execution
        assert execution.result is not None
        assert execution.close_status is not None
        error = execution.result.error
        payload = execution.result.result if error is None else msgspec.json.encode(error.to_dict()).decode()
        told = self._runner._executor.get_execution_history(self.arn, include_execution_data=True, max_items=100_000)
        history = [self._plain(event.to_dict()) for event in told.events]
        return Ending(ExecutionStatus(execution.close_status.value), payload, history)

    def _plain(self, event: dict[str, Any]) -> dict[str, Any]:
        """An event as our engine would tell it: times in seconds, random ids taken out."""
        plain: dict[str, Any] = _seconds(event)
        if plain.get("Id") == self.arn.rpartition("/")[2]:
            plain["Id"] = "the execution"
        details = plain.get(f"{plain['EventType']}Details", {})
        if "RequestId" in details:
            details["RequestId"] = "an invocation"
        if "DurableExecutionArn" in details:
            assert details["DurableExecutionArn"] in self.execution.chained_invoke_children.values()
            details["DurableExecutionArn"] = "an execution"
        if "CallbackId" in details:
            owner = CallbackToken.from_str(details["CallbackId"])
            assert owner.execution_arn == self.arn
            details["CallbackId"] = f"of {owner.operation_id}"
        return plain


def _seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _seconds(member) for key, member in value.items()}
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000) / 1000
    return value


@contextlib.contextmanager
def plain_runner(handler: Any) -> Iterator[Any]:
    """The official runner as it is; only its loop, which it leaves open, is closed."""
    runner = runners.DurableFunctionTestRunner(handler, poll_interval=0.01)
    with runner:
        yield runner
    runner._scheduler._loop.close()


@contextlib.contextmanager
def official_runner(handler: Any, others: Mapping[str, DurableFunction]) -> Iterator[Runner]:
    """The official runner with one handler, and what it invokes."""
    clock = HeldClock()
    timers = HeldTimers(clock)
    with mock.patch.multiple(runners, Scheduler=lambda: timers, SkipClock=lambda: clock):
        runner = runners.DurableFunctionTestRunner(handler, poll_interval=0.01, region=REGION)
    for name, function in others.items():
        plain = getattr(function.handler, "__wrapped__", None)
        if plain is None:
            runner.register_durable_function(name, function, MAX_TIMEOUT_SECONDS)
        else:
            runner.register_function(name, plain)
    with runner:
        yield Runner(runner, timers, clock)
