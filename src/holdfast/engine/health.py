"""Trouble with the store: trouble that concerns the whole engine, and trouble that concerns one execution.

`Health` is the first kind: whether the disk under the store works, as far as this engine knows. While the disk fails, the engine pauses: it
claims nothing, the writes of running invocations wait, and callers who ask for something new get an error. The poller tries again once a
second (scheduler.py), and the pause ends when the disk accepts a write. The log has one line when a pause begins, and one when the disk has
worked for two seconds, so a disk that accepts one write and refuses the next does not fill the log.

A runner that died is another matter: the scheduler notices it (scheduler.py).

`spared` and `readable` are for the second kind: a row that cannot be read harms its own execution only.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from holdfast.model.clock import monotonic
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.execution import Execution
from holdfast.store.seam import ExecutionStore

log = logging.getLogger("holdfast.engine")

_SURE_SECONDS: Final = 2.0


class Health:
    """What is known of one engine's disk."""

    def __init__(self, runner: str, well: Callable[[], object]) -> None:
        self._runner = runner
        self._well = well
        """Called, from any thread, when a pause ends."""
        self._changing = threading.Lock()
        self._fell_at = self._rose_at = 0.0
        self._told = False
        """Whether the log says that the disk fails, and does not yet say that it works again."""
        self.trouble: DiskFailed | None = None
        """The error because of which the engine pauses; None if it does not pause."""

    def fell(self, trouble: DiskFailed) -> None:
        """Note that the disk refused a read or a write: a pause begins."""
        with self._changing:
            self.trouble = trouble
            if not self._told:
                self._told, self._fell_at = True, monotonic()
                log.error("%s pauses until its store works again: %s", self._runner, trouble)

    def rose(self) -> None:
        """Note that the disk accepted a write, or that nothing waits for it: the pause ends."""
        with self._changing:
            if self.trouble is not None:
                self.trouble, self._rose_at = None, monotonic()
                self._well()

    def tell(self) -> None:
        """Log that the pause is over, once the disk has worked for two seconds. The poller calls this again and again."""
        with self._changing:
            if self._told and self.trouble is None and monotonic() - self._rose_at >= _SURE_SECONDS:
                self._told = False
                log.warning("%s continues: its store works again after %.0f s", self._runner, self._rose_at - self._fell_at)


class spared:  # noqa: N801  it is used like a function
    """A `with` block around the work for one of several executions. An error in the block is logged and not raised, so that the work for
    the other executions continues. Still raised are an error of the type `raises` (by default DiskFailed), and what is no `Exception`, such
    as KeyboardInterrupt."""

    __slots__ = ("_execution", "_raises")

    def __init__(self, execution: str, raises: type[Exception] = DiskFailed) -> None:
        self._execution, self._raises = execution, raises

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, trouble: BaseException | None, __: object) -> bool:
        if not isinstance(trouble, Exception) or isinstance(trouble, self._raises):
            return False
        log.warning(
            "could not process execution %s: %s", self._execution, trouble, exc_info=None if isinstance(trouble, HoldfastError) else trouble
        )
        return True


def readable(store: ExecutionStore, executions: Iterable[str], raises: type[Exception] = DiskFailed) -> Iterator[Execution]:
    """Those of the given executions that exist and can be read. If a read raises an error of the type `raises`, the error is raised. Any
    other error is logged, and the execution is left out."""
    for execution in executions:
        header = None
        with spared(execution, raises):
            header = store.find(execution)
        if header is not None:
            yield header
