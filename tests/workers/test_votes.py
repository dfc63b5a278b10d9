"""Votes are counted inside the write: persons who race neither double nor lose one, on both stores, and the history stays legal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.audit import Actor, NoteFilter
from holdfast.model.credentials import Credential, CredentialKind, Role
from holdfast.model.errors import CallbackClosed, HoldfastError
from holdfast.model.execution import ExecutionStatus
from holdfast.model.history import EventType
from holdfast.pipelines.graph.graph import HumanNode
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.workers.approvals import ApproverRefused, Decision, VotedBefore
from holdfast.workers.ballots import VOTE
from holdfast.workers.decisions import decision_write
from holdfast.workers.run_lookup import Caller, find_approval
from tests.pipelines.stage import LOCAL, PatientClock, graph_of, stage
from tests.pipelines.templates import ref
from tests.postgres import new_schema

STORES = [pytest.param(lambda folder: str(folder / "s.db"), id="sqlite"), pytest.param(lambda _: new_schema(), id="postgres")]
NOW = 1_767_225_700_000
GRAPH = graph_of(HumanNode(name="h", show={"x": 1}, votes=3), gives={"by": ref("h", "decided_by")})


async def asked(where: str, folder: Path, caller: Caller = LOCAL) -> tuple[str, str]:
    """A run that waits for three persons, and that no process runs."""
    from holdfast.contract.protocol import WorkerRequest

    async with stage(GRAPH, folder=folder, where=where, clock=PatientClock()) as made:
        response = await made.service.invoke(WorkerRequest(worker_id="p", inputs={}), caller, wait=20)
        return response.run_id, response.approvals[0]["approval_id"]


def person(name: str, credential: str | None = None) -> Caller:
    actor = Actor(who=credential or name, origin="10.0.0.1")
    return Caller(principal=name, credential=credential, logged_in=True, everywhere=True, actor=actor)


def vote(store: Store, approval: str, who: Caller, verdict: str = "approve") -> Any:
    """Write a vote. The answer is the header, or the error."""
    decision = Decision(verdict=verdict, decided_by="whatever the caller says", decided_at=NOW)
    try:
        (answer,) = store.commit([decision_write(store, approval, decision, who)], NOW).answers
    except HoldfastError as refused:
        return refused
    return answer


@pytest.mark.parametrize("place", STORES)
async def test_of_twelve_persons_who_race_three_close_the_question_once(tmp_path: Path, place: Callable[[Path], str]) -> None:
    where = place(tmp_path)
    run, approval = await asked(where, tmp_path)
    with closing(open_store(where, "one")) as one, closing(open_store(where, "two")) as two, ThreadPoolExecutor(6) as pool:
        writes = [pool.submit(vote, (one, two)[number % 2], approval, person(f"p{number}")) for number in range(12)]
        answers = [write.result() for write in writes]
        refused = [answer for answer in answers if isinstance(answer, HoldfastError)]
        assert all(isinstance(each, CallbackClosed) for each in refused)
        votes = [op for op in one.operations(run) if op.sub_type == VOTE]
        events = Counter(line.event.type for line in one.history(run, 0, 1000))
        decided = find_approval(one, approval, LOCAL)
    assert (len(votes), len(refused)) == (3, 9)
    assert events[EventType.CALLBACK_SUCCEEDED] == 1
    assert (decided.state, len(decided.votes)) == ("approve", 3)
    assert set((decided.decided_by or "").split(", ")) == {one.person for one in decided.votes}
    async with stage(GRAPH, folder=tmp_path, where=where, clock=PatientClock()) as made:
        response = await made.service.response(run, LOCAL, wait=20)
        header = made.engine._engine.store.find(run)
    assert header is not None
    assert (response.status, header.status) == ("ok", ExecutionStatus.SUCCEEDED)


@pytest.mark.parametrize("place", STORES)
async def test_persons_who_race_with_yes_and_no_close_the_question_once(tmp_path: Path, place: Callable[[Path], str]) -> None:
    where = place(tmp_path)
    run, approval = await asked(where, tmp_path)
    with closing(open_store(where, "one")) as one, closing(open_store(where, "two")) as two, ThreadPoolExecutor(6) as pool:
        verdicts = ["approve", "reject"] * 4
        writes = [pool.submit(vote, (one, two)[at % 2], approval, person(f"p{at}"), verdict) for at, verdict in enumerate(verdicts)]
        refused = [answer for write in writes if isinstance(answer := write.result(), HoldfastError)]
        events = Counter(line.event.type for line in one.history(run, 0, 1000))
        decided = find_approval(one, approval, LOCAL)
    assert all(isinstance(each, CallbackClosed) for each in refused)
    assert len(decided.votes) + len(refused) == len(verdicts), "each vote is counted, or refused"
    assert events[EventType.CALLBACK_SUCCEEDED] == 1
    said = [each.verdict for each in decided.votes]
    assert (decided.state, said.count("reject")) in (("approve", 0), ("reject", 1)), "one rejection closes it, and nothing follows"
    async with stage(GRAPH, folder=tmp_path, where=where, clock=PatientClock()) as made:
        response = await made.service.response(run, LOCAL, wait=20)
    assert response.status == ("ok" if decided.state == "approve" else "permanent_error")


@pytest.mark.parametrize("place", STORES)
async def test_one_person_who_races_with_two_keys_has_one_vote(tmp_path: Path, place: Callable[[Path], str]) -> None:
    where = place(tmp_path)
    run, approval = await asked(where, tmp_path)
    with closing(open_store(where, "one")) as one, closing(open_store(where, "two")) as two, ThreadPoolExecutor(6) as pool:
        keys = [key("hft-first", "ann"), key("hft-second", "ann")]
        for each in keys:
            one.put_credential(each)
        writes = [pool.submit(vote, (one, two)[number % 2], approval, person("ann", keys[number % 2].id)) for number in range(8)]
        refused = [answer for write in writes if isinstance(answer := write.result(), HoldfastError)]
        votes = [op for op in one.operations(run) if op.sub_type == VOTE]
        notes = [noted.note for noted in one.audit(NoteFilter(what="approve"))]
    assert (len(votes), len(refused)) == (1, 7)
    assert all(isinstance(each, VotedBefore) for each in refused)
    (note,) = notes
    assert (note.origin, note.outcome) == ("10.0.0.1", "vote: approve, as ann")
    assert note.who in ("hft-first", "hft-second")


def key(id: str, name: str | None) -> Credential:
    return Credential(id=id, kind=CredentialKind.TOKEN, secret=id, roles=(Role.APPROVER,), person=name, created_at=0)


async def test_a_key_that_voted_before_it_was_given_to_a_person_counts_as_that_person(tmp_path: Path) -> None:
    where = str(tmp_path / "s.db")
    _, approval = await asked(where, tmp_path)
    with closing(open_store(where, "one")) as store:
        store.put_credential(key("hft-first", None))
        store.put_credential(key("hft-second", "ann"))
        assert not isinstance(vote(store, approval, person("hft-first", "hft-first")), HoldfastError)
        store.put_credential(key("hft-first", "ann"))
        assert isinstance(vote(store, approval, person("ann", "hft-second")), VotedBefore)


@pytest.mark.parametrize("requested_by", ["ann", "hft-first"])
async def test_a_person_cannot_decide_an_own_request_whichever_key(tmp_path: Path, requested_by: str) -> None:
    where = str(tmp_path / "s.db")
    _, approval = await asked(where, tmp_path, Caller(principal=requested_by, logged_in=True))
    with closing(open_store(where, "one")) as store:
        for each in ("hft-first", "hft-second"):
            store.put_credential(key(each, "ann"))
        for each in ("hft-first", "hft-second"):
            refused = vote(store, approval, person("ann", each))
            assert isinstance(refused, ApproverRefused), refused
            assert "ann asked for this" in str(refused)
        assert not isinstance(vote(store, approval, person("bob")), HoldfastError)


async def test_a_vote_after_the_time_of_the_question_is_refused_in_its_own_write(tmp_path: Path) -> None:
    where = str(tmp_path / "s.db")
    run, approval = await asked(where, tmp_path)
    with closing(open_store(where, "one")) as store:
        decision = Decision(verdict="approve", decided_by="", decided_at=NOW)
        late = decision_write(store, approval, decision, person("ann"))
        (answer,) = store.commit([late], NOW + 8 * 86_400_000).answers
        assert isinstance(answer, CallbackClosed)
        assert [op for op in store.operations(run) if op.sub_type == VOTE] == []
