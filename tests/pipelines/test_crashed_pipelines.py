"""Pipelines of real workers that write, crashed before and after every write and at every end: of pipelines, shards and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.pipelines.scene import shards
from holdfast.testing import pipeline_kit
from tests.workers.pages import page, write

WORKERS = """
from holdfast import Pipeline, WorkerError, tool, worker

@tool(effect="write")
def put(call, what: str):
    raise AssertionError("the test answers")

@tool(effect="write", approval=True)
def put_asked(call, what: str):
    raise AssertionError("the test answers")

@worker("putter.md")
async def putter(inputs, ctx):
    if inputs.get("fails"):
        raise WorkerError(inputs["fails"], "as it was told")
    round = (inputs.get("revision") or {}).get("round", 1)
    return {"put": await ctx.tools.put(what=inputs["what"] + "/" + str(round)), "round": round}

@worker("caller.md")
async def caller(inputs, ctx):
    return {"put": await ctx.tools.put_asked(what=inputs["what"])}

@worker("taker.md")
async def taker(inputs, ctx):
    return {"taken": await ctx.tools.put(what="-" + str(inputs["outputs"]["put"]))}

@worker("chooser.md")
async def chooser(inputs, ctx):
    script = inputs["script"]
    return script[min(len(inputs["so_far"]), len(script) - 1)]

@worker("judge.md")
async def judge(inputs, ctx):
    reason = {"code": "again", "path": ".round", "message": "Once more.", "severity": "error"}
    return {"verdict": "allow", "reasons": []} if inputs["round"] > 1 else {"verdict": "revise", "reasons": [reason]}

p = Pipeline("p", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
{body}
"""
REVISABLE = {"type": "object", "properties": {"revision": {"type": "object"}}}
PIPELINES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "fail with a sibling under way": (
        """a = p.worker("a", "putter", {"what": "a"}, undo="taker")
b = p.worker("b", "putter", {"what": "b", "fails": "broken"}, after=a)
c = p.human("c", show=a.outputs)
p.gives({"b": b.outputs, "c": c.outputs})""",
        {"c": "silence"},
        {"code": "broken", "writes": {"a/1", "-1"}},
    ),
    "fallback, skip and merge": (
        """a = p.worker("a", "putter", {"what": "a", "fails": "first"}, fallback=["putter", "taker"], on_failure="skip")
b = p.worker("b", "putter", {"what": "b"})
m = p.merge("m", [a, b], policy="best_effort")
p.gives({"put": m.outputs.put})""",
        {},
        {"outputs": {"put": 1}, "writes": {"b/1"}},
    ),
    "escalate, use what a person gives": (
        """a = p.worker("a", "putter", {"what": "a", "fails": "broken"}, on_failure="escalate")
b = p.worker("b", "putter", {"what": a.outputs.put})
p.gives({"put": b.outputs.put})""",
        {"a": ["retry", {"action": "use", "outputs": {"put": "given"}}]},
        {"outputs": {"put": 1}, "writes": {"given/1"}},
    ),
    "revise with a write in between": (
        """a = p.worker("a", "putter", {"what": "a"}, undo="taker")
b = p.worker("b", "putter", {"what": p.text("b{}", a.outputs.round)})
g = p.gate("g", "judge", {"round": a.outputs.round, "b": b.outputs}, revise=a, rounds=1)
h = p.human("h", show=b.outputs, after=g)
p.gives({"h": h.outputs})""",
        {"h": "reject"},
        {"code": "approval_rejected", "writes": {"a/1", "a/2", "b1/1", "b2/1", "-1"}},
    ),
    "a map in shards, undone": (
        """m = p.map("m", "putter", p.inputs.items, {"what": p.item}, at_most=10, at_once=2, undo="taker")
b = p.worker("b", "putter", {"what": "b", "fails": "broken"}, after=m)
p.gives({"m": m.counts, "b": b.outputs})""",
        {},
        {"code": "broken", "writes": {"x/1", "y/1", "z/1", "-1"}},
    ),
    "a person approves the call of an item": (
        """m = p.map("m", "caller", p.inputs.items, {"what": p.item}, at_most=10, at_once=2)
w = p.wait("w", "2d", after=m)
b = p.worker("b", "putter", {"what": "b"}, after=w)
p.gives({"m": m.ok.outputs.put, "b": b.outputs.put})""",
        {"put_asked": "approve"},
        {"outputs": {"m": [1, 1, 1], "b": 1}, "writes": {"x", "y", "z", "b/1"}},
    ),
    "a pipeline inside a pipeline, cancelled": (
        """a = p.worker("a", "putter", {"what": "a"}, undo="taker")
h = p.human("h", show=a.outputs)
p.gives({"h": h.outputs})
q = Pipeline("q", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
b = q.worker("b", "putter", {"what": "b"}, undo="taker")
inner = q.worker("inner", "p", {}, after=b)
q.gives(inner)""",
        {"h": "cancel"},
        {"code": "cancelled", "writes": {"b/1", "a/1", "-1"}},
    ),
    "a supervisor that writes twice, fails, and undoes": (
        """put = lambda what: {"choice": "put", "inputs": {"what": what}, "reason": "put " + what}
fails = {"choice": "put", "inputs": {"what": "c", "fails": "broken"}, "reason": "this one fails"}
script = [put("a"), fails, put("b"), {"choice": "odd", "reason": "nonsense"}]
s = p.supervise("s", "chooser", {"script": script}, choices={"put": "putter"}, turns=6, undo={"put": "taker"})
p.gives({"s": s.outputs})""",
        {},
        {"code": "supervise_unknown_choice", "writes": {"a/1", "b/1", "-1"}},
    ),
    "a supervisor, a loop and a pipeline, each after the other": (
        """first = {"choice": "ask", "inputs": {"what": "a"}, "reason": "first"}
script = [first, {"choice": "finish", "outputs": {"what": "b"}, "reason": "done"}]
s = p.supervise("s", "chooser", {"script": script}, choices={"ask": "caller"}, turns=3)
u = p.until("u", "status", {}, rules=[{"path": ".n", "op": "at_least", "value": 3}], at_most=5, every="2d", after=s)
b = p.worker("b", "putter", {"what": s.outputs.what}, after=u)
p.gives({"n": u.times, "put": b.outputs.put})
q = Pipeline("q", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
sub = q.pipeline("sub", "p", {})
q.gives(sub)""",
        {"put_asked": "approve"},
        {"outputs": {"n": 3, "put": 1}, "writes": {"a", "b/1"}},
    ),
}


ON_BOTH = ("escalate, use what a person gives", *(name for name in PIPELINES if "supervisor" in name))
"""Those that are crashed on both stores: one that asks a person because a node failed, and those with a supervisor."""


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name, kit_store", [*((name, "sqlite") for name in PIPELINES), *((name, "postgres") for name in ON_BOTH)], indirect=["kit_store"]
)
@pytest.mark.usefixtures("kit_store")
def test_a_crash_at_any_write_or_end_changes_nothing_and_writes_nothing_twice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_ITEMS", 2)
    body, decisions, expected = PIPELINES[name]
    pages = {
        "putter": page("putter", "put", inputs=REVISABLE),
        "caller": page("caller", "put_asked"),
        "taker": page("taker", "put"),
        "judge": page("judge"),
        "chooser": page("chooser"),
    }
    file = write(tmp_path / "workers", WORKERS.replace("{body}", body), **pages)
    about: dict[str, Any] = {
        "tools": {"put": 1, "put_asked": 1},
        "workers": {"status": [{"n": 1}, {"n": 2}, {"n": 3}]},
        "decisions": decisions,
        "name": "q" if "q =" in body else "p",
    }
    ran = pipeline_kit.run(file, {"items": ["x", "y", "z"]}, **about)
    assert (ran.outputs, None if ran.error is None else ran.error.error_code) == (expected.get("outputs"), expected.get("code")), ran.error
    assert {arguments["what"] for _, arguments in ran.writes} == expected["writes"]
    assert pipeline_kit.crash_everywhere(file, {"items": ["x", "y", "z"]}, **about) > 10
