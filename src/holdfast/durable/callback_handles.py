"""Handles: what `create_callback` and `create_timer` return, for `def` and for `async def` handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from holdfast.durable.identifier import Identity
from holdfast.durable.operation.wait import cancelled, rested
from holdfast.durable.plan import Plan

T = TypeVar("T")


class Callback(Generic[T]):
    """A callback that a `def` handler created: `callback_id` is for the system that will answer, `result()` gives the answer."""

    def __init__(self, callback_id: str, result: Callable[[], T | None], at: Identity) -> None:
        self.callback_id = callback_id
        self._result = result
        self.at = at

    def result(self) -> T | None:
        """Wait for the answer and return it; None if it has no value. The execution may be suspended meanwhile. Raises
        CallbackExternalError if the answer is a failure, CallbackTimeoutError if a time limit of the callback has passed."""
        return self._result()


class AsyncCallback(Generic[T]):
    """A callback that an `async def` handler created: `callback_id` is for the system that will answer, `await callback.result()` gives the
    answer."""

    def __init__(self, callback_id: str, result: Callable[[], Awaitable[T | None]], at: Identity) -> None:
        self.callback_id = callback_id
        self._result = result
        self.at = at

    def result(self) -> Awaitable[T | None]:
        """Await this to get the answer; None if it has no value. The execution may be suspended meanwhile. Raises the errors that
        `Callback.result()` raises."""
        return self._result()


class Timer:
    """A durable wait that `create_timer` of a `def` handler began. The code continues while the time passes."""

    def __init__(self, at: Identity, drive: Callable[[tuple[Identity, Plan[None]]], None]) -> None:
        self.at = at
        self._drive = drive

    def result(self) -> None:
        """Wait until the time has passed; the execution may be suspended meanwhile. Returns at once if the timer was cancelled."""
        self._drive((self.at, rested(self.at)))

    def cancel(self) -> None:
        """Cancel the timer, so that it does not wake the execution. Does nothing if the time has already passed."""
        self._drive((self.at, cancelled(self.at)))


class AsyncTimer:
    """A durable wait that `create_timer` of an `async def` handler began. The code continues while the time passes."""

    def __init__(self, at: Identity, drive: Callable[[tuple[Identity, Plan[None]]], Awaitable[None]]) -> None:
        self.at = at
        self._drive = drive

    def result(self) -> Awaitable[None]:
        """Wait until the time has passed; the execution may be suspended meanwhile. Returns at once if the timer was cancelled."""
        return self._drive((self.at, rested(self.at)))

    def cancel(self) -> Awaitable[None]:
        """Cancel the timer, so that it does not wake the execution. Does nothing if the time has already passed."""
        return self._drive((self.at, cancelled(self.at)))
