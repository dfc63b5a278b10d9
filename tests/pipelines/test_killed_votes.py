"""`kill -9` of the runner between and beside the votes of persons: no vote is lost, none counts twice, and the work is done once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store.backends import open_store
from holdfast.workers.approvals import Decision, VotedBefore
from holdfast.workers.ballots import VOTE
from holdfast.workers.decisions import decision_write
from holdfast.workers.run_lookup import Caller
from tests.crash.scene import until
from tests.postgres import new_schema
from tests.workers.pages import page, write
from tests.workers.processes import Runner

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

SOURCE = """
import os
import pathlib

from holdfast import Pipeline, tool, worker

@tool(effect="write", secrets=[])
def publish(call, path: str):
    with pathlib.Path(path).open("a") as file:
        file.write(call.idempotency_key + "\\n")
    return {}

@worker("publisher.md")
async def publisher(inputs, ctx):
    await ctx.tools.publish(path=inputs["path"])
    return {}

p = Pipeline("signed", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
h = p.human("h", show=p.inputs, votes=3)
w = p.worker("w", "publisher", {"path": p.inputs.path}, after=h)
p.gives({"by": h.decided_by, "done": w.outputs})
"""


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_votes_survive_kills_of_the_runner_and_the_work_is_done_once(tmp_path: Path, backend: str) -> None:
    where = str(tmp_path / "s.db") if backend == "sqlite" else new_schema()
    (tmp_path / "source.py").write_text(SOURCE)
    file = write(tmp_path / "signed", tmp_path / "source.py", publisher=page("publisher", "publish"))
    out = tmp_path / "published.txt"

    def runner() -> Runner:
        return Runner(where, file, folder=tmp_path, environment={})

    asked = {"path": str(out)}
    first = runner()
    response = first.run("signed", asked, key="k")
    run, approval = response["run_id"], response["approvals"][0]["approval_id"]
    with closing(open_store(where, "votes")) as store:

        def vote(person: str) -> object:
            who = Caller(principal=person, logged_in=True, everywhere=True)
            decision = Decision(verdict="approve", decided_by="", decided_at=store_now)
            (answer,) = store.commit([decision_write(store, approval, decision, who)], store_now).answers
            return answer

        found = store.find(run)
        assert found is not None
        store_now = found.touched_at + 1
        vote("ann")
        first.kill()
        assert isinstance(vote("ann"), VotedBefore), "the vote is on disk, with no runner"
        second = runner()
        vote("bob")
        second.kill_all()
        vote("cem")  # closes the question while no runner is there
        third = runner()
        ended = third.run("signed", asked, key="k")
        votes = [op for op in store.operations(run) if op.sub_type == VOTE]
        until(out.exists, "the work")
        third.close()
    assert (ended["status"], ended["outputs"]["by"]) == ("ok", "ann, bob, cem")
    assert len(votes) == 3
    assert len(out.read_text().splitlines()) == 1
