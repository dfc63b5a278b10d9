"""A pipeline that pays, for tests that kill its processes: one order, a map of orders, one more, and an undo if the end fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.model.execution import Execution
from holdfast.model.operations import RUN
from holdfast.service.client import Client
from holdfast.store.seam import Filter
from holdfast.workers.run_operations import INTENT
from tests.workers.pages import page, write
from tests.workers.processes import Runner
from tests.workers.shop import Shop

PAYERS = Path(__file__).parents[1] / "workers" / "bodies" / "payers.py"
TOOLS = ("pay_known", "pay_blind")
ENOUGH_SECONDS = 300
"""Of an attempt that a test holds still: its own time must not run out before the blow."""
PIPELINE = """
from holdfast import Pipeline, WorkerError

@worker("breaker.md")
async def breaks(inputs, ctx):
    if inputs["fails"]:
        raise WorkerError("broken_part", "it is broken")
    return {}

p = Pipeline("payday", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
first = p.worker("first", "async-payer", {"order": p.inputs.first, "tool": "pay_known"}, undo=("plain-payer", p.inputs.undo))
rest = p.map("rest", "plain-payer", p.inputs.orders, {"order": p.item, "tool": "pay_known"}, at_most=10, at_once=4, after=first)
last = p.worker("last", "async-payer", {"order": p.inputs.last, "tool": "pay_known"}, after=rest)
end = p.worker("end", "breaker", {"fails": p.inputs.fails}, after=last)
p.gives({"first": first.outputs.paid, "rest": rest.ok.outputs.paid, "last": last.outputs.paid, "end": end.outputs})
"""


class Payday:
    """One run of the pipeline, and the order at which the blow comes."""

    def __init__(self, name: str, moment: str, place: str = "first") -> None:
        self.name = name
        self.moment = moment
        self.place = place
        self.first, self.last, self.undo = f"{name}-first", f"{name}-last", f"{name}-undo"
        self.orders = [f"{name}-rest-{n}" for n in range(3)]
        self.held = self.orders[1] if place == "rest" else f"{name}-{place}"

    @property
    def fails(self) -> bool:
        return self.place == "undo"

    @property
    def inputs(self) -> dict[str, Any]:
        undo = {"order": self.undo, "tool": "pay_known"}
        return {"first": self.first, "orders": self.orders, "last": self.last, "fails": self.fails, "undo": undo}

    @property
    def effects(self) -> dict[str, int]:
        """What the shop must have done at the end: each order once."""
        return dict.fromkeys([self.first, *self.orders, self.last, *([self.undo] if self.fails else [])], 1)


class PaydayScene:
    """A shop, a store, and runners that may be killed and started again."""

    def __init__(self, folder: Path, shop: Shop, store: str) -> None:
        self.shop = shop
        self._folder = folder
        self._store = store
        pages = {
            name: page(name.replace("_", "-"), *tools, attempts=3, timeout_seconds=ENOUGH_SECONDS)
            for name, tools in {"async_payer": TOOLS, "plain_payer": TOOLS, "breaker": ()}.items()
        }
        self._file = write(folder / "payday", PAYERS.read_text() + PIPELINE, **pages)
        self.runners: list[Runner] = []
        self.client: Client

    def another(self) -> Runner:
        """Start a runner on the same store."""
        made = Runner(self._store, self._file, folder=self._folder, environment={"SHOP": self.shop.url})
        self.runners.append(made)
        return made

    def close(self) -> None:
        self.client.close()
        for runner in self.runners:
            if not runner.is_gone:
                runner.close()

    def begin(self, runner: Runner, days: Sequence[Payday]) -> list[int]:
        """Bring every run to its moment."""
        for day in days:
            self.shop.hold(day.held, day.moment)
        numbers = [self.ask(runner, day) for day in days]
        for day in days:
            self.shop.wait_for(day.held, day.moment)
        return numbers

    def ask(self, runner: Runner, day: Payday) -> int:
        return runner.ask("payday", day.inputs, key=day.name)

    def check(self, day: Payday, response: dict[str, Any], resent: int | None = None) -> None:
        """It ended as it should, the shop did everything once, and nothing of the run was begun twice."""
        if day.fails:
            assert response["error"]["error_code"] == "broken_part", response
        else:
            paid = {"first": day.first, "rest": day.orders, "last": day.last, "end": {}}
            assert (response["status"], response["outputs"]) == ("ok", paid), response
        done = {order: self.shop.effects_of(order) for order in day.effects}
        assert done == day.effects, response
        shards, items = self._below(response["run_id"])
        assert (shards, items) == (1, 3), "one shard with three items, and no run a second time"
        if resent is not None:
            assert self._intents(response["run_id"]) == len(day.effects) + resent, "only what certainly did not happen is sent again"

    def _below(self, run_id: str) -> tuple[int, int]:
        """How many shards and items the run began."""
        children = self._children(run_id)
        shards = [child for child in children if child.function == "payday"]
        began = sum(op.sub_type == RUN for op in self.client.operations(run_id))
        assert began == len(children), "each child run belongs to one operation"
        return len(shards), sum(len(self._children(shard.id)) for shard in shards)

    def _children(self, run_id: str) -> list[Execution]:
        return list(self.client.list(Filter(parent=run_id, limit=100)))

    def _intents(self, run_id: str) -> int:
        own = sum(op.sub_type == INTENT for op in self.client.operations(run_id))
        return own + sum(self._intents(child.id) for child in self._children(run_id))


@contextmanager
def payday_scene(folder: Path, shop: Shop, store: str) -> Iterator[PaydayScene]:
    """A scene without a runner."""
    made = PaydayScene(folder, shop, store)
    try:
        yield made
    finally:
        made.close()
