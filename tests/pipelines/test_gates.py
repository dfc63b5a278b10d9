"""Gates against validators that lie: bounded, and with a named end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.pipelines.graph.graph import GateNode, WorkerNode
from holdfast.pipelines.nodes.gate import verdict_of
from tests.pipelines.stage import graph_of, stage, worker
from tests.pipelines.templates import out

REASON = {"code": "c", "path": ".x", "message": "m", "severity": "error"}
LIES: list[Any] = [
    None,
    {},
    {"verdict": None},
    {"verdict": "ALLOW", "reasons": []},
    {"verdict": "allow ", "reasons": []},
    {"verdict": ["allow"], "reasons": []},
    {"verdict": {"verdict": "allow"}},
    {"verdict": True},
    {"verdict": "allow", "reasons": "none"},
    {"verdict": "allow", "reasons": [1]},
    {"verdict": "allow", "reasons": [{"message": "no code"}]},
    {"verdict": "allow", "reasons": [{**REASON, "severity": "fatal"}]},
    {"verdict": "allow", "reasons": [REASON]},
    {"verdict": "revise", "reasons": []},
    {"verdict": "block"},
    {"reasons": [REASON]},
]


@pytest.mark.parametrize("outputs", LIES, ids=repr)
def test_what_is_no_verdict_lets_nothing_pass(outputs: Any) -> None:
    verdict = verdict_of(outputs)
    assert (verdict.verdict, verdict.reasons[0].code) == ("block", "invalid_verdict")


def test_a_verdict_of_any_size_is_bounded() -> None:
    verdict = verdict_of({"verdict": "block", "reasons": [{"code": "c" * 10_000, "message": "m" * 1_000_000}] * 5000})
    assert len(verdict.reasons) == 100
    assert max(len(reason.code) + len(reason.message) for reason in verdict.reasons) <= 4000


def test_many_warnings_leave_the_errors_in_a_verdict() -> None:
    verdict = verdict_of({"verdict": "revise", "reasons": [*[{**REASON, "severity": "warning"}] * 200, REASON, REASON]})
    assert [reason.severity for reason in verdict.reasons] == ["error"] * 2 + ["warning"] * 98


@pytest.mark.parametrize("says", [{"verdict": "allow", "reasons": [REASON]}, {"verdict": "yes"}])
async def test_a_lying_validator_blocks_the_run_with_a_name(tmp_path: Path, says: Any) -> None:
    ran: list[str] = []

    async def lies(inputs: dict[str, Any], ctx: Any) -> Any:
        return says

    async def publishes(inputs: dict[str, Any], ctx: Any) -> Any:
        ran.append("published")
        return {}

    graph = graph_of(
        GateNode(name="g", worker="lies", candidate={"x": 1}),
        WorkerNode(name="z", worker="publishes", inputs={"x": out("g", "x")}),
    )
    async with stage(graph, worker("lies", lies), worker("publishes", publishes), folder=tmp_path) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.error.error_code, ran) == ("gate_blocked", [])
    assert response.error.details["details"]["reasons"][0]["code"] == "invalid_verdict"


async def test_a_hundred_rounds_asked_where_two_are_allowed_are_two(tmp_path: Path) -> None:
    rounds: list[int] = []

    async def writes(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        rounds.append(1)
        return {"n": len(rounds)}

    async def insists(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"verdict": "revise", "reasons": [REASON] * 100}

    graph = graph_of(
        WorkerNode(name="a", worker="writes", inputs={}),
        GateNode(name="g", worker="insists", candidate=out("a"), revise="a", rounds=2, on_block="skip"),
        gives={"n": out("a", "n")},
    )
    async with stage(graph, worker("writes", writes), worker("insists", insists), folder=tmp_path) as made:
        response = await made.run()
    assert (len(rounds), response.outputs, response.observability.partial) == (3, {"n": 3}, True)
