"""pipeline_kit: what it tells of a pipeline is true, people and time are the test's, and what a crash changes is found out."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Pipeline, WorkerError
from holdfast.model.errors import InvalidParameter
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.testing import pipeline_kit
from holdfast.testing.crashing import CrashDiffers
from tests.workers.pages import page, write

OBJECT = {"type": "object"}
NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
WORKERS = """
from holdfast import Pipeline, tool, worker

calls = []

@tool(effect="write")
def publish(call, title: str):
    raise AssertionError("the test answers")

@worker("writer.md")
async def writer(inputs, ctx):
    calls.append(1)
    return {"n": inputs["n"] + 1}

@worker("publisher.md")
async def publisher(inputs, ctx):
    calls.append(1)
    {body}

p = Pipeline("numbers", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
more = p.worker("more", "writer", {"n": p.inputs.n})
pause = p.wait("pause", "10d", after=more)
signed = p.human("sign-off", show=more.outputs, after=pause, within="2d")
post = p.worker("post", "publisher", {"n": more.outputs.n}, after=signed)
p.gives({"n": more.outputs.n, "at": post.outputs.at})
"""
HONEST = 'return {"at": await ctx.tools.publish(title=str(inputs["n"]))}'
TOOLS = {"publish": "there"}
SIGNED = {"sign-off": "approve"}


def written(folder: Path, body: str = HONEST) -> Path:
    pages = {"writer": page("writer", inputs=NUMBER, outputs=NUMBER), "publisher": page("publisher", "publish")}
    return write(folder / "numbers", WORKERS.replace("{body}", body), **pages)


def asking(**more: Any) -> Pipeline:
    """A worker, a question after it, and a worker after that; the first can be undone."""
    p = Pipeline("asking", "1.0", inputs=OBJECT, outputs=OBJECT)
    made = p.worker("made", "maker", {"n": p.inputs.n}, undo="unmaker", **more)
    signed = p.human("sign-off", show=made.outputs, approvers=["bob"], within="2d")
    sent = p.worker("sent", "sender", {"n": signed.outputs.n})
    p.gives({"n": sent.outputs.n, "by": signed.decided_by})
    return p


STUBS: dict[str, Any] = {"maker": lambda inputs: {"n": inputs["n"] * 2}, "sender": lambda inputs: inputs, "unmaker": {}}


def test_real_workers_run_and_ten_days_take_no_time(tmp_path: Path) -> None:
    ran = pipeline_kit.run(written(tmp_path), {"n": 1}, tools=TOOLS, decisions=SIGNED)
    assert (ran.status, ran.outputs) == ("ok", {"n": 2, "at": "there"})
    assert {name: node.state for name, node in ran.nodes.items()} == dict.fromkeys(("more", "pause", "sign-off", "post"), "ok")
    assert ran.writes == ran.calls == (("publish", {"title": "2"}),)
    assert ran.observability.duration_ms == 10 * 86_400_000


def test_runs_that_ended_months_ago_are_told_all_the_same() -> None:
    p = Pipeline("slow", "1.0", inputs=OBJECT, outputs=OBJECT)
    first = p.worker("first", "maker", {"n": 1})
    many = p.map("many", "maker", [1, 2], {"n": p.item}, at_most=2, after=first)
    pause = p.wait("pause", "100d", after=many)
    again = p.wait("again", "200d", after=pause)
    last = p.worker("last", "maker", {"n": first.outputs.n}, after=again)
    p.gives({"n": last.outputs.n})
    ran = pipeline_kit.run(p, {}, workers=STUBS)
    assert (ran.outputs, {name: len(runs) for name, runs in ran.runs.items() if runs}) == ({"n": 4}, {"first": 1, "many": 2, "last": 1})


def test_a_stub_keeps_the_contract_of_the_worker_that_it_stands_for(tmp_path: Path) -> None:
    file = written(tmp_path)
    ran = pipeline_kit.run(file, {"n": 1}, workers={"writer": {"n": 7}, "publisher": {"at": 1}}, decisions=SIGNED)
    assert (ran.outputs, ran.stub_calls) == ({"n": 7, "at": 1}, (("writer", {"n": 1}), ("publisher", {"n": 7})))
    wrong = pipeline_kit.run(file, {"n": 1}, workers={"writer": {"n": "text"}}, decisions=SIGNED)
    assert wrong.error.error_code == "output_schema_mismatch"
    misfit = pipeline_kit.run(file, {"n": "text"}, workers={"writer": {"n": 7}}, decisions=SIGNED)
    assert (misfit.error.error_code, misfit.stub_calls) == ("edge_mismatch", ())


def test_runs_of_a_node_tell_the_item_the_round_the_worker_and_the_error() -> None:
    p = Pipeline("many", "1.0", inputs=OBJECT, outputs=OBJECT)
    m = p.map("m", "odd", p.inputs.ns, {"n": p.item}, at_most=10, at_once=1, tolerate=1, fallback=["even"])
    p.gives({"counts": m.counts})

    def odd(inputs: dict[str, Any]) -> dict[str, Any]:
        if inputs["n"] % 2:
            raise WorkerError("odd_number", "no")
        return inputs

    ran = pipeline_kit.run(p, {"ns": [1, 2]}, workers={"odd": odd, "even": WorkerError("none")})
    assert ran.outputs == {"counts": {"total": 2, "ok": 1, "failed": 1}}
    told = {(one.item, one.worker, one.status, one.error_code, one.inputs["n"]) for one in ran.runs["m"]}
    failed = {(0, "odd", "permanent_error", "odd_number", 1), (0, "even", "permanent_error", "none", 1)}
    assert told == {*failed, (1, "odd", "ok", None, 2)}


@pytest.mark.parametrize(
    "does, code, undone",
    [
        ("reject", "approval_rejected", 1),
        ("silence", "approval_expired", 1),
        ("cancel", "cancelled", 1),
        (None, "approval_required", 0),
    ],
)
def test_a_person_may_reject_stay_silent_cancel_or_not_be_there(does: str | None, code: str, undone: int) -> None:
    ran = pipeline_kit.run(asking(), {"n": 1}, workers=STUBS, decisions={} if does is None else {"sign-off": does})
    assert (ran.error.error_code, sum(name == "unmaker" for name, _ in ran.stub_calls)) == (code, undone)
    assert ran.nodes["made"].state == ("undone" if undone else "ok")
    assert [(one.node, one.arguments) for one in ran.questions] == [("sign-off", {"n": 2})]


def test_a_decision_may_carry_more_and_depend_on_what_is_shown() -> None:
    edits = {"verdict": "approve", "edited_arguments": {"n": 9}, "comment": "more"}
    ran = pipeline_kit.run(asking(), {"n": 1}, workers=STUBS, decisions={"sign-off": lambda asked: edits if asked.arguments else None})
    assert ran.outputs == {"n": 9, "by": "bob"}


def test_answers_and_outputs_in_a_list_are_given_one_after_the_other() -> None:
    stubs = {**STUBS, "maker": [WorkerError("first"), WorkerError("second"), {"n": 3}]}
    decisions = {"made": ["retry", {"action": "retry"}], "sign-off": "approve"}
    ran = pipeline_kit.run(asking(on_failure="escalate"), {"n": 1}, workers=stubs, decisions=decisions)
    assert (ran.outputs, [one.error_code for one in ran.runs["made"]]) == ({"n": 3, "by": "bob"}, ["first", "second", None])
    assert [one.state for one in ran.questions] == ["answer", "answer", "approve"]


def test_events_are_those_that_a_follower_sees() -> None:
    ran = pipeline_kit.run(asking(), {"n": 1}, workers=STUBS, decisions=SIGNED)
    told = [(one.data["node"], one.data["state"]) for one in ran.events if one.event == "node"]
    assert told == [(name, state) for name in ("made", "sign-off", "sent") for state in ("running", "ok")]
    assert (ran.events[0].event, ran.events[-1].event) == ("accepted", "done")


def test_what_is_wrong_with_a_pipeline_is_told_before_it_runs(tmp_path: Path) -> None:
    with pytest.raises(PipelineInvalid, match="unknown_worker"):
        pipeline_kit.run(asking(), {"n": 1}, workers={"maker": {}})
    two = written(tmp_path)
    two.write_text(
        two.read_text() + '\nq = Pipeline("other", "1.0", inputs={}, outputs={})\nw = q.worker("w", "writer", {"n": 1})\nq.gives(w)\n'
    )
    with pytest.raises(InvalidParameter, match=r"numbers, other: say which one with name="):
        pipeline_kit.run(two, {"n": 1})


def test_an_engine_that_cannot_open_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(PipelineInvalid):
        pipeline_kit.run(asking(), {"n": 1}, workers={"maker": {}})
    with pytest.raises(PipelineInvalid):
        holdfast.open(":memory:", workers=[_wrong(tmp_path / "wrong")]).__enter__()
    own = tmp_path / f"holdfast-{os.getuid()}"  # of the sandbox, for every engine of this user
    assert [left for left in tmp_path.glob("holdfast-*") if left != own] == []


def _wrong(folder: Path) -> Path:
    return write(
        folder, 'from holdfast import Pipeline\np = Pipeline("p", "1.0", inputs={}, outputs={})\np.gives(p.worker("a", "none", {}))\n'
    )


def test_a_refused_request_is_a_response() -> None:
    ran = pipeline_kit.run(asking(), {"n": 1}, workers=STUBS, constraints={"max_cost_usd": "much"})
    assert (ran.status, ran.nodes) == ("invalid_request", {})


def test_an_honest_pipeline_is_the_same_wherever_the_runner_dies(tmp_path: Path) -> None:
    assert pipeline_kit.crash_everywhere(written(tmp_path), {"n": 1}, tools=TOOLS, decisions=SIGNED) >= 20


def test_what_a_crash_changes_is_found_out(tmp_path: Path) -> None:
    counted = itertools.count()
    with pytest.raises(CrashDiffers, match=r"A crash before write 1 of \d+ changes the response"):
        pipeline_kit.crash_everywhere(asking(), {"n": 1}, workers={**STUBS, "maker": lambda _: {"n": next(counted)}}, decisions=SIGNED)
    twice = HONEST.replace("]))", "]), key=str(len(calls)))")
    with pytest.raises(CrashDiffers, match="changes the side effects"):
        pipeline_kit.crash_everywhere(written(tmp_path, twice), {"n": 1}, tools=TOOLS, decisions=SIGNED)
