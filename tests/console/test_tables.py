"""The pages that are tables: what they say about real queues, schedules, costs, runners, signals and notes, and who may change what."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.console.admission_counts import SPAN_MS, SPANS, AdmissionCounts
from holdfast.console.tables import Bar, Spark, csv_text
from holdfast.model.admission import Enqueue
from holdfast.model.audit import Actor, NoteFilter
from holdfast.model.execution import Claimant, Execution, Outcome, OutcomeStatus, Terms
from holdfast.model.ids import id_at
from holdfast.model.ledger import EntryState, LedgerEntry, expiry
from holdfast.model.life import new_execution
from holdfast.model.operations import Failure, Kind
from holdfast.model.queues import checked_declaration
from holdfast.model.schedules import Handled, Origin, changed
from holdfast.model.summary import Summary
from holdfast.model.verbs import Checkpoint, Settle, Start
from holdfast.schedules.declarations import Schedule
from holdfast.schedules.store_schedules import Schedules
from holdfast.store.seam import Target
from holdfast.store.values import Hosted
from holdfast.testing.stores.queue_writes import ended
from holdfast.testing.stores.writes import answers, checkpoint, live, step
from tests.console.scene import Scene, plain

HOSTILE = '<script>alert("x")</script>\u202e'


def enqueue(scene: Scene, count: int, *, queue: str = "emails", tenant: str | None = None, name: str = "mail") -> None:
    now = scene.clock.now()
    writes = []
    for number in range(count):
        header = new_execution(id_at(now), f"{name}-{number}", "send", "1", payload="{}", now=now, terms=Terms(), tenant=tenant)
        writes.append(Start(header, "{}", enqueue=Enqueue(queue=queue)))
    assert all(not isinstance(one, Exception) for one in scene.store.commit(writes, now).answers)


def joined(scene: Scene, runner: str) -> None:
    if runner not in {one.id for one in scene.store.runners()}:
        scene.store.join(runner, scene.clock.now() + 600_000)


def admit(scene: Scene, count: int) -> Sequence[Execution]:
    now = scene.clock.now()
    joined(scene, "tester")
    done = scene.store.admit([Target("send", "1")], [Claimant("tester", id_at(now)) for _ in range(count)], now)
    return [header for header in done.answers if isinstance(header, Execution)]


def fail(scene: Scene, header: Execution, message: str = "no such address") -> None:
    assert header.invocation is not None
    outcome = Outcome(OutcomeStatus.FAILED, error=Failure(message, "LookupError"))
    write = Settle(execution=header.id, epoch=header.epoch, invocation=header.invocation, seen=header.revision, outcome=outcome)
    (after,) = scene.store.commit([write], scene.clock.now()).answers
    assert isinstance(after, Execution), after


def park(scene: Scene, count: int, *, tenant: str | None = None, message: str = "no such address", name: str = "mail") -> list[str]:
    """Runs that failed and are parked."""
    enqueue(scene, count, tenant=tenant, name=name)
    headers = admit(scene, count)
    for header in headers:
        fail(scene, header, message)
    return [header.id for header in headers]


def noted(scene: Scene, what: str) -> list[tuple[str, str]]:
    """The notes of a verb, newest first: on what, and the outcome."""
    return [(one.note.on, one.note.outcome) for one in scene.store.audit(NoteFilter(what=what))]


# --- queues


async def test_a_queue_says_how_it_stands_and_who_set_its_limits(scene: Scene) -> None:
    scene.store.declare([checked_declaration("emails", {"limits": {"at_once": 5}})])
    enqueue(scene, 3)
    async with scene.browser("operator") as browser:
        told = await browser.text("queues")
        assert "emails" in told
        assert "at_once 5" in told
        assert "operator" not in told.split("at_once 5")[1]
        await browser.post("queues/emails/settings", at_once="2")
        assert "at_once 2 · operator" in await browser.text("queues")
        page = await browser.text("queues/emails")
        assert "as soon as a runner that hosts the function has room" in page
        assert "Waiting 3" in page
        assert noted(scene, "queue_set") == [("emails", "at_once=2")]
        await browser.post("queues/emails/settings", at_once="")
        assert "· operator" not in await browser.text("queues")
        assert noted(scene, "queue_set")[0] == ("emails", "at_once reset")


async def test_a_wrong_limit_is_shown_again_with_what_is_wrong(scene: Scene) -> None:
    enqueue(scene, 1)
    async with scene.browser("operator") as browser:
        answer = await browser.post("queues/emails/settings", at_once="many", expect=422)
        assert 'value="many"' in answer.text
        assert "at_once is 'many'; write a whole number" in plain(answer.text)
        assert scene.store.queue("emails").operator == {}  # type: ignore[union-attr]


async def test_a_queue_is_paused_drained_and_resumed_and_the_log_says_so(scene: Scene) -> None:
    enqueue(scene, 1)
    async with scene.browser("operator") as browser:
        for verb, mode in (("pause", "paused"), ("resume", "open"), ("drain", "draining")):
            await browser.post(f"queues/emails/{verb}")
            assert mode in await browser.text("queues")
            assert noted(scene, f"queue_{verb}") == [("emails", mode)]
        await browser.get("queues/none-such", expect=404)


async def test_parked_runs_start_again_one_by_one_or_all_if_the_number_is_typed(scene: Scene) -> None:
    first, *_ = park(scene, 4, message=HOSTILE)
    async with scene.browser("operator") as browser:
        page = await browser.get("queues/emails")
        assert "<script>alert" not in page.text
        assert "\u202e" not in page.text
        assert "LookupError" in page.text
        answer = await browser.post("queues/emails/redrive", run=first)
        started = answer.headers["location"].rpartition("/")[2]
        assert scene.store.find(first).superseded_by == started  # type: ignore[union-attr]
        assert "3 runs are parked" in await browser.text("queues/emails/redrive")
        answer = await browser.post("queues/emails/redrive", confirm="4", expect=422)
        assert "is not the number of parked runs" in plain(answer.text)
        await browser.post("queues/emails/redrive", confirm="3")
        assert "Nothing is parked" in await browser.text("queues/emails")
        assert noted(scene, "queue_redrive") == [("emails", "3 started again"), ("emails", "1 started again")]


async def test_a_tenant_sees_its_own_lanes_and_parked_runs_and_sets_nothing(scene: Scene) -> None:
    (theirs,) = park(scene, 1, tenant="acme", name="secret-of-acme")
    (own,) = park(scene, 1, tenant="rival", name="of-rival")
    enqueue(scene, 2, tenant="acme", name="waiting-of-acme")
    async with scene.browser("operator", tenant="rival") as browser:
        page = await browser.text("queues/emails")
        assert "of-rival" in page
        assert "secret-of-acme" not in page
        assert "tenant=acme" not in page
        assert "Waiting 0" in page
        for path in ("pause", "resume", "drain", "settings"):
            await browser.post(f"queues/emails/{path}", at_once="1", expect=403)
        await browser.post("queues/emails/redrive", run=theirs, expect=404)
        await browser.post("queues/emails/redrive", confirm="1")
        assert scene.store.find(own).superseded_by is not None  # type: ignore[union-attr]
        assert scene.store.find(theirs).superseded_by is None  # type: ignore[union-attr]
        for path in ("runners", "signals", "audit", "keys"):
            await browser.get(path, expect=403)
            assert f'href="./{path}"' not in (await browser.get("queues")).text


async def test_a_viewer_sees_no_buttons_and_may_not_act(scene: Scene) -> None:
    (parked,) = park(scene, 1)
    Schedules(scene.store, scene.clock).declare(Schedule("nightly", "report", cron="0 2 * * *"), origin=Origin.CODE)
    async with scene.browser("viewer") as browser:
        for path in ("queues", "queues/emails", "schedules", "schedules/nightly"):
            page = (await browser.get(path)).text
            assert page.count("<form") == page.count('action="../logout"') + page.count('action="./logout"'), path
        await browser.post("queues/emails/redrive", run=parked, expect=403)
        await browser.post("schedules/nightly/pause", expect=403)


def test_admissions_are_counted_by_span_and_begin_with_the_first_look() -> None:
    seen = AdmissionCounts()
    assert sum(seen.look("q", 100, 0)) == 0
    assert seen.look("q", 103, 5)[-1] == 3
    assert seen.look("q", 104, 10)[-1] == 4
    assert seen.look("q", 110, SPAN_MS)[-2:] == (4, 6)
    assert sum(seen.look("q", 110, SPAN_MS * (SPANS + 2))) == 0
    assert sum(seen.look("q", 1, SPAN_MS * (SPANS + 3))) == 0


# --- schedules


async def test_a_schedule_is_told_in_words_with_its_next_times(scene: Scene) -> None:
    verbs = Schedules(scene.store, scene.clock)
    verbs.declare(Schedule("digest", "report", cron="0 9 * * 1-5", zone="Europe/Berlin"), origin=Origin.CODE)
    async with scene.browser("operator") as browser:
        assert "At 09:00 on Monday through Friday (Europe/Berlin)" in await browser.text("schedules")
        page = await browser.text("schedules/digest")
        assert page.count("09:00 CE") == 5
        await browser.post("schedules/digest/pause")
        page = await browser.text("schedules/digest")
        assert "Nothing is due while it is paused" in page
        await browser.post("schedules/digest/resume")
        await browser.post("schedules/digest/run")
        assert "Asked for, not started yet 1" in await browser.text("schedules/digest")
        assert [noted(scene, f"{verb} schedule")[0][0] for verb in ("pause", "resume", "run")] == ["digest"] * 3
        await browser.get("schedules/none-such", expect=404)


async def test_a_backfill_counts_first_and_needs_the_number_typed(scene: Scene) -> None:
    Schedules(scene.store, scene.clock).declare(Schedule("daily", "report", cron="0 2 * * *"), origin=Origin.CODE)
    times: dict[str, Any] = {"begin": "2026-01-01T00:00", "end": "2026-01-13T00:00"}
    async with scene.browser("operator") as browser:
        page = await browser.text("schedules/daily/backfill?begin=2026-01-01T00:00&end=2026-01-13T00:00")
        assert "12 occurrences would start" in page
        assert "The first 10 of 12." in page
        answer = await browser.post("schedules/daily/backfill", **times, confirm="11", expect=422)
        assert "is not the number of occurrences" in plain(answer.text)
        assert scene.store.schedule("daily").asked == ()  # type: ignore[union-attr]
        await browser.post("schedules/daily/backfill", **times, confirm="12")
        assert len(scene.store.schedule("daily").asked) == 12  # type: ignore[union-attr]
        wrong = await browser.get("schedules/daily/backfill?begin=2026-01-03T00:00&end=2026-01-01T00:00", expect=422)
        assert "must be after its beginning" in plain(wrong.text)


async def test_the_last_occurrences_lead_to_their_runs_and_say_how_these_stand(scene: Scene) -> None:
    state = Schedules(scene.store, scene.clock).declare(Schedule("daily", "report", cron="0 2 * * *"), origin=Origin.CODE)
    run, now = scene.start("report", None, name="daily-1"), scene.clock.now()
    lines = (Handled(at=now, outcome="started", execution=run.id), Handled(at=now - 1, outcome="skipped", execution=run.id, why=HOSTILE))
    assert scene.store.put_schedule(changed(state, recent=lines))
    async with scene.browser("viewer") as browser:
        page = (await browser.get("schedules/daily")).text
        assert f'href="../runs/{run.id}"' in page
        assert "s-waiting" in page
        assert "skipped" in page
        assert "<script>alert" not in page


async def test_a_schedule_of_another_tenant_is_not_there(scene: Scene) -> None:
    Schedules(scene.store, scene.clock).declare(Schedule("acmes", "report", cron="0 2 * * *", tenant="acme"), origin=Origin.CODE)
    async with scene.browser("operator", tenant="rival") as browser:
        assert "acmes" not in await browser.text("schedules")
        await browser.get("schedules/acmes", expect=404)
        await browser.post("schedules/acmes/run", expect=404)
        assert scene.store.schedule("acmes").asked == ()  # type: ignore[union-attr]


# --- cost


def spend(scene: Scene, tenant: str, worker: str, nanos: int) -> None:
    """A call that a worker of a tenant has made and that is settled."""
    who: dict[str, Any] = {"tenant": tenant, "worker": worker, "run": tenant, "root": tenant, "path": tenant, "call": "c", "model": "m"}
    at = scene.clock.now()
    who |= {"at": at, "expires_at": expiry(at, 396)}
    begun = LedgerEntry(**who, state=EntryState.RESERVED, held_tokens=20, held_nanos=nanos)
    ended = LedgerEntry(**who, state=EntryState.SETTLED, input_tokens=7, output_tokens=3, nanos=nanos, held_tokens=-20, held_nanos=-nanos)
    joined(scene, "here")
    write = checkpoint(live(scene.store, f"{tenant}-{worker[-1]}"), step("s"))
    answers(scene.store, Checkpoint(write.at, write.updates, ledger=(begun, ended)))


async def test_costs_have_totals_bars_and_a_sheet_without_formulas(scene: Scene) -> None:
    spend(scene, "acme", "=cmd|' /C calc'!A0", 3_000_000_000)
    spend(scene, "zoo", "judge", 1_000_000_000)
    async with scene.browser("viewer") as browser:
        page = (await browser.get("cost?by=worker")).text
        assert "All 2 14 6 $4.00" in plain(page)
        assert page.count('class="bar"') == 2
        assert "$3.00" in plain((await browser.get("cost?by=tenant")).text)
        answer = await browser.get("cost.csv?by=worker")
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["worker"] for row in rows] == ["'=cmd|' /C calc'!A0", "judge"]
        assert [row["cost_usd"] for row in rows] == ["3", "1"]
        assert "is not a day" in plain((await browser.get("cost?since=yesterday", expect=422)).text)


async def test_a_tenant_sees_its_own_costs_whatever_it_asks_for(scene: Scene) -> None:
    spend(scene, "acme", "scrape", 3_000_000_000)
    spend(scene, "rival", "judge", 1_000_000_000)
    async with scene.browser("viewer", tenant="rival") as browser:
        for path in ("cost?by=worker", "cost?by=worker&tenant=acme", "cost.csv?by=tenant&tenant=acme", "cost?by=tenant"):
            page = await browser.text(path)
            assert "scrape" not in page
            assert "acme" not in page.replace('value="acme"', "")


def test_a_cell_that_a_spreadsheet_would_run_is_made_harmless() -> None:
    sheet = csv_text(("a", "b", "c"), [("=1+1", "-x", "+y"), ("@z", "\tq", -5), ("-5.5", None, "fine")]).decode()
    assert list(csv.reader(io.StringIO(sheet))) == [["a", "b", "c"], ["'=1+1", "'-x", "'+y"], ["'@z", "'\tq", "-5"], ["-5.5", "", "fine"]]


def test_bars_and_sparks_are_drawn_within_their_boxes() -> None:
    assert Bar(2.0, -1.0).widths == (100, 0)
    assert Bar(0.0001).widths == (0.75, 0)
    assert Spark((0, 4, 8)).bars == [(4, 8.0), (8, 16.0)]
    assert Spark(()).bars == []


# --- runners, signals, audit


async def test_runners_are_alive_or_late_and_functions_are_those_that_were_published(scene: Scene) -> None:
    now = scene.clock.now()
    scene.store.join("runner-a", now + 600_000)
    scene.store.join("runner-b", now - 1_000)
    scene.store.publish([Hosted("web-scrape", "2.0", Terms(), Kind.WORKER)])
    async with scene.browser("viewer") as browser:
        page = await browser.text("runners")
        assert "runner-a alive" in page
        assert "runner-b late" in page
        assert "web-scrape worker 2.0" in page


async def test_signals_have_subscribers_with_their_backlog(scene: Scene) -> None:
    async with scene.browser("viewer") as browser:
        assert "There are no subscribers" in await browser.text("signals")
        scene.store.subscribe("crm")
        for number in range(60):
            scene.start("order", number, name=f"order-{number}")
        page = await browser.text("signals")
        assert "crm no runner delivers 0 60 60 no runner" in page
        assert "There are no dead letters here." in page
        assert "order-59" in page
        assert "order-9 " not in page
        assert "order-9 " in await browser.text("signals?before=11")
        await browser.get("signals?before=x", expect=422)


async def test_a_signal_of_a_run_that_failed_does_not_look_like_a_success(scene: Scene) -> None:
    """Its execution has succeeded, because it has a response; but the response is an error."""
    scene.store.subscribe("crm")
    for name, summary in (("well", Summary(outcome="ok")), ("denied", Summary(outcome="permanent_error", error_code="egress_denied"))):
        ended(scene.store, live(scene.store, name), result="1", summary=summary)
    async with scene.browser("viewer") as browser:
        rows = plain((await browser.get("signals?before=5")).text).partition("Why ")[2]
    assert re.fullmatch(
        r"4 failed denied order \S+ egress_denied 3 running denied order \S+ 2 ok well order \S+ 1 running well order .*", when(rows)
    )


def when(text: str) -> str:
    """A text in which each time is one word."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "then", text)


async def test_the_audit_log_has_filters_pages_and_a_sheet(scene: Scene) -> None:
    now = scene.clock.now()
    for number in range(130):
        scene.store.note(Actor(who="local:ann", origin="cli").did("stop", f"run-{number}", HOSTILE, now))
    scene.store.note([Actor(who="=evil", origin="10.0.0.1").refused("release", "run-x", "AccessDenied", now)])
    async with scene.browser("admin") as browser:
        page = (await browser.get("audit")).text
        assert HOSTILE not in page
        assert "run-129" in page
        assert "run-12<" not in page
        older = page.split("Older")[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
        assert "run-12<" in (await browser.get(older.removeprefix("./"))).text
        refused = await browser.text("audit?kind=refusal")
        assert "run-x" in refused
        assert "run-129" not in refused
        sheet = list(csv.DictReader(io.StringIO((await browser.get("audit.csv?who=%3Devil")).text)))
        assert [(row["who"], row["on"]) for row in sheet] == [("'=evil", "run-x")]
        await browser.get("audit?since=yesterday", expect=422)
        await browser.get("audit?before=x", expect=422)
    async with scene.browser("operator") as other:
        await other.get("audit", expect=403)
        await other.get("audit.csv", expect=403)


async def test_a_person_who_may_not_see_a_page_is_told_which_role_it_needs(scene: Scene) -> None:
    async with scene.browser("viewer") as browser:
        assert "The page Keys needs the role admin, which your credential does not have." in await browser.text("keys", expect=403)
        assert "The page Audit needs the role admin" in await browser.text("audit.csv", expect=403)
        done = await browser.post("queues/emails/pause", expect=403)
        assert "This action on the page Queues needs the role operator or admin" in plain(done.text)
    async with scene.browser("viewer", tenant="acme") as browser:
        said = await browser.text("signals", expect=403)
        assert "The page Signals needs a credential for all tenants. Yours is limited to the tenant 'acme'." in said


@pytest.mark.parametrize("path", ["queues", "schedules", "cost", "runners", "signals", "audit", "keys", "runs/-/bulk"])
async def test_every_page_is_whole_with_nothing_to_show_and_read_only_has_no_forms(scene: Scene, path: str) -> None:
    async with scene.browser("admin", read_only=True) as browser:
        page = await browser.get(path)
        assert 'method="post"' not in page.text.replace(f'<form method="post" action="{"../" * path.count("/") or "./"}logout"', "")
        part = await browser.get(f"{path}?part=no-such", expect=404, headers={"HX-Request": "true"})
        assert "<html" in part.text


async def test_a_part_that_is_asked_for_again_is_that_part_only(scene: Scene) -> None:
    enqueue(scene, 1)
    async with scene.browser("viewer") as browser:
        part = await browser.get("queues?part=queues", headers={"HX-Request": "true"})
        assert part.text.strip().startswith('<section id="queues"')
        assert "<html" not in part.text
        assert "emails" in part.text
