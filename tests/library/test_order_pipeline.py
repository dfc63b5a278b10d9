"""examples/order_processing: rules and a model judge an order, a person approves, the shop gets it once, or it is cancelled once."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast.pipelines.builder.build import build
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.graph_json import graph_id
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import pipeline_kit
from holdfast.workers.packages import Packages
from holdfast.workers.policy import Policy
from holdfast.workers.tools.cassettes import CassetteMode, CassetteSettings
from tests.conftest import ROOT
from tests.library.example_scene import STORES, killed_while, serving, trusted_program
from tests.library.scene import OFTEN

FOLDER = ROOT / "examples" / "order_processing"
PIPELINE = FOLDER / "order_processing.py"
ADDRESS = "127.0.0.1:8766"
"""The address in the files of the example; tests use a free port."""
RUN = ("run", "order_processing.py", "--input", "@case.json", "--key", "o-42")


def order_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return found


@pytest.fixture
def shop() -> Iterator[Any]:
    with serving(runpy.run_path(str(FOLDER / "local_shop.py"))["LocalShop"]()) as made:
        yield made


@pytest.fixture
def given(shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the example's holdfast.toml says, with the address of this shop; bodies run in this process, and time is virtual."""
    criteria = ModuleType("criteria")  # in this process the pipeline's file has no folder of its own to import from
    vars(criteria).update(runpy.run_path(str(FOLDER / "criteria.py")))
    monkeypatch.setitem(sys.modules, "criteria", criteria)
    parameters = tmp_path / "parameters.toml"
    parameters.write_text((FOLDER / "parameters.toml").read_text().replace(ADDRESS, shop.url.removeprefix("http://")))
    played = CassetteSettings(CassetteMode.REPLAY, str(FOLDER / "cassette.jsonl"), ("language_model",))
    settings = WorkerSettings(policy=Policy(isolation="inline", rate_limits=OFTEN), parameters=str(parameters), cassette=played)
    return {"worker_settings": settings, "decisions": {"approval": "approve"}}


def test_an_order_is_judged_approved_placed_once_by_a_busy_shop_and_accepted(shop: Any, given: dict[str, Any]) -> None:
    ran = pipeline_kit.run(PIPELINE, order_of("case.json"), **given)
    assert ran.error is None
    assert ran.outputs == {"order_id": "o-42", "url": f"{shop.url}/orders/{shop.received[0]}", "state": "accepted", "approved_by": "tester"}
    assert [reason["code"] for reason in ran.questions[0].arguments["warnings"]] == ["fragile_items"], "the person sees what the model saw"
    assert [run.attempt for run in ran.runs["place"]] == [2], "the shop was busy once"
    assert [run.outputs for run in ran.runs["accepted"]] == [{"state": "received"}, {"state": "accepted"}]
    assert (list(shop.orders.values()), shop.cancelled) == ([order_of("case.json")["order"]], [])


@pytest.mark.parametrize(
    "order, code, node",
    [
        (order_of("odd.json")["order"], "gate_blocked", "check"),
        ({**order_of("case.json")["order"], "total": 5001}, "gate_blocked", "check"),
    ],
    ids=["the model says no", "a rule says no"],
)
def test_an_order_that_is_not_right_is_never_shown_and_never_placed(
    shop: Any, given: dict[str, Any], order: Any, code: str, node: str
) -> None:
    ran = pipeline_kit.run(PIPELINE, {"order": order}, **given)
    assert (ran.error.error_code, ran.nodes[node].state, ran.questions, shop.received) == (code, "failed", (), [])


@pytest.mark.long
def test_an_order_that_a_person_refuses_is_never_placed_and_one_that_the_shop_never_accepts_is_cancelled(
    shop: Any, given: dict[str, Any]
) -> None:
    refused = pipeline_kit.run(PIPELINE, order_of("case.json"), **{**given, "decisions": {"approval": "reject"}})
    assert (refused.error.error_code, shop.received) == ("approval_rejected", [])
    shop.never = True
    ran = pipeline_kit.run(PIPELINE, order_of("case.json"), **given)
    assert (ran.error.error_code, len(ran.runs["accepted"])) == ("until_not_reached", 5)
    assert (ran.nodes["place"].state, len(shop.received), len(shop.cancelled), shop.orders) == ("undone", 1, 1, {})


async def test_its_page_shows_the_graph_as_it_is_drawn(tmp_path: Path) -> None:
    (built,) = await build(PIPELINE, Packages(tmp_path))
    assert f"```\n{draw_text(built.graph, width=120)}```" in (FOLDER / "README.md").read_text()


async def test_its_pipeline_as_a_page_is_the_graph_that_its_file_builds(tmp_path: Path) -> None:
    """`holdfast graph order_processing.py --as page --out order-processing-page.md` writes the page anew."""
    (python,) = await build(PIPELINE, Packages(tmp_path))
    (page,) = await build(FOLDER / "order-processing-page.md", Packages(tmp_path))
    assert graph_id(page.graph) == graph_id(python.graph)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kit_store")
def test_a_crash_anywhere_in_the_example_changes_nothing(given: dict[str, Any]) -> None:
    """The shop never accepts the order, so it is cancelled."""
    given |= {
        "tools": {"place_order": {"id": "k", "url": "http://127.0.0.1:1/orders/k"}, "cancel_order": {"cancelled": True}},
        "workers": {"order-status-worker": {"state": "received"}},
    }
    ran = pipeline_kit.run(PIPELINE, order_of("case.json"), **given)
    assert (ran.error.error_code, [tool for tool, _ in ran.writes]) == ("until_not_reached", ["place_order", "cancel_order"])
    assert pipeline_kit.crash_everywhere(PIPELINE, order_of("case.json"), **given) > 40


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_the_command_is_killed_while_it_places_and_while_it_cancels_and_each_happens_once(
    shop: Any, tmp_path: Path, store: Callable[[], str] | None
) -> None:
    folder, shop.never, shop.busy = tmp_path / "order_processing", True, 0
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__", "holdfast.db*"))
    parameters = folder / "parameters.toml"
    parameters.write_text(parameters.read_text().replace(ADDRESS, shop.url.removeprefix("http://")))
    pipeline = folder / "order_processing.py"  # this command waits in real time
    pipeline.write_text(pipeline.read_text().replace('every="2s"', 'every="1s"').replace("at_most=5", "at_most=2"))
    program = trusted_program(folder, store)
    waits = program.cold(*RUN)
    assert waits.returncode == 4, waits.stderr
    (approval,) = [json.loads(line)["approval_id"] for line in program("approvals", "list", "--json").stdout.splitlines()]
    assert program("approvals", "approve", approval).returncode == 0
    killed_while(program, RUN, shop, "before_answer")
    killed_while(program, RUN, shop, "before_cancel_answer")
    ended = program.cold(*RUN, "--json")
    assert json.loads(ended.stdout)["error"]["error_code"] == "until_not_reached"
    assert (len(shop.received), len(shop.cancelled)) == (1, 1)
