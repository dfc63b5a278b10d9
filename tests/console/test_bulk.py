"""Actions on everything that a list shows: count first, a reason, a typed number, progress, and a note for each run."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.console.bulk_jobs import KEPT, MOST_AT_ONCE, BulkJob, BulkJobs
from holdfast.console.sources.bulk import BulkRun, Verb
from holdfast.model.audit import NoteFilter
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.model.ids import id_at
from holdfast.model.shown_status import ShownStatus
from tests.console.scene import Browser, Scene, plain
from tests.console.test_tables import park


async def ended(browser: Browser, job: str) -> str:
    """What the page of a job says when it is over."""
    while True:
        page = await browser.text(job)
        if "State running" not in page:
            return page


async def act(browser: Browser, **fields: Any) -> str:
    """Begin an action on all matches; the path of its job."""
    answer = await browser.post("runs/-/bulk", **fields)
    return "runs/-/" + answer.headers["location"].partition("runs/-/")[2]


async def test_everything_that_matches_is_stopped_with_a_reason_that_the_log_keeps(scene: Scene) -> None:
    runs = [scene.start("order", number, name=f"order-{number}") for number in range(12)]
    other = scene.start("mail", None, name="mail-1")
    async with scene.browser("operator") as browser:
        assert 'href="./-/bulk?q=function%3Aorder"' in (await browser.get("runs?q=function:order")).text.replace("./runs/-", "./-")
        page = (await browser.get("runs/-/bulk?q=function:order&verb=stop")).text
        assert "12 runs to stop" in plain(page)
        assert "The first 10 of 12" in plain(page)
        later = scene.start("order", 99, name="order-later")
        given = {"q": "function:order", "verb": "stop", "newest": runs[-1].id, "count": "12"}
        answer = await browser.post("runs/-/bulk", **given, confirm="12", expect=422)
        assert "Give a reason" in plain(answer.text)
        answer = await browser.post("runs/-/bulk", **given, reason="a bad deploy", confirm="11", expect=422)
        assert "is not the number of runs" in plain(answer.text)
        assert scene.store.find(runs[0].id).status is ExecutionStatus.RUNNING  # type: ignore[union-attr]
        job = await act(browser, **given, reason="a bad deploy", confirm="12")
        told = await ended(browser, job)
        assert "State done" in told
        assert "Done 12 Failed 0 Left 0" in told
        assert {scene.store.find(run.id).status for run in runs} == {ExecutionStatus.STOPPED}  # type: ignore[union-attr]
        for one in (other, later):
            assert scene.store.find(one.id).status is ExecutionStatus.RUNNING  # type: ignore[union-attr]
    notes = [one.note for one in scene.store.audit(NoteFilter(what="bulk stop", limit=100))]
    assert {note.on for note in notes} == {"function:order", *(run.id for run in runs)}
    assert all("a bad deploy" in note.outcome for note in notes)


async def test_parked_runs_are_redriven_and_failed_ones_retried(scene: Scene) -> None:
    parked = park(scene, 3)
    async with scene.browser("operator") as browser:
        assert "There is nothing to release" in await browser.text("runs/-/bulk?q=&verb=release")
        assert "3 runs to redrive" in await browser.text("runs/-/bulk?q=queue:emails&verb=redrive")
        assert "3 runs to retry" in await browser.text("runs/-/bulk?q=status:failed"), "what failed cannot be stopped"
        given = {"q": "queue:emails", "newest": max(parked), "reason": "mended"}
        job = await act(browser, **given, verb="redrive", count="3", confirm="3")
        assert "Done 3" in await ended(browser, job)
        assert all(scene.store.find(run).superseded_by for run in parked)  # type: ignore[union-attr]
        stopped = scene.start("order", None, name="order-1")
        scene.store.find(stopped.id)
        await ended(browser, await act(browser, q="function:order", verb="stop", newest=stopped.id, count="1", confirm="1", reason="x"))
        job = await act(browser, q="function:order", verb="retry", newest=stopped.id, count="1", confirm="1", reason="again")
        assert "Done 1" in await ended(browser, job)
        assert scene.store.find(stopped.id).superseded_by is not None  # type: ignore[union-attr]


async def test_a_tenant_acts_on_its_own_runs_and_sees_no_job_of_others(scene: Scene) -> None:
    theirs = scene.start("order", None, name="secret-of-acme", tenant="acme")
    own = scene.start("order", None, name="of-rival", tenant="rival")
    async with scene.browser("operator", tenant="rival") as browser:
        page = await browser.text("runs/-/bulk?q=tenant:acme&verb=stop")
        assert "There is nothing to stop" in page
        assert "1 run to stop" in await browser.text("runs/-/bulk?q=function:order&verb=stop")
        newest = max(own.id, theirs.id)
        await ended(browser, await act(browser, q="function:order", verb="stop", newest=newest, count="1", confirm="1", reason="r"))
        assert scene.store.find(own.id).status is ExecutionStatus.STOPPED  # type: ignore[union-attr]
        assert scene.store.find(theirs.id).status is ExecutionStatus.RUNNING  # type: ignore[union-attr]
        await browser.get("runs/-/bulk/no-such-job", expect=404)
        await browser.post("runs/-/bulk/no-such-job/cancel", expect=404)
    async with scene.browser("viewer") as viewer:
        assert "Act on all matches" not in await viewer.text("runs")
        await viewer.get("runs/-/bulk", expect=403)
        await viewer.post("runs/-/bulk", q="", verb="stop", reason="r", confirm="1", expect=403)


async def test_a_wrong_question_or_verb_is_told(scene: Scene) -> None:
    async with scene.browser("operator") as browser:
        assert "is not a qualifier" in plain((await browser.get("runs/-/bulk?q=colour:red", expect=422)).text)
        assert "is not an action" in plain((await browser.get("runs/-/bulk?verb=explode", expect=422)).text)
        wrong = {"q": "colour:red", "verb": "stop", "newest": "", "count": "1", "confirm": "1", "reason": "r"}
        again = plain((await browser.post("runs/-/bulk", **wrong, expect=422)).text)
        assert "is not a qualifier" in again
        assert "Act on all matches" in again, "it is the form again, and no page of an error"


# --- jobs


class SlowActor:
    """What a job acts through: it waits at the second run until it is told to go on."""

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant, self.owner = tenant, "ann"
        self.acted: list[str] = []
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.notes: list[str] = []

    def act(self, verb: Verb, item: BulkRun, reason: str) -> None:
        self.acted.append(item.id)
        if len(self.acted) == 2:
            self.reached.set()
            assert self.go_on.wait(10)
        if item.id == "bad":
            raise InvalidParameter("It was over already.")

    def note(self, verb: Verb, on: str, outcome: str) -> None:
        self.notes.append(outcome)


def items(*names: str) -> list[BulkRun]:
    return [BulkRun(name, name, "order", ShownStatus.RUNNING, 0) for name in names]


def begun(jobs: BulkJobs, actor: SlowActor, *names: str) -> BulkJob:
    return jobs.start(actor, Verb.STOP, items(*names), question="", reason="why")  # type: ignore[arg-type]


def test_a_cancelled_job_acts_on_no_further_run_and_says_what_is_left() -> None:
    told = list[int]()
    actor = SlowActor("acme")
    jobs = BulkJobs(SystemClock(), id_at, pace=0, acted=lambda: told.append(len(actor.acted)))
    job = begun(jobs, actor, "bad", "b", "c", "d")
    assert actor.reached.wait(10)
    assert (job.state, job.left) == ("running", 3)
    job.cancelled.set()
    actor.go_on.set()
    jobs.close()
    assert (job.state, job.done, job.failed, job.left) == ("cancelled", 1, 1, 2)
    assert [(one.item.id, one.reason) for one in job.failures] == [("bad", "It was over already.")]
    assert actor.notes == ["1 done, 1 failed, 2 left: why"]
    assert told == [1, 2, 2], "open pages are told after each run, and at the end"
    assert jobs.find(job.name, "rival") is None
    assert jobs.find(job.name, None) is job
    assert jobs.all("acme") == [job]


def test_few_jobs_go_on_at_once_and_only_the_newest_are_kept() -> None:
    jobs = BulkJobs(SystemClock(), id_at, pace=0)
    actors = [SlowActor() for _ in range(MOST_AT_ONCE)]
    for actor in actors:
        begun(jobs, actor, "a", "b")
        assert actor.reached.wait(10)
    with pytest.raises(InvalidParameter, match="are running already"):
        begun(jobs, SlowActor(), "a")
    for actor in actors:
        actor.go_on.set()
    jobs.close()
    for _ in range(KEPT + 5):
        begun(jobs, SlowActor(), "a")
        jobs.close()
    assert len(jobs.all(None)) == KEPT
