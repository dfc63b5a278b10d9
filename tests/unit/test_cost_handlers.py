"""The handlers of costs, without a server."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.model.errors import ExecutionNotFound
from holdfast.server.protocol.costs import Costs
from holdfast.web.identity import WITHOUT_CREDENTIAL


class Noting:
    """A store without runs that notes in which threads it is read."""

    def __init__(self) -> None:
        self.readers: list[threading.Thread] = []

    def __getattr__(self, name: str) -> Any:
        def read(*asked: Any) -> Any:
            self.readers.append(threading.current_thread())
            return None if name in ("find", "ledger_root") else ()

        return read


@pytest.mark.parametrize("handler", ["get", "rest"])
async def test_costs_are_read_from_the_store_beside_the_event_loop(handler: str) -> None:
    store, served = Noting(), SimpleNamespace(clock=SimpleNamespace(now=lambda: 0))
    served.store = store
    costs: Any = Costs(served)  # type: ignore[arg-type]
    run = {"run": "none"}.get
    with pytest.raises(ExecutionNotFound):
        await getattr(costs, handler)(SimpleNamespace(text=run, tenant="zoo", label="none", identity=WITHOUT_CREDENTIAL, actor=None))
    assert store.readers
    assert threading.current_thread() not in store.readers
