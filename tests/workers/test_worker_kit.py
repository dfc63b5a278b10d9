"""worker_kit: what it tells of a worker is true, and a worker that a crash changes is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.testing import worker_kit
from holdfast.testing.crashing import CrashDiffers
from holdfast.workers.tools.seam import ToolFailed
from tests.workers.pages import page, write

PAYER = """
from holdfast import tool, worker

runs = []

@tool(effect="read")
def look(call, at: str):
    raise AssertionError("the test answers")

@tool(effect="write")
def pay(call, cents: int):
    raise AssertionError("the test answers")

@worker("payer.md")
async def payer(inputs, ctx):
    runs.append(1)
    seen = await ctx.tools.look(at=inputs["at"])
    {body}
"""
HONEST = """paid = await ctx.tools.pay(cents=seen["cents"])
    return {"paid": paid["id"]}"""
TOOLS: dict[str, Any] = {"look": {"cents": 5}, "pay": {"id": "p-1"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path, HONEST)


def written(folder: Path, body: str) -> Path:
    return write(folder / "payer", PAYER.replace("{body}", body), payer=page("payer", "look", "pay"))


def test_it_tells_the_response_the_calls_and_which_of_them_wrote(file: Path) -> None:
    ran = worker_kit.run(file, {"at": "x"}, tools=TOOLS)
    assert (ran.status, ran.outputs) == ("ok", {"paid": "p-1"})
    assert ran.calls == (("look", {"at": "x"}), ("pay", {"cents": 5}))
    assert ran.writes == (("pay", {"cents": 5}),)


def test_of_several_workers_in_one_file_the_test_must_name_one(tmp_path: Path) -> None:
    code = (
        PAYER.replace("{body}", HONEST)
        + """
@worker("other.md")
async def other(inputs, ctx):
    return {"paid": "never"}
"""
    )
    file = write(tmp_path / "both", code, payer=page("payer", "look", "pay"), other=page("other"))
    with pytest.raises(InvalidParameter, match=r"has several workers: .*payer.*worker='"):
        worker_kit.run(file, {"at": "x"}, tools=TOOLS)
    assert worker_kit.run(file, {"at": "x"}, worker="other", tools=TOOLS).outputs == {"paid": "never"}


def test_a_file_that_has_only_a_pipeline_is_refused_with_the_kit_that_runs_it(tmp_path: Path) -> None:
    file = tmp_path / "flow.py"
    file.write_text(
        'from holdfast import Pipeline\np = Pipeline("flow", "1.0", inputs={"type": "object"}, outputs={"type": "object"})\n'
        'p.human("h", show=p.inputs)\np.gives(p.inputs)\n'
    )
    with pytest.raises(InvalidParameter, match=r"flow.py declares no worker. .*pipeline_kit.run"):
        worker_kit.run(file, {})


def test_a_tool_may_answer_by_its_arguments_in_turn_or_with_a_failure(file: Path) -> None:
    answers = [ToolFailed("tool_unavailable", "closed"), {"id": "p-2"}]
    ran = worker_kit.run(file, {"at": "x"}, tools={"look": lambda at: {"cents": len(at)}, "pay": answers})
    assert (ran.outputs, ran.observability.attempt) == ({"paid": "p-2"}, 2)
    assert ran.writes == (("pay", {"cents": 1}), ("pay", {"cents": 1}))
    failed = worker_kit.run(file, {"at": "x"}, tools={**TOOLS, "look": ToolFailed("access_denied", "no")})
    assert (failed.status, failed.error.error_code, failed.writes) == ("permanent_error", "access_denied", ())


def test_the_test_is_the_person_who_decides(tmp_path: Path) -> None:
    file = write(tmp_path / "payer", PAYER.replace("{body}", HONEST), payer=page("payer", "look", "pay", approvals_required=["pay"]))
    assert worker_kit.run(file, {"at": "x"}, tools=TOOLS).error.error_code == "approval_required"
    approved = worker_kit.run(file, {"at": "x"}, tools=TOOLS, decisions={"pay": {"verdict": "approve", "edited_arguments": {"cents": 4}}})
    assert (approved.status, approved.writes) == ("ok", (("pay", {"cents": 4}),))
    rejected = worker_kit.run(file, {"at": "x"}, tools=TOOLS, decisions={"pay": "reject"})
    assert (rejected.error.error_code, rejected.writes) == ("approval_rejected", ())


def test_an_honest_worker_is_the_same_wherever_the_runner_dies(file: Path) -> None:
    assert worker_kit.crash_everywhere(file, {"at": "x"}, tools=TOOLS) >= 4


@pytest.mark.parametrize(
    "body, says",
    [
        (HONEST.replace('"p', '"n": len(runs), "p'), "changes the response"),
        (HONEST.replace('seen["cents"]', 'seen["cents"], key=str(len(runs))'), "changes the side effects"),
    ],
    ids=["other outputs", "a second write"],
)
def test_a_worker_that_a_crash_changes_is_found_out(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(CrashDiffers, match=says):
        worker_kit.crash_everywhere(written(tmp_path, body), {"at": "x"}, tools=TOOLS)


@pytest.mark.parametrize("asks", [1, 2, 3])
def test_the_last_decisions_that_are_allowed_may_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: int) -> None:
    monkeypatch.setattr(worker_kit, "_BOUND", 2)
    file = written(tmp_path, f'return {{"paid": [await ctx.ask(f"Question {{n}}?") for n in range({asks})]}}')
    answers = {f"Question {n}?": {"verdict": "answer", "result": n} for n in range(asks)}
    if asks > 2:
        with pytest.raises(InvalidParameter, match="more than 2 decisions"):
            worker_kit.run(file, {"at": "x"}, tools=TOOLS, decisions=answers)
    else:
        assert worker_kit.run(file, {"at": "x"}, tools=TOOLS, decisions=answers).outputs == {"paid": list(range(asks))}
