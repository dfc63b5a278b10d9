"""`kill -9` of the runner around escalations: a node's failure that a person answers, and a chain that adds approvers after a silence.

The person is asked once, the chain adds its approvers once, also if no runner lived at their time, and the work is done once.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.model.operations import Type
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter, Store
from holdfast.workers.approvals import Approval, ApproverRefused, Decision
from holdfast.workers.ballots import ESCALATION
from holdfast.workers.decisions import decision_write
from holdfast.workers.run_lookup import Caller, find_approval
from tests.crash.scene import until
from tests.postgres import new_schema
from tests.workers.pages import page, write
from tests.workers.processes import Runner

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

SOURCE = """
import pathlib

from holdfast import Pipeline, WorkerError, tool, worker

@tool(effect="read", secrets=[])
def look(call, path: str):
    return {"ready": pathlib.Path(path).exists()}

@tool(effect="write", secrets=[])
def publish(call, path: str, what: str):
    with pathlib.Path(path).open("a") as file:
        file.write(what + " " + call.idempotency_key + "\\n")
    return {}

@worker("publisher.md")
async def publisher(inputs, ctx):
    if inputs.get("needs") and not (await ctx.tools.look(path=inputs["needs"]))["ready"]:
        raise WorkerError("not_ready", "what it needs is not there")
    await ctx.tools.publish(path=inputs["path"], what=inputs["what"])
    return {}

p = Pipeline("escalated", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
first = p.worker("first", "publisher", {"path": p.inputs.path, "needs": p.inputs.needs, "what": "first"}, on_failure="escalate")
h = p.human("h", show=p.inputs, approvers=["ann"], then=[("1s", ["eve"])], within="1h", after=first)
last = p.worker("last", "publisher", {"path": p.inputs.path, "what": "last"}, after=h)
p.gives({"by": h.decided_by, "last": last.outputs})
"""


class Scene:
    """The store beside the runners: what is asked, and decisions while no runner lives."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def asked(self, approval_id: str) -> Approval:
        return find_approval(self.store, approval_id, Caller(everywhere=True))

    def decide(self, approval_id: str, person: str, verdict: str, result: object = None) -> object:
        now = self.asked(approval_id).requested_at + 2000
        decision = Decision(verdict=verdict, decided_by="", decided_at=now, result=result)
        who = Caller(principal=person, logged_in=True, everywhere=True)
        (answer,) = self.store.commit([decision_write(self.store, approval_id, decision, who)], now).answers
        return answer


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "s.db") if request.param == "sqlite" else new_schema()


def test_escalations_survive_kills_of_the_runner_ask_once_and_the_work_is_done_once(where: str, tmp_path: Path) -> None:
    file = write(tmp_path / "escalated", SOURCE, publisher=page("publisher", "look", "publish"))
    out, needs = tmp_path / "published.txt", tmp_path / "needs.txt"
    inputs = {"path": str(out), "needs": str(needs)}

    def runner() -> tuple[Runner, str]:
        """A new runner, which goes on up to the next question."""
        made = Runner(where, file, folder=tmp_path, environment={})
        response = made.run("escalated", inputs, key="k")
        return made, response["approvals"][0]["approval_id"]

    one, failure = runner()
    one.kill()
    two, again = runner()
    assert again == failure, "the same question, and not a second one"
    two.kill_all()
    with closing(open_store(where, "scene")) as store:
        scene = Scene(store)
        assert scene.asked(failure).node == "first"
        needs.touch()
        scene.decide(failure, "ann", "answer", {"action": "retry"})  # while no runner lives
        three, silence = runner()
        three.kill()  # the time of the chain comes while no runner lives, or with the next one
        assert (scene.asked(silence).node, scene.asked(silence).approvers) == ("h", ("ann",))
        with pytest.raises(ApproverRefused):
            scene.decide(silence, "eve", "approve")
        four, _ = runner()
        until(lambda: scene.asked(silence).approvers == ("ann", "eve"), "the chain to add its approver")
        four.kill_all()
        five, _ = runner()
        five.kill()
        scene.decide(silence, "eve", "approve")
        six = Runner(where, file, folder=tmp_path, environment={})
        ended = six.run("escalated", inputs, key="k")
        six.close()
        operations = store.operations(ended["run_id"])
        runs = [header.status.value for header in store.list(Filter(function="publisher", oldest_first=True))]
    assert (ended["status"], ended["outputs"]["by"]) == ("ok", "eve")
    assert [line.split()[0] for line in out.read_text().splitlines()] == ["first", "last"]
    assert len(runs) == 3, "the first failed, the person let it try again, and the last"
    assert sum(op.sub_type == ESCALATION for op in operations) == 1
    assert [op.name for op in operations if op.type is Type.CALLBACK and op.name in ("first", "h")] == ["first", "h"], "each asked once"
