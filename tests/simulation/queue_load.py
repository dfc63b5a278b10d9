"""The queues of a simulation: their settings, made by chance, and who enqueues what."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from holdfast.model.queues import Mode, QueueRow, checked_declaration
from holdfast.store.seam import QueueStore

QUEUES: Final = ("narrow", "rated", "ordered")
TENANTS: Final = ("acme", "bolt")
KEYS: Final = ("k1", "k2")


def declared(chance: Random) -> list[QueueRow]:
    """The queues as the code of every process declares them."""
    waiting = chance.choice(["holds", "free"])
    narrow: dict[str, Any] = {
        "limits": {"at_once": chance.randint(1, 3)},
        "per_tenant": {"at_once": chance.choice([1, 2])},
        "waiting": waiting,
    }
    if chance.random() < 0.3:
        narrow["most_waiting"] = 2
    rates = [chance.choice(["2/s burst 1", "5/10s burst 3", "10/s burst 10"])]
    rated: dict[str, Any] = {
        "limits": {"rates": rates, "at_once": 4},
        "per_key": {"at_once": chance.choice([1, 2])},
        "waiting": chance.choice(["holds", "free"]),
    }
    ordered: dict[str, Any] = {"ordered": True, "per_tenant": {"at_once": 2}}
    return [checked_declaration(name, settings) for name, settings in zip(QUEUES, (narrow, rated, ordered), strict=True)]


def asked(chance: Random) -> dict[str, Any]:
    """How a caller enqueues: the tenant, and the arguments of `enqueue_of`."""
    queue = chance.choice(QUEUES)
    key = chance.choice(KEYS) if queue == "ordered" or chance.random() < 0.5 else None
    return {
        "queue": queue,
        "key": key,
        "tenant": chance.choice(TENANTS),
        "delay": chance.choice([0, 0, 0, 0.3, 8]),
        "ttl": chance.choice([None, None, None, 4, 60]),
        "head_start": chance.choice([0, 0, 5]),
    }


def set_by_chance(store: QueueStore, chance: Random) -> str:
    """What an operator does to a queue."""
    name = chance.choice(QUEUES)
    row = store.queue(name) or QueueRow(name=name)
    deed = chance.choice(["pause", "open", "open", "drain", "limit"])
    if deed == "limit" and name == "narrow":
        row = msgspec.structs.replace(row, operator={"limits": {"at_once": chance.randint(1, 4)}})
    else:
        row = msgspec.structs.replace(row, mode={"pause": Mode.PAUSED, "drain": Mode.DRAINING}.get(deed, Mode.OPEN))
    return f"{deed} {name}: {store.set_queue(row)}"


def open_all(store: QueueStore) -> None:
    """Calm: no queue is paused or drained any more."""
    for row in store.queues():
        if row.mode is not Mode.OPEN:
            store.set_queue(msgspec.structs.replace(row, mode=Mode.OPEN))
