"""Threads for blocking calls: a bounded pool for each purpose, so that calls to a slow server do not delay calls to the disk.

Holdfast does not use asyncio's default executor: libraries may use it.
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
    """What a pool is for. The value is a part of the names of its threads."""

    STORE = "store"
    """Reading rows of the store, and a few short writes."""
    ARTIFACTS = "artifacts"
    """Reading and writing the bytes of artifacts, in a folder or a bucket."""
    KEYS = "keys"
    """Reading access keys and the tenant of an execution: every request waits for these."""
    NAMES = "names"
    """Looking up host names in DNS. A caller chooses the host name, so the answer may be slow."""
    SECRETS = "secrets"
    """Asking the providers of secrets and parameters."""
    LOGS = "logs"
    """Searching log files."""
    FILES = "files"
    """Reading files of folders that the operator opened to workers."""
    WORK = "work"
    """Computations that take a noticeable time, which has an upper bound."""
    CONSOLE = "console"
    """Reading and rendering pages of the console, so that slow pages do not delay runs."""
    HOUSE = "house"
    """Other blocking work of the runner itself, such as reading the files of workers."""


_SIZES = {Purpose.NAMES: 32, Purpose.LOGS: 2, Purpose.WORK: 2, Purpose.KEYS: 4, Purpose.CONSOLE: 4, Purpose.HOUSE: 16}
_USUAL_SIZE = 8
_pools: dict[Purpose, ThreadPoolExecutor] = {}
_making = threading.Lock()


def pool_for(purpose: Purpose) -> ThreadPoolExecutor:
    """The pool of this process for a purpose. Its threads start when calls need them."""
    with _making:
        if purpose not in _pools:
            _pools[purpose] = ThreadPoolExecutor(_SIZES.get(purpose, _USUAL_SIZE), thread_name_prefix=f"holdfast-{purpose.value}")
        return _pools[purpose]


async def in_thread(purpose: Purpose, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a blocking call in a thread of the pool for this purpose. The call sees a copy of the caller's context variables. Returns the
    result of the call."""
    context = contextvars.copy_context()
    made: Callable[[], T] = partial(context.run, partial(call, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(pool_for(purpose), made)
