"""Settings: one frozen object, made once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import msgspec

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.ids import IdSource, id_at
from holdfast.model.payloads import PayloadCodec
from holdfast.model.ports import Observer
from holdfast.store.backends import placed

DEFAULT_STORE = "holdfast.db"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs. Time, ids and chance are here so that tests can bring their own."""

    store: str = DEFAULT_STORE
    threads: int = 32
    """Threads for `def` handlers and for the `def` steps of `async def` handlers."""
    live: int = 10_000
    """Coroutines that may be live at once."""
    park: int = 10_000
    """Waiting coroutines that stay in memory; 0 replays at every wake."""
    tune: bool = True
    """Set the interpreter up for many coroutines beside busy threads (see `service.tuning`)."""
    codec: PayloadCodec | None = None
    """Encodes payloads in the store's file, e.g. `holdfast.AesGcm`. A store is always opened with the codec that made it."""
    migrate: bool = False
    """Bring a Postgres store of an older release up to date when it is opened; the store's file always is."""
    observers: tuple[Observer, ...] = ()
    """Look on at executions of functions, e.g. `holdfast.signals.function_metrics.FunctionMetrics`."""
    clock: Clock = msgspec.field(default_factory=SystemClock)
    ids: IdSource = id_at
    chance: Callable[[], random.Random] = random.SystemRandom

    def __post_init__(self) -> None:
        if (meant := placed(self.store)) != self.store:
            msgspec.structs.force_setattr(self, "store", meant)


def default_codec() -> str | None:
    """What encodes payloads when nobody says: `HOLDFAST_CODEC`, the address of a codec; else nothing does."""
    return os.environ.get("HOLDFAST_CODEC") or None


def default_store() -> str:
    """Where the store is when nobody says: `HOLDFAST_STORE`, else a file in the current folder."""
    return os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE
