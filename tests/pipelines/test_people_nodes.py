"""Nodes that ask persons: forms, votes, groups, risks, and a chain that adds approvers after a silence."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Pipeline
from holdfast.contract.protocol import WorkerRequest
from holdfast.contract.terms import ToolGrant
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.operations import Status
from holdfast.pipelines.graph.graph import HumanNode, PipelineNode, Then, WorkerNode
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.signals.observers import PersonWaitSeen, RunObserver, RunSeen
from holdfast.testing import pipeline_kit
from holdfast.workers import votes
from holdfast.workers.approvals import Approval, ApprovalRefused, ApproverRefused, Decision, VotedBefore
from holdfast.workers.ballots import ESCALATION, VOTE
from holdfast.workers.policy import Policy, RiskRule
from holdfast.workers.run_lookup import Caller, waiting_below
from holdfast.workers.tools.seam import Effect, Usage
from tests.flow.harness import eventually
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.workers.harness import Counted

FORM = {"type": "object", "required": ["price"], "properties": {"price": {"type": "integer", "minimum": 1}}, "additionalProperties": False}
HOUR = 3600


def asking(**more: Any) -> HumanNode:
    return HumanNode(name="h", show={"x": 1}, **more)


def signed(**more: Any) -> Any:
    return graph_of(asking(**more), gives={"outputs": ref("h", "outputs"), "by": ref("h", "decided_by")})


async def asked(made: Stage) -> tuple[str, Approval]:
    run = (await made.run()).run_id
    (approval,) = made.service.approvals(LOCAL)
    return run, approval


async def vote(made: Stage, approval: Approval, by: str, verdict: str = "approve", **more: Any) -> Approval:
    who = Caller(principal=by, logged_in=True, everywhere=True)
    return await made.service.decide(
        approval.approval_id, Decision(verdict=verdict, decided_by=by, decided_at=made.clock.now(), **more), who
    )


# --- forms


async def test_an_answer_must_fit_the_form_and_is_the_outputs_of_the_node(tmp_path: Path) -> None:
    async with stage(signed(form=FORM), folder=tmp_path, clock=PatientClock()) as made:
        run, approval = await asked(made)
        for wrong in ({"price": 0}, {"price": "9"}, {}, {"price": 9, "more": 1}):
            with pytest.raises(ApprovalRefused, match="does not fit"):
                await vote(made, approval, "ann", "answer", result=wrong)
        await vote(made, approval, "ann", "answer", result={"price": 9})
        response = await made.service.response(run, LOCAL)
    assert (approval.kind, approval.schema) == ("question", FORM)
    assert response.outputs == {"outputs": {"price": 9}, "by": "ann"}


async def test_a_form_that_is_no_schema_fails_the_node_before_a_person_is_asked(tmp_path: Path) -> None:
    async with stage(signed(form={"type": "nonsense"}), folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
    assert response.error is not None
    assert "The form of h cannot be used" in response.error.message
    assert response.approvals == ()


# --- votes


async def test_the_last_of_n_votes_closes_the_question_and_the_run_goes_on(tmp_path: Path) -> None:
    async with stage(signed(votes=2, approvers=("ann", "bob", "eve")), folder=tmp_path, clock=PatientClock()) as made:
        run, approval = await asked(made)
        first = await vote(made, approval, "ann", comment="fine")
        assert (first.state, [one.person for one in first.votes], first.votes_needed) == ("open", ["ann"], 2)
        with pytest.raises(VotedBefore, match="ann has voted on this question before"):
            await vote(made, approval, "ann")
        with pytest.raises(ApproverRefused):
            await vote(made, approval, "mallory")
        last = await vote(made, approval, "bob", comment="me too")
        response = await made.service.response(run, LOCAL)
        operations = made.engine._engine.store.operations(run)
    assert (last.state, last.decided_by, last.comment) == ("approve", "ann, bob", "ann: fine; bob: me too")
    assert response.outputs == {"outputs": {"x": 1}, "by": "ann, bob"}
    assert [op.status for op in operations if op.sub_type == VOTE] == [Status.SUCCEEDED] * 2


async def test_one_rejection_closes_the_question_whatever_was_approved_before(tmp_path: Path) -> None:
    async with stage(signed(votes=2), folder=tmp_path, clock=PatientClock()) as made:
        run, approval = await asked(made)
        await vote(made, approval, "ann")
        closed = await vote(made, approval, "bob", "reject", comment="no")
        response = await made.service.response(run, LOCAL)
    assert (closed.state, closed.decided_by) == ("reject", "bob")
    assert response.error is not None
    assert response.error.error_code == "approval_rejected"


@pytest.mark.parametrize(
    "form, first, other",
    [
        (None, {"edited_arguments": {"x": 2}}, {}),
        (None, {}, {"edited_arguments": {"x": 2}}),
        (FORM, {"result": {"price": 1}}, {"result": {"price": 2}}),
    ],
)
async def test_all_who_approve_approve_the_same_text(tmp_path: Path, form: Any, first: dict[str, Any], other: dict[str, Any]) -> None:
    yes = "approve" if form is None else "answer"
    async with stage(signed(votes=2, form=form), folder=tmp_path, clock=PatientClock()) as made:
        run, approval = await asked(made)
        await vote(made, approval, "ann", yes, **first)
        with pytest.raises(ApprovalRefused, match="ann has approved"):
            await vote(made, approval, "bob", yes, **other)
        await vote(made, approval, "bob", yes, **first)
        response = await made.service.response(run, LOCAL)
    assert response.outputs is not None
    assert response.outputs["outputs"] == first.get("edited_arguments", first.get("result", {"x": 1}))


async def test_more_votes_than_persons_is_told_before_a_person_is_asked(tmp_path: Path) -> None:
    policy = Policy(groups={"leads": ("ann", "bob")})
    async with stage(signed(votes=3, approvers=("leads", "ann")), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        response = await made.run()
    assert response.error is not None
    assert (response.error.error_code, response.approvals) == ("approval_impossible", ())
    assert "only 2 persons may decide: ann, bob" in response.error.message


@pytest.mark.parametrize(
    "by, approvers, needed, told",
    [
        ("ann", ("leads",), 2, "2 persons must approve, and only 1 person may decide: bob. ann asked for it"),
        ("hft-of-ann", ("leads",), 2, "only 1 person may decide: bob. ann asked for it"),
        ("ann", ("ann",), 1, "1 person must approve, and only 0 persons may decide: none. ann asked for it"),
        ("cem", ("ann", "hft-of-ann"), 2, "only 1 person may decide: ann."),
        ("sam", (), 1, "A member of security must approve, and no member may decide. sam asked for it"),
        ("cem", ("leads",), 2, None),
        ("local:ann", ("leads",), 2, None),
    ],
)
async def test_a_question_that_only_its_requester_could_complete_is_told_before_a_person_is_asked(
    tmp_path: Path, by: str, approvers: tuple[str, ...], needed: int, told: str | None
) -> None:
    rule = RiskRule(group="security") if by == "sam" else RiskRule()
    policy = Policy(groups={"leads": ("ann", "bob"), "security": ("sam",)}, risks={"high": rule})
    async with stage(signed(votes=needed, approvers=approvers, risk="high"), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        key = Credential(id="hft-of-ann", kind=CredentialKind.TOKEN, secret="s", roles=(Role.APPROVER,), person="ann", created_at=0)
        made.engine._engine.store.put_credential(key)
        caller = Caller(principal=by, logged_in=not by.startswith("local"))
        response = await made.service.invoke(WorkerRequest(worker_id="p", inputs={}), caller, wait=20)
    assert response.error is not None
    assert response.error.error_code == ("approval_required" if told is None else "approval_impossible")
    assert (told or "") in response.error.message


async def test_the_votes_of_others_lock_no_member_of_the_demanded_group_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes, "_MOST", 2)
    policy = Policy(groups={"security": ("sam",)}, risks={"high": RiskRule(group="security")})
    async with stage(signed(risk="high"), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        _, approval = await asked(made)
        await vote(made, approval, "ann")
        await vote(made, approval, "bob")
        with pytest.raises(ApprovalRefused, match="the most that are allowed"):
            await vote(made, approval, "cem")
        closed = await vote(made, approval, "sam")
    assert (closed.state, closed.decided_by) == ("approve", "ann, bob, sam")


# --- groups and risks


async def test_a_group_stands_for_its_members_as_they_were_when_they_were_asked(tmp_path: Path) -> None:
    policy = Policy(groups={"leads": ("ann", "bob")})
    async with stage(signed(approvers=("leads",)), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        run, approval = await asked(made)
        with pytest.raises(ApproverRefused):
            await vote(made, approval, "leads")
        await vote(made, approval, "bob")
        response = await made.service.response(run, LOCAL)
    assert (approval.approvers, approval.groups) == (("leads",), {"leads": ("ann", "bob")})
    assert response.outputs is not None
    assert response.outputs["by"] == "bob"


@pytest.mark.parametrize("approvers, shown", [(("ann", "bob"), "ann, bob, security"), (("ann", "security"), "ann, security")])
async def test_a_refusal_names_the_approvers_and_the_demanded_group(tmp_path: Path, approvers: tuple[str, ...], shown: str) -> None:
    policy = Policy(groups={"security": ("sam",)}, risks={"high": RiskRule(group="security")})
    async with stage(signed(risk="high", approvers=approvers), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        _, approval = await asked(made)
        with pytest.raises(ApproverRefused, match=f"eve is not among those who may decide this: {shown}\\."):
            await vote(made, approval, "eve")
        assert [one.person for one in (await vote(made, approval, "sam")).votes] == ["sam"]


async def test_an_operator_adds_votes_and_a_group_for_a_risk_and_takes_nothing_away(tmp_path: Path) -> None:
    rule = RiskRule(votes=2, group="security", batch=False, links=False)
    policy = Policy(groups={"security": ("sam",)}, risks={"high": rule, "low": RiskRule()})
    async with stage(signed(risk="high", approvers=("ann", "bob")), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        _, approval = await asked(made)
        await vote(made, approval, "ann")
        waiting = await vote(made, approval, "bob")
        assert (waiting.state, len(waiting.votes)) == ("open", 2), "two have approved, and none of them is of the group"
        closed = await vote(made, approval, "sam")
    assert (approval.votes_needed, approval.group, approval.batch, approval.links) == (2, "security", False, False)
    assert closed.decided_by == "ann, bob, sam"
    async with stage(signed(risk="low", votes=3), folder=tmp_path, policy=policy, clock=PatientClock()) as made:
        _, approval = await asked(made)
    assert approval.votes_needed == 3


# --- a chain


async def test_a_silence_adds_the_approvers_of_the_chain_to_the_same_question(tmp_path: Path) -> None:
    chain = (Then(HOUR, ("bob",)), Then(2 * HOUR, ("heads",)))
    policy = Policy(groups={"heads": ("eve",)})
    graph, told = signed(approvers=("ann",), then=chain, within_seconds=10 * HOUR), Told()
    async with stage(graph, folder=tmp_path, policy=policy, clock=PatientClock(skipping=False), observer=told) as made:
        run, approval = await asked(made)
        assert [(part.approvers, part.added) for part in approval.chain] == [(("bob",), False), (("heads",), False)]
        with pytest.raises(ApproverRefused):
            await vote(made, approval, "eve")
        for expected in (("ann", "bob"), ("ann", "bob", "heads")):
            made.clock.move_to(made.clock.now() + HOUR * 1000)
            made.engine._engine.look_for_work()
            approval = await until_approvers(made, expected)
        await vote(made, approval, "eve")
        response = await made.service.response(run, LOCAL)
        store = made.engine._engine.store
        steps = [op for op in store.operations(run) if op.sub_type == ESCALATION]
        timers = [op.status for op in store.operations(run) if op.type == "WAIT"]
    assert [op.name for op in steps] == ["h", "h"]
    assert told.waits == [approval.approval_id] * 3, "whatever notifies people hears of each addition"
    assert timers == [Status.SUCCEEDED] * 2
    assert response.outputs is not None
    assert response.outputs["by"] == "eve"


class Told(RunObserver):
    """Hears of runs that wait for persons."""

    def __init__(self) -> None:
        self.waits: list[str] = []

    def waits_for_person(self, run: RunSeen, wait: PersonWaitSeen) -> None:
        self.waits.append(wait.approval_id)


async def until_approvers(made: Stage, expected: tuple[str, ...]) -> Approval:
    while True:
        await asyncio.sleep(0)
        (approval,) = made.service.approvals(LOCAL)
        if approval.approvers == expected:
            return approval


def pipeline(**more: Any) -> Pipeline:
    p = Pipeline("p", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
    made = p.worker("a", "maker", {})
    sign = p.human("sign", show=made.outputs, within="2d", **more)
    done = p.worker("z", "doer", {"n": sign.outputs.n}, after=[sign])
    p.gives({"by": sign.decided_by, "done": done.outputs})
    return p


STUBS = {"maker": {"n": 1}, "doer": {"ok": True}}


@pytest.mark.usefixtures("kit_store")
def test_the_kit_plays_votes_and_silence_and_no_crash_changes_them() -> None:
    settings = WorkerSettings(policy=Policy(groups={"leads": ("ann", "bob")}))
    more: dict[str, Any] = {"workers": STUBS, "worker_settings": settings}
    chained = pipeline(approvers=["leads"], votes=2, then=[("4h", ["eve"])])
    decisions = {"sign": ["approve", "silence", {"verdict": "approve", "decided_by": "eve"}]}
    ran = pipeline_kit.run(chained, {}, decisions=decisions, **more)
    (question,) = ran.questions
    assert (ran.outputs["by"], [one.person for one in question.votes]) == ("ann, eve", ["ann", "eve"])
    assert [part.added for part in question.chain] == [True]
    told = [(one.data["state"], one.data.get("decided_by")) for one in ran.events if one.event == "approval"]
    assert told == [("open", None), ("vote", "ann"), ("escalated", None), ("vote", "eve"), ("approve", "ann, eve")]
    assert pipeline_kit.crash_everywhere(chained, {}, decisions=decisions, **more) > 10


def test_no_person_at_all_ends_the_question_in_its_time() -> None:
    ran = pipeline_kit.run(pipeline(approvers=["ann"], then=[("4h", ["eve"])]), {}, workers=STUBS, decisions={"sign": "silence"})
    assert (ran.error.error_code, ran.questions[0].state) == ("approval_expired", "expired")


# --- what an author may write


@pytest.mark.parametrize(
    "more, told",
    [
        ({"votes": 0}, "votes is 0"),
        ({"votes": 21}, "at most 20"),
        ({"votes": "2"}, "votes= is '2'"),
        ({"then": [("4h", ["eve"])]}, "must name the first ones"),
        ({"approvers": ["ann"], "then": [("4h", [])]}, "names no approvers"),
        ({"approvers": ["ann"], "then": [("4h", ["b"]), ("4h", ["c"])]}, "later than the part before it"),
        ({"approvers": ["ann"], "then": [("3d", ["b"])]}, "before the question ends"),
        ({"approvers": ["ann"], "then": ["eve"]}, "each part is a duration and a list"),
        ({"approvers": ["ann"], "then": [(f"{n}h", ["b"]) for n in range(1, 13)]}, "at most 10"),
        ({"risk": "huge"}, "risk"),
        ({"form": {"x": "y" * 70_000}}, "form"),
    ],
)
def test_a_wrong_question_is_refused_where_it_is_written(more: dict[str, Any], told: str) -> None:
    with pytest.raises(PipelineInvalid, match=told):
        pipeline(**more)


async def test_a_question_tells_what_its_run_and_the_runs_above_it_have_spent(tmp_path: Path) -> None:
    async def thinks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.think()
        return {} if "asks" not in inputs else {"said": await ctx.ask("so?")}

    think = Counted("think", Effect.READ, lambda: "hm", usage=Usage(6, 4, Decimal("0.25")))
    thinker = worker("thinks", thinks, think, grants=(ToolGrant("think"),))
    inner = graph_of(WorkerNode(name="w", worker="thinks", inputs={"asks": True}), name="inner", gives={})
    outer = graph_of(
        WorkerNode(name="first", worker="thinks", inputs={}), WorkerNode(name="i", worker="inner", inputs={"after": out("first")}), gives={}
    )
    async with stage([inner, outer], thinker, folder=tmp_path, clock=PatientClock()) as made:
        response = await made.run()
        (approval,) = made.service.approvals(LOCAL)
    used = [(one.worker_id, one.usage.tokens.input, one.usage.cost_usd, one.usage.tool_calls) for one in approval.spent]
    assert used == [("thinks", 6, Decimal("0.25"), 1), ("inner", 6, Decimal("0.25"), 1), ("p", 12, Decimal("0.50"), 2)]
    assert response.approvals[0]["spent"][2] == {
        "run_id": response.run_id,
        "worker_id": "p",
        "usage": {"tokens": {"input": 12, "output": 8}, "cost_usd": 0.5, "tool_calls": 2, "cached_tokens": 0, "reasoning_tokens": 0},
    }
    assert approval.may_cost is None


async def test_a_batch_by_node_decides_nothing_of_a_node_with_the_same_name_in_another_pipeline(tmp_path: Path) -> None:
    inner = graph_of(asking(), name="inner")
    outer = graph_of(asking(), PipelineNode(name="a", worker="inner", inputs={}), PipelineNode(name="b", worker="inner", inputs={}))
    async with stage([inner, outer], folder=tmp_path, clock=PatientClock()) as made:
        run = (await made.run()).run_id
        store = made.engine._engine.store
        await eventually(lambda: len(list(waiting_below(store, run, LOCAL))) == 3)
        of_h, of_a = list(waiting_below(store, run, LOCAL, "h")), list(waiting_below(store, run, LOCAL, "a"))
    assert [approval.run_id for approval in of_h] == [run]
    assert [(approval.worker_id, approval.node) for approval in of_a] == [("inner", "h")]
