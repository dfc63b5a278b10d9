"""Settings: one frozen object, made once."""

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
from holdfast.service.declared_queues import Queue, QueueTable, declared_together
from holdfast.store.backends import placed

DEFAULT_STORE = "holdfast.db"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs. Clock, ids and randomness are here so that tests can replace them."""

    store: str = DEFAULT_STORE
    threads: int = 32
    """How many threads there are for `def` handlers and for the `def` steps of `async def` handlers."""
    live: int = 10_000
    """The most live coroutines at one time."""
    resting: int = 10_000
    """The most waiting coroutines that stay in memory. With 0, an execution is replayed at every wake-up."""
    tune: bool = True
    """Whether to tune the interpreter for many coroutines beside busy threads (see `service.interpreter_tuning`)."""
    codec: PayloadCodec | None = None
    """Encodes the payloads in the store, e.g. `holdfast.AesGcm`. A store must always be opened with the codec that it was made with."""
    migrate: bool = False
    """Whether this process migrates the schema of an older Postgres store when it opens the store. A SQLite file is always migrated."""
    observers: tuple[Observer, ...] = ()
    """Observe executions of functions, e.g. `holdfast.signals.function_metrics.FunctionMetrics`."""
    at_once: int | None = None
    """The most invocations of all functions and workers together that may be live; None leaves it to `threads` and `live`."""
    only: Only | None = None
    """The queues and tenants whose executions this process takes; None for all."""
    queues: tuple[Queue, ...] = ()
    """Queues that the program declares. `holdfast.open(queues=…)` adds to them."""
    clock: Clock = msgspec.field(default_factory=SystemClock)
    ids: IdSource = id_at
    chance: Callable[[], random.Random] = random.SystemRandom

    def __post_init__(self) -> None:
        if (meant := placed(self.store)) != self.store:
            msgspec.structs.force_setattr(self, "store", meant)


def default_codec() -> str | None:
    """The address of the default payload codec: `HOLDFAST_CODEC`; None means no codec."""
    return os.environ.get("HOLDFAST_CODEC") or None


def default_store() -> str:
    """The default place of the store: `HOLDFAST_STORE`, else a file in the current folder."""
    return os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE


def settings_for_open(
    settings: Settings, codec: PayloadCodec | None, queues: Sequence[Queue], operators: Mapping[str, QueueTable], *, migrate: bool
) -> Settings:
    """The settings, with the arguments of `holdfast.open` added. `operators`: the queues of the operator's file."""
    both = declared_together([*settings.queues, *queues], operators)
    return msgspec.structs.replace(
        settings, queues=both, codec=settings.codec if codec is None else codec, migrate=settings.migrate or migrate
    )
