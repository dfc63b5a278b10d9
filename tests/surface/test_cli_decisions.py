"""Decisions of people on the command line, by the real program: forms, votes, batches, links, and what was spent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.surface.cli_program import Program
from tests.workers.pages import page, write

SOURCE = """from holdfast import Pipeline

FORM = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
p = Pipeline("asking", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
a = p.human("a", show={"x": 1}, form=FORM)
b = p.human("b", show={"x": 2}, votes=2, risk="high")
c = p.human("c", show={"x": 3})
p.gives({"a": a.outputs, "c": c.decided_by})
"""


def test_a_person_answers_a_form_votes_once_and_decides_many_at_once(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(SOURCE)
    holdfast = Program(tmp_path)
    assert holdfast("run", "asking.py", "--input", "{}", "--key", "k").returncode == 4
    listed = [json.loads(line) for line in holdfast("approvals", "list", "--json").stdout.splitlines()]
    ids = {one["node"]: one["approval_id"] for one in listed}
    run = listed[0]["run_id"]
    assert (listed[0]["spent"][0]["run_id"], listed[0]["may_cost"]["most"]) == (run, {"tokens": 0, "cost_usd": 0})
    table = holdfast("approvals", "list", "--run", run).stdout
    assert ("0/2" in table, "SPENT" in table, "nothing for models" in table) == (True, True, True)
    voted = holdfast("approvals", "approve", ids["b"])
    assert (voted.returncode, "vote recorded: 1/2 votes" in voted.stderr) == (0, True)
    again = holdfast("approvals", "approve", ids["b"])
    assert (again.returncode, "error[voted_before]" in again.stderr) == (2, True)
    many = holdfast("approvals", "approve", "--run", run)
    assert many.returncode == 1
    assert f"{ids['c']} approve" in many.stdout
    assert f"{ids['b']} error[voted_before]" in many.stdout
    assert f"{ids['a']} error[approval_refused]" in many.stdout, "a form is answered, and not approved"
    both = holdfast("approvals", "approve", ids["b"], "--run", run)
    assert (both.returncode, "one of the two" in both.stderr) == (2, True)
    answered = holdfast("approvals", "answer", ids["a"], '{"n": 7}')
    assert answered.returncode == 0, answered.stderr
    link = holdfast("approvals", "link", ids["b"], "--person", "ann", "--base", "https://h.example", "--valid", "1h", "--json")
    made = json.loads(link.stdout)
    assert (made["url"].startswith("https://h.example/v1/links/hf_"), made["person"]) == (True, "ann")
    notes = holdfast("audit", "--json").stdout
    assert '"made for ann"' in notes
    assert made["url"].rpartition("/")[2][:40] not in notes
    for wrong in (("--person", "local:x"), ("--person", "ann", "--valid", "5"), ("--person", "ann", "--base", "h.example")):
        refused = holdfast("approvals", "link", ids["b"], *wrong)
        assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


ITEMS = """from holdfast import Pipeline, worker

@worker("caller.md")
async def caller(inputs, ctx):
    return {"said": await ctx.ask("item?", schema={"type": "integer"})}

p = Pipeline("items", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
m = p.map("m", "caller", p.inputs.ns, {"n": p.item}, at_most=5)
p.gives({"said": m.ok.outputs.said})
"""


def test_one_answer_goes_to_the_questions_of_all_items_of_a_map(tmp_path: Path) -> None:
    write(tmp_path, ITEMS, caller=page("caller"))
    holdfast = Program(tmp_path)
    words = ("run", "worker.py", "--input", '{"ns": [1, 2, 3]}', "--key", "k", "--trust")
    assert holdfast(*words).returncode == 4
    run = json.loads(holdfast("approvals", "list", "--json").stdout.splitlines()[0])["spent"][-1]["run_id"]
    wrong = holdfast("approvals", "answer", "--run", run, "--node", "m", '"x"')
    assert (wrong.returncode, wrong.stdout.count("error[approval_refused]")) == (1, 3)
    answered = holdfast("approvals", "answer", "--run", run, "--node", "m", "7")
    assert (answered.returncode, [line.split()[1] for line in answered.stdout.splitlines()]) == (0, ["answer"] * 3)
    assert json.loads(holdfast(*words, "--json").stdout)["outputs"] == {"said": [7, 7, 7]}
    nothing = holdfast("approvals", "answer", "7")
    assert (nothing.returncode, "Name approvals, or a run" in nothing.stderr) == (2, True)


def test_a_key_names_its_person_and_can_be_given_to_another(tmp_path: Path) -> None:
    holdfast = Program(tmp_path)
    made = json.loads(holdfast("keys", "create", "--role", "approver", "--token", "--person", "ann", "--json").stdout)
    assert made["person"] == "ann"
    assert holdfast("keys", "assign", made["id"], "--person", "bob").returncode == 0
    (listed,) = [json.loads(line) for line in holdfast("keys", "list", "--json").stdout.splitlines()]
    assert listed["person"] == "bob"
    for wrong in ("hft-abc", "local:root", "", "a b"):
        assert holdfast("keys", "create", "--role", "approver", "--token", "--person", wrong).returncode == 2
    assert holdfast("keys", "assign", "hft-none", "--person", "bob").returncode == 2
