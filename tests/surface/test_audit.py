"""The audit log: every refusal and every decision of a person or key is in it, without secrets, whatever strangers send and how often."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.model.audit import Actor, Note, NoteFilter, NoteKind, kept_days
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import DiskFull, InvalidParameter, StoreBroken
from holdfast.model.ids import id_at
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.auth.refusal_log import MANY, RefusalLog
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from tests.surface.auth_server import access_key, bearer, client, gate, signed, token
from tests.surface.cli_program import Program
from tests.surface.test_auth_gate import CREATE, INVOKE, LIST


@pytest.fixture
def store() -> Iterator[Store]:
    with contextlib.closing(open_store(":memory:", "here")) as store:
        yield store


def notes(store: Store, **wanted: Any) -> list[Note]:
    return [noted.note for noted in store.audit(NoteFilter(**wanted))]


def told(note: Note) -> tuple[str, str, str, str]:
    return note.who, note.what, note.origin, note.outcome


# --- what a gate refuses


async def test_every_way_to_be_refused_at_the_gate_is_noted(store: Store) -> None:
    viewer, key = token(store, "viewer"), access_key(store, "operator")
    tenant = token(store, "approver", "operator", tenant="acme")
    execution = id_at(1)
    callback = store.seal.callback(execution, "op")
    app = gate(store)
    async with client(app) as asking:
        await asking.post(INVOKE)
        await asking.post(INVOKE, headers={"Authorization": "Bearer hf_guess"})
        await asking.post(INVOKE, headers={"Authorization": "AWS4-HMAC-SHA256 nonsense"})
        await asking.send(signed(key, "POST", INVOKE, b"{}", secret="x" * 40))
        await asking.post(INVOKE, headers=bearer(viewer))
        await asking.post(CREATE, headers=bearer(tenant))
        await asking.post(INVOKE, headers={**bearer(tenant), "X-Amz-Tenant-Id": "bolt"})
        await asking.post(f"/2025-12-01/durable-execution-callbacks/{quote(callback, safe='')}/fail", headers=bearer(tenant))
        await asking.get(LIST, headers={**bearer(viewer), "Origin": "https://evil.example"})
    await app.guard.close()
    found = [told(note) for note in reversed(notes(store))]
    here = "127.0.0.1"
    assert found == [
        ("anonymous", "Invoke", here, "MissingAuthenticationTokenException"),
        ("anonymous", "Invoke", here, "UnrecognizedClientException"),
        ("anonymous", "Invoke", here, "IncompleteSignatureException"),
        (key.credential.id, "Invoke", here, "InvalidSignatureException"),
        (viewer.credential.id, "Invoke", here, "AccessDeniedException"),
        (tenant.credential.id, "CreateFunction", here, "AccessDeniedException"),
        (tenant.credential.id, "Invoke", here, "AccessDeniedException"),
        (tenant.credential.id, "SendDurableExecutionCallbackFailure", here, "ResourceNotFoundException"),
        ("anonymous", "ListDurableExecutionsByFunction", here, "AccessDeniedException"),
    ]
    assert {note.kind for note in notes(store)} == {NoteKind.REFUSAL}
    assert [note.tenant for note in notes(store, who=tenant.credential.id)] == ["acme"] * 3
    assert notes(store, what="SendDurableExecutionCallbackFailure")[0].on == execution, "the execution, not the id that answers it"
    everything = "".join(str(note) for note in notes(store))
    assert not [secret for secret in (viewer.secret, key.secret, tenant.secret, callback, "hf_guess") if secret in everything]


async def test_a_secret_that_was_sent_in_the_place_of_an_id_is_not_in_the_log(store: Store) -> None:
    """Who mixes up the two halves of a key, or signs with a token, is refused, and learns it; the log is read by others."""
    viewer, key = token(store, "viewer"), access_key(store, "operator", tenant="acme")
    app = gate(store)
    wrong = [viewer.secret, key.secret, "a" * 40]
    async with client(app) as asking:
        for secret in wrong:
            scope = f"Credential={secret}/20261116/eu-north-1/lambda/aws4_request, SignedHeaders=host, Signature=00"
            await asking.post(INVOKE, headers={"Authorization": f"AWS4-HMAC-SHA256 {scope}", "X-Amz-Date": "20261116T000000Z"})
            await asking.post(f"{INVOKE}?X-Amz-Credential={quote(secret, safe='')}%2F20261116&X-Amz-Signature=00")
        await asking.get(f"/v1/runs/{viewer.secret}")
    await app.guard.close()
    everything = "".join(str(note) for note in notes(store))
    assert {note.what for note in notes(store)} == {"Invoke", "GetRun"}
    assert not [secret for secret in wrong if secret in everything]


@pytest.mark.parametrize("status, noted", [(200, 0), (400, 0), (401, 1), (403, 1), (429, 1), (500, 0)])
async def test_what_the_app_itself_refuses_is_noted_as_it_answers(store: Store, status: int, noted: int) -> None:
    """A rate, a full house, a decision on one's own request."""
    operator = token(store, "operator")

    async def handler(_: Request) -> Reply:
        return Reply(status)

    guarded = gate(store, handler=handler, clock=VirtualClock())
    async with client(guarded) as asking:
        assert (await asking.post("/v1/workers/pay/invoke", headers=bearer(operator))).status_code == status
    await guarded.guard.close()
    assert [told(note)[:2] for note in notes(store)] == [(operator.credential.id, "InvokeWorker")] * noted


async def test_another_tenants_run_is_noted_for_whoever_looked_for_it(store: Store) -> None:
    caller = token(store, "viewer", tenant="acme")

    async def handler(_: Request) -> Reply:
        return Reply(404)

    guarded = gate(store, handler=handler, clock=VirtualClock())
    async with client(guarded) as asking:
        await asking.get("/v1/runs/r-1", headers=bearer(caller))
    await guarded.guard.close()
    assert [(note.who, note.what, note.on, note.outcome) for note in notes(store)] == [
        (caller.credential.id, "GetRun", "/v1/runs/r-1", "404")
    ]


# --- what changes code


async def test_a_change_of_code_is_noted_before_it_is_done_and_its_failure_after(store: Store) -> None:
    admin = token(store, "admin")
    seen: list[int] = []

    async def handler(request: Request) -> Reply:
        seen.append(len(notes(store)))
        status = 409 if request.scope["path"].endswith("/code") else 201
        return Reply(status, headers=[(b"x-amzn-errortype", b"ResourceConflictException")])

    guarded = gate(store, handler=handler, clock=VirtualClock())
    async with client(guarded) as asking:
        await asking.post(CREATE, headers=bearer(admin))
        await asking.put("/2015-03-31/functions/f/aliases/live", headers=bearer(admin))
        await asking.put("/2015-03-31/functions/f/code", headers=bearer(admin))
        await asking.get(CREATE, headers=bearer(admin))
    await guarded.guard.close()
    assert seen == [1, 2, 3, 3]
    assert [(note.kind.value, note.what, note.on, note.outcome) for note in reversed(notes(store))] == [
        ("decision", "CreateFunction", "/2015-03-31/functions", "accepted"),
        ("decision", "UpdateAlias", "/2015-03-31/functions/f/aliases/live", "accepted"),
        ("decision", "UpdateFunctionCode", "/2015-03-31/functions/f/code", "accepted"),
        ("refusal", "UpdateFunctionCode", "/2015-03-31/functions/f/code", "ResourceConflictException"),
    ]


async def test_a_request_that_matches_no_route_is_refused_and_not_noted_as_accepted(store: Store) -> None:
    admin = token(store, "admin")
    guarded = gate(store, clock=VirtualClock())
    async with client(guarded) as asking:
        for path in ("/v1/runs", "/v1/queues/nope/frob"):
            assert (await asking.delete(path, headers=bearer(admin))).status_code in (404, 405)
    await guarded.guard.close()
    assert {note.kind for note in notes(store)} == {NoteKind.REFUSAL}
    assert {note.what for note in notes(store)} == {"Unknown"}


async def test_what_cannot_be_noted_is_not_done(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = token(store, "admin")
    done: list[str] = []

    async def handler(request: Request) -> Reply:
        done.append(request.scope["path"])
        return Reply(200)

    def full(notes: Sequence[Note]) -> None:
        raise DiskFull("no room")

    guarded = gate(store, handler=handler, clock=VirtualClock())
    monkeypatch.setattr(store, "note", full)
    async with client(guarded) as asking:
        answer = await asking.post(CREATE, headers=bearer(admin))
    assert (answer.status_code, done) == (500, [])


# --- a flood


class Book:
    """Takes notes as a store does, or not."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.broken = False
        self.noted = threading.Event()

    def note(self, notes: Sequence[Note]) -> None:
        if self.broken:
            raise StoreBroken("away")
        self.notes += notes
        self.noted.set()


def refusal(at: int, who: str = "anonymous", outcome: str = "denied", origin: str = "10.0.0.1") -> Note:
    return Actor(who=who, origin=origin).refused("Invoke", "/x", outcome, at)


async def test_the_same_refusal_again_and_again_is_two_lines_a_minute() -> None:
    book, now = Book(), 0
    refusals = RefusalLog(book, lambda: now)
    for _ in range(10_000):
        refusals.add(refusal(5))
    refusals.add(refusal(60_001))
    await refusals.close()
    assert [(note.at, note.times) for note in book.notes] == [(5, 1), (5, 9_999), (60_001, 1)]


async def test_a_flood_of_different_refusals_is_a_bounded_number_of_lines_and_none_is_lost() -> None:
    book = Book()
    refusals = RefusalLog(book, lambda: 0, per_minute=20, per_day=100)
    for minute in range(60):
        for number in range(200):
            refusals.add(refusal(minute * 60_000 + number, who=f"key-{minute}-{number}"))
    await refusals.close()
    assert len(book.notes) == 100 // 2 + 60
    assert sum(note.times for note in book.notes) == 60 * 200
    assert len([note for note in book.notes if note.who == MANY]) == 60


async def test_a_stranger_who_is_refused_all_day_keeps_nobody_else_out_of_the_log() -> None:
    book = Book()
    refusals = RefusalLog(book, lambda: 0, per_minute=20, per_day=100)
    for minute in range(30):
        for number in range(50):
            refusals.add(refusal(minute * 60_000 + number, who=f"guess-{minute}-{number}"))
        refusals.add(refusal(minute * 60_000 + 50, who="alice", origin="10.0.0.2"))
    await refusals.close()
    assert len([note for note in book.notes if note.who == "alice"]) == 30


async def test_lines_that_a_store_cannot_take_are_told_and_later_ones_are_written(caplog: pytest.LogCaptureFixture) -> None:
    class Picky(Book):
        def note(self, notes: Sequence[Note]) -> None:
            if any(note.who == "odd" for note in notes):
                raise TypeError("a secret")
            super().note(notes)

    book = Picky()
    refusals = RefusalLog(book, lambda: 0)
    refusals.add(refusal(0, who="odd"))
    await refusals.close()
    refusals.add(refusal(0, who="even"))
    await refusals.close()
    assert [note.who for note in book.notes] == ["even"]
    assert "1 lines about refusals are missing" in caplog.text
    assert "a secret" not in caplog.text


async def test_refusals_are_kept_while_the_store_cannot_be_written_and_what_is_dropped_is_told(caplog: pytest.LogCaptureFixture) -> None:
    book = Book()
    book.broken = True
    refusals = RefusalLog(book, lambda: 0, per_minute=4_000, per_day=5_000)
    for number in range(1_500):
        refusals.add(refusal(0, who=f"key-{number}"))
    await refusals.close()
    assert (book.notes, refusals.dropped) == ([], 500)
    book.broken = False
    await refusals.close()
    assert (len(book.notes), refusals.dropped) == (1_000, 0)
    assert "500 lines about refusals are missing" in caplog.text


async def test_after_its_close_the_log_writes_nothing_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    book = Book()
    book.broken = True
    refusals = RefusalLog(book, lambda: 0)
    refusals.add(refusal(0))
    refusals._begin()  # as the timer does
    await refusals.close()
    assert refusals._timer is None
    refusals.add(refusal(0))
    assert refusals._timer is None
    assert "could not write 1 lines about refusals into the audit log: away" in caplog.text


async def test_a_refusal_is_written_soon_and_beside_the_answer() -> None:
    book = Book()
    refusals = RefusalLog(book, lambda: 0)
    refusals.add(refusal(0))
    assert book.notes == []
    assert await asyncio.to_thread(book.noted.wait, 30)
    assert len(book.notes) == 1
    await refusals.close()


# --- on the command line


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_keys_are_noted_and_the_log_is_read_by_people_and_machines(holdfast: Program) -> None:
    made = holdfast("keys", "create", "--role", "viewer", "--tenant", "acme", "--token")
    key = made.stderr.split()[1]
    assert holdfast("keys", "revoke", key).returncode == 0
    assert holdfast("keys", "revoke", key).returncode == 2
    lines = [json.loads(line) for line in holdfast("audit", "--json").stdout.splitlines()]
    assert [(line["kind"], line["what"], line["on"], line["from"], line["outcome"]) for line in lines] == [
        ("decision", "revoke key", key, "cli", "revoked"),
        ("decision", "create key", key, "cli", "made: viewer of tenant acme"),
    ]
    assert all(line["who"].startswith("local:") for line in lines)
    page = holdfast("audit", "--what", "create key", "--since", "1d").stdout.splitlines()
    assert page[0].split() == ["AT", "KIND", "WHO", "WHAT", "ON", "FROM", "OUTCOME", "TIMES"]
    assert len(page) == 2
    assert made.stdout.partition("=")[2].strip() not in holdfast("audit", "--json").stdout


def test_a_hostile_line_cannot_steer_the_terminal(holdfast: Program) -> None:
    with contextlib.closing(open_store(str(holdfast.folder / "holdfast.db"), "test")) as store:
        store.note([Actor(who="\x1b]0;mine\x07", origin="\u202eevil").refused("a\nb", "\x9b31m", "x", 1_700_000_000_000)])
    for words in (["audit"], ["audit", "--json"]):
        said = holdfast(*words).stdout
        assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said) is None
    assert len(holdfast("audit").stdout.splitlines()) == 2


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--kind", "gossip"], ["--limit", "0"]], ids=lambda words: words[0])
def test_a_mistake_is_said_clearly(holdfast: Program, words: list[str]) -> None:
    assert holdfast("keys", "create", "--role", "viewer", "--token").returncode == 0
    ended = holdfast("audit", *words)
    assert (ended.returncode, words[0] in ended.stderr) == (2, True)
    assert "Traceback" not in ended.stderr


def test_how_long_lines_are_kept_is_a_setting() -> None:
    assert [kept_days(found) for found in ({}, {"HOLDFAST_AUDIT_DAYS": ""}, {"HOLDFAST_AUDIT_DAYS": "30"})] == [400, 400, 30]
    assert Actor(who="a", origin="", days=30).refused("x", "", "y", 0).expires_at == 30 * 86_400_000
    for wrong in ("0", "-1", "many", "99999999", "0000400000", "1" * 5000):
        with pytest.raises(InvalidParameter, match="HOLDFAST_AUDIT_DAYS"):
            kept_days({"HOLDFAST_AUDIT_DAYS": wrong})


def test_executions_stopped_and_callbacks_answered_on_the_command_line_are_noted(holdfast: Program, tmp_path: Path) -> None:
    from holdfast.cli.arguments import StorePlace
    from holdfast.model.execution import Terms
    from holdfast.model.life import new_execution
    from holdfast.model.verbs import Start
    from holdfast.service.client import Client

    where = str(tmp_path / "holdfast.db")
    with contextlib.closing(open_store(where, "test")) as store:
        for name in ("a", "b"):
            header = new_execution(id_at(1), name, "order", "1", payload="1", now=1, terms=Terms())
            store.commit([Start(header, "1")], 1)
    with StorePlace.of(where, None).client() as mine:
        mine.stop("order/a")
        mine.stop("order/a")
        with pytest.raises(InvalidParameter):
            mine.release("order/b")
    with Client.open(where) as program:
        program.stop("order/b", "enough")
    with contextlib.closing(open_store(where, "test")) as store:
        assert [(note.what, note.outcome) for note in notes(store)] == [("stop", "stopped")]
