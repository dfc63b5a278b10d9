"""The settings of an engine, and their defaults from the environment."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.ids import IdSource, id_at
from holdfast.model.payloads import PayloadCodec
from holdfast.model.places import Only
from holdfast.model.ports import Observer
from holdfast.queues.declarations import Queue, QueueTable, declared_together
from holdfast.store.backends import placed

DEFAULT_STORE = "holdfast.db"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs."""

    store: str = DEFAULT_STORE
    """The path of a file, the address of a Postgres database, or `:memory:`. `holdfast.open(store)` wins over it."""
    threads: int = 32
    """How many threads run `def` handlers and the `def` steps of `async def` handlers."""
    live: int = 10_000
    """At most this many invocations of `async def` handlers are live at one time. Other executions wait until one of these ends or
    suspends."""
    resting: int = 10_000
    """When an execution with an `async def` handler is suspended, its coroutine stays in memory, so that it continues without a replay. At
    most this many coroutines stay. If there are more, the oldest are removed, and their executions are replayed when they continue. With 0,
    every suspended execution is replayed."""
    tune: bool = True
    """Whether to change two settings of the Python interpreter, for the whole process: a shorter switch interval of threads, and fewer runs
    of the garbage collector."""
    codec: PayloadCodec | None = None
    """Encodes the payloads in the store, e.g. `holdfast.AesGcm`; None: they are plain text. A store must always be opened with the codec
    that it was made with."""
    migrate: bool = False
    """Whether this process migrates the schema of an older Postgres store when it opens the store. A SQLite file is always migrated."""
    observers: tuple[Observer, ...] = ()
    """Objects that are told what happens to executions of functions, e.g. `holdfast.signals.function_metrics.FunctionMetrics`."""
    at_once: int | None = None
    """At most this many invocations of all functions and workers together are live at one time; with 0 the engine runs none. None: the
    limits are `threads` and `live`."""
    only: Only | None = None
    """The queues and tenants whose executions this process runs; None: all."""
    queues: tuple[Queue, ...] = ()
    """Queues that the program declares. `holdfast.open(queues=…)` adds to them."""
    clock: Clock = msgspec.field(default_factory=SystemClock)
    """The clock of the engine. Tests may give another one."""
    ids: IdSource = id_at
    """Makes the ids of executions and invocations. Tests may give another one."""
    chance: Callable[[], random.Random] = random.SystemRandom
    """Makes the source of random numbers, for example for the delays of retries. Tests may give another one."""

    def __post_init__(self) -> None:
        if (meant := placed(self.store)) != self.store:
            msgspec.structs.force_setattr(self, "store", meant)


def default_codec() -> str | None:
    """The text of the environment variable `HOLDFAST_CODEC`, which names a codec; None if it is not set or empty."""
    return os.environ.get("HOLDFAST_CODEC") or None


def default_store() -> str:
    """The store that the environment variable `HOLDFAST_STORE` names; without it, `holdfast.db` in the current folder."""
    return os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE


def settings_for_open(
    settings: Settings, codec: PayloadCodec | None, queues: Sequence[Queue], operators: Mapping[str, QueueTable], *, migrate: bool
) -> Settings:
    """The settings, with the arguments of `holdfast.open` added. `operators` has the queues of the operator's file, by name."""
    both = declared_together([*settings.queues, *queues], operators)
    return msgspec.structs.replace(
        settings, queues=both, codec=settings.codec if codec is None else codec, migrate=settings.migrate or migrate
    )
