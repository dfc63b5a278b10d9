"""`kill -9` of the runner while a worker that a supervisor chose pays, or is undone: a real server counts each effect once.

The supervisor stands in a pipeline inside a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.paying import ENOUGH_SECONDS, PAYERS, TOOLS
from tests.postgres import new_schema
from tests.workers.pages import page, write
from tests.workers.processes import Runner
from tests.workers.shop import Shop, a_shop

pytestmark = [pytest.mark.timeout(ENOUGH_SECONDS), pytest.mark.long]

PIPELINES = """
from holdfast import Pipeline

@worker("chooser.md")
async def chooses(inputs, ctx):
    orders, at = inputs["orders"], len(inputs["so_far"])
    if at < len(orders):
        return {"choice": "pay", "inputs": {"order": orders[at], "tool": "pay_known"}, "reason": f"Order {at} is due."}
    return {"choice": inputs["last"], "outputs": {"paid": orders}, "reason": "All orders are paid."}

@worker("refunder.md")
async def refunds(inputs, ctx):
    return await ctx.tools.pay_known(order=inputs["inputs"]["order"] + "-back")

p = Pipeline("spree", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
told = {"orders": p.inputs.orders, "last": p.inputs.last}
s = p.supervise("s", "chooser", told, choices={"pay": "async-payer"}, turns=5, undo={"pay": "refunder"})
p.gives(s)

q = Pipeline("outer", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
q.gives(q.pipeline("sub", "spree", q.inputs))
"""


@pytest.fixture
def shop() -> Iterator[Shop]:
    with a_shop() as made:
        yield made


@pytest.mark.parametrize("store", [pytest.param("s.db", id="sqlite"), pytest.param(None, id="postgres")])
def test_what_a_supervisor_chose_is_done_once_and_undone_once_however_the_runner_dies(
    shop: Shop, tmp_path: Path, store: str | None
) -> None:
    where = new_schema() if store is None else str(tmp_path / store)
    tools = {"async_payer": TOOLS, "plain_payer": TOOLS, "refunder": ("pay_known",), "chooser": ()}
    pages = {name: page(name.replace("_", "-"), *used, attempts=3, timeout_seconds=ENOUGH_SECONDS) for name, used in tools.items()}
    file = write(tmp_path / "spree", PAYERS.read_text() + PIPELINES, **pages)

    def runner() -> Runner:
        return Runner(where, file, folder=tmp_path, environment={"SHOP": shop.url})

    good, bad = ["good-1", "good-2"], ["bad-1", "bad-2"]
    held = {"good-2": "done", "bad-1-back": "answered"}
    asked = {"good": {"orders": good, "last": "finish"}, "bad": {"orders": bad, "last": "nonsense"}}
    for order, moment in held.items():
        shop.hold(order, moment)
    first = runner()
    for key, inputs in asked.items():
        first.ask("outer", inputs, key=key)
    for order, moment in held.items():
        shop.wait_for(order, moment)
    first.kill()
    for order in held:
        shop.let_go(order, lost=True)
    second = runner()
    try:
        numbers = {key: second.ask("outer", inputs, key=key) for key, inputs in asked.items()}
        told = {key: second.answer(number) for key, number in numbers.items()}
    finally:
        second.close()
    assert (told["good"]["status"], told["good"]["outputs"]) == ("ok", {"paid": good}), told["good"]
    assert told["bad"]["error"]["error_code"] == "supervise_unknown_choice", told["bad"]
    orders = [*good, *bad, "bad-1-back", "bad-2-back", "good-1-back", "good-2-back"]
    assert {order: shop.effects_of(order) for order in orders} == {**dict.fromkeys(orders[:6], 1), **dict.fromkeys(orders[6:], 0)}
