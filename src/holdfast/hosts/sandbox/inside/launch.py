"""The last step: import the entry inside the jail and call it."""

from __future__ import annotations

import _thread
import contextlib
import errno
import importlib
import os
import sys
import tempfile
import traceback
from types import TracebackType
from typing import Final, NoReturn

from holdfast.hosts.sandbox.inside.jail_plan import BODY_FD, EXITS, JailPlan

_STACK: Final = 2 << 20
_OF_LIMITS: Final = {code: number for number, code in EXITS.items()}
_STARTERS: Final = {"fork", "forkpty", "_fork_exec", "posix_spawn", "posix_spawnp", "execv", "execve", "fork_exec"}


def launch(plan: JailPlan, scratch: str) -> NoReturn:
    """Import the entry, call it, and end this process with an exit code for its result. `scratch` becomes the folder for HOME and for
    temporary files."""
    os.environ.clear()
    os.environ.update(HOME=scratch, TMPDIR=scratch, LANG="C.UTF-8", PATH=os.path.dirname(sys.executable), PYTHONDONTWRITEBYTECODE="1")
    sys.path[:] = [*[path for path in sys.path if path not in plan.path], plan.package, *plan.path]
    sys.dont_write_bytecode = True
    tempfile.tempdir = None  # forget the stub's temporary folder
    sys.argv = [plan.entry]
    _thread.stack_size(_STACK)  # each thread's stack counts as memory
    importlib.invalidate_caches()
    os._exit(_outcome(plan))


def _outcome(plan: JailPlan) -> int:
    try:
        module, _, name = plan.entry.partition(":")
        getattr(importlib.import_module(module), name)(BODY_FD, *plan.arguments)
        code = 0
    except MemoryError:
        return _OF_LIMITS["memory_exceeded"]  # there is no memory to print the error
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        code = _OF_LIMITS.get(passed_limit(error) or "", 1)
        traceback.print_exception(error)
    for stream in ("stdout", "stderr"):  # the body may have replaced the streams
        with contextlib.suppress(Exception):
            getattr(sys, stream).flush()
    return code


def passed_limit(error: BaseException) -> str | None:
    """The name of the limit that caused an exception; None if no limit did. If it is not None, a body that catches all exceptions should
    raise this exception again, so that the attempt ends with the name of the limit."""
    if isinstance(error, MemoryError):
        return "memory_exceeded"
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "process_limit"
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "disk_exceeded"
    if error.errno == errno.ENOMEM:
        return "memory_exceeded"
    refused = error.errno in (errno.EAGAIN, errno.EPERM) and _starts(error.__traceback__)
    return "process_limit" if refused else None


def _starts(at: TracebackType | None) -> bool:
    """Whether the error came from starting a process. `at` is the error's traceback: its last frame must use a function that starts
    processes."""
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and bool(_STARTERS & set(at.tb_frame.f_code.co_names))
