"""Threads for blocking calls: a bounded pool for each purpose, so that a call to a slow server never delays a call to the disk.

Holdfast does not use the event loop's own pool: it is left to libraries.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Purpose(StrEnum):
    """What a pool is for, and the name of its threads."""

    STORE = "store"
    """Reading rows."""
    ARTIFACTS = "artifacts"
    """Reading and writing the bytes of artifacts, in a folder or a bucket."""
    KEYS = "keys"
    """Reading access keys and the tenant of an execution: every request waits for these."""
    NAMES = "names"
    """Asking a name server. A caller chooses the name, so the server may be slow."""
    SECRETS = "secrets"
    """Asking the providers of secrets and parameters."""
    LOGS = "logs"
    """Searching log files."""
    FILES = "files"
    """Reading files of folders that the operator opened to workers."""
    WORK = "work"
    """Computations that take time, but a bounded time."""
    CONSOLE = "console"
    """Reading and rendering pages of the console, so that slow pages do not delay runs."""
    HOUSE = "house"
    """The runner's own housekeeping."""


_SIZES = {Purpose.NAMES: 32, Purpose.LOGS: 2, Purpose.WORK: 2, Purpose.KEYS: 4, Purpose.CONSOLE: 4, Purpose.HOUSE: 16}
_USUAL_SIZE = 8
_pools: dict[Purpose, ThreadPoolExecutor] = {}
_making = threading.Lock()


def pool_for(purpose: Purpose) -> ThreadPoolExecutor:
    """The pool of this process for a purpose; threads start when calls need them."""
    with _making:
        if purpose not in _pools:
            _pools[purpose] = ThreadPoolExecutor(_SIZES.get(purpose, _USUAL_SIZE), thread_name_prefix=f"holdfast-{purpose.value}")
        return _pools[purpose]


async def in_thread(purpose: Purpose, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a blocking call in a thread of its purpose's pool."""
    context = contextvars.copy_context()
    made: Callable[[], T] = partial(context.run, partial(call, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(pool_for(purpose), made)
