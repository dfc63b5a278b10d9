"""Opens a store for a block of code that needs neither an engine nor a client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from holdfast.model.clock import Clock
from holdfast.model.ids import IdSource, id_at
from holdfast.model.payloads import PayloadCodec
from holdfast.store.backends import open_store
from holdfast.store.seam import Store


@contextlib.contextmanager
def opened_store(where: str, clock: Clock, codec: PayloadCodec | None = None, *, ids: IdSource = id_at) -> Iterator[Store]:
    """The store at a path or an address, open until the block is left. A store that does not exist is made."""
    with contextlib.closing(open_store(where, ids(clock.now()), codec)) as store:
        yield store
