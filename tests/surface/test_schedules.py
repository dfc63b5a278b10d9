"""Schedules as people and programs reach them: `holdfast schedules`, and `/v1/schedules` with roles, tenants and audit notes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import AsyncDurableContext, durable_execution
from holdfast import open as open_engine
from holdfast.model.audit import NoteFilter
from holdfast.model.clock import VirtualClock
from holdfast.model.ids import id_at
from holdfast.schedules.documents import described
from holdfast.server.schedules import ScheduleRoutes
from holdfast.store.sqlite.store import SqliteStore
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from tests.surface.auth_server import bearer, client, token
from tests.surface.cli_program import Program, until

# --- the command line


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_a_schedule_is_added_shown_changed_and_removed(holdfast: Program) -> None:
    added = holdfast("schedules", "add", "nightly", "greet", "--cron", "0 2 * * *", "--zone", "Europe/Berlin", "--input", '{"who": "ada"}')
    assert (added.returncode, added.stdout.count("\n")) == (0, 5)
    assert "no runner has hosted greet" in added.stderr
    assert all(" 02:00 CE" in line and "(in " in line for line in added.stdout.splitlines())
    shown = holdfast.document("schedules", "show", "nightly")
    assert (shown["cron"], shown["zone"], shown["overlap"], shown["catch_up"]) == ("0 2 * * *", "Europe/Berlin", "skip", "latest")
    assert (shown["input"], shown["words"], len(shown["next"])) == ({"who": "ada"}, "At 02:00 every day (Europe/Berlin)", 5)
    again = holdfast("schedules", "add", "nightly", "greet", "--every", "1h")
    assert again.returncode == 2
    assert "There is a schedule 'nightly' already" in again.stderr
    changed = holdfast.document("schedules", "add", "nightly", "greet", "--every", "1h", "--replace", "--overlap", "queue")
    assert (changed["every"], changed["overlap"], [x.get("cron") for x in changed["expressions"]]) == ("1h", "queue", ["0 2 * * *", None])
    assert holdfast("schedules", "pause", "nightly").stderr == "paused nightly\n"
    (line,) = holdfast("schedules", "list", "--json").stdout.splitlines()
    assert (json.loads(line)["paused"], json.loads(line)["next"]) == (True, [])
    assert "paused" in holdfast("schedules", "list").stdout
    assert holdfast("schedules", "resume", "nightly").returncode == 0
    assert len(holdfast.document("schedules", "next", "nightly", "--count", "7")) == 7
    assert holdfast("schedules", "next", "nigthly").stderr.endswith("There is no schedule 'nigthly'. Did you mean `nightly`?\n")
    assert holdfast("schedules", "remove", "nightly").returncode == 0
    gone = holdfast("schedules", "show", "nightly")
    assert (gone.returncode, gone.stderr) == (2, "error[schedule_not_found]: There is no schedule 'nightly'.\n")
    noted = [json.loads(line)["what"] for line in holdfast("audit", "--json").stdout.splitlines()]
    assert noted[::-1] == ["add schedule", "add schedule", "pause schedule", "resume schedule", "remove schedule"]


def test_a_schedule_without_an_input_gives_an_empty_object(holdfast: Program) -> None:
    assert holdfast.document("schedules", "add", "s", "greet", "--every", "1h", "--json")["input"] == {}
    assert holdfast.document("schedules", "add", "t", "greet", "--every", "1h", "--input", "null", "--json")["input"] is None


def test_what_was_asked_for_runs_with_the_next_runner_and_its_execution_names_the_schedule(holdfast: Program) -> None:
    holdfast("schedules", "add", "s", "greet", "--cron", "0 0 1 1 *", "--input", '{"who": "ada"}')
    assert "asked for one run" in holdfast("schedules", "run-now", "s").stderr
    filled = holdfast("schedules", "backfill", "s", "2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    span = "from Mon 01 Jan 2024 00:00 UTC up to Thu 01 Jan 2026 00:00 UTC"
    assert filled.stderr == f"asked for 2 runs of greet, due {span}: a runner that hosts it starts them\n"
    assert holdfast.document("schedules", "show", "s")["asked_for"] == 3

    @durable_execution
    async def greet(event: Any, context: AsyncDurableContext) -> str:
        return f"hello {event['who']}"

    with open_engine(holdfast.folder / "holdfast.db", functions=[greet]) as engine:
        until(lambda: len(list(engine.list())) == 3 or None)
    page = holdfast("executions", "show", "greet/s-20240101T000000Z").stdout
    assert "s, backfill, due 2024-01-01T00:00:00Z" in page
    assert holdfast.document("executions", "show", "greet/s-20240101T000000Z")["occurrence"]["how"] == "backfill"
    assert holdfast("schedules", "show", "s").stdout.count("started (backfill)") == 2


def test_dates_of_a_backfill_are_midnights_in_the_zone_of_the_schedule_and_the_last_is_not_included(holdfast: Program) -> None:
    holdfast("schedules", "add", "s", "greet", "--cron", "0 */12 * * *", "--zone", "Europe/Berlin")
    filled = holdfast("schedules", "backfill", "s", "2025-03-30", "2025-03-31").stderr
    span = "due from Sun 30 Mar 2025 00:00 CET up to Mon 31 Mar 2025 00:00 CEST"
    assert filled == f"asked for 2 runs of greet, {span}: a runner that hosts it starts them\n"
    with closing(SqliteStore(str(holdfast.folder / "holdfast.db"), "a look")) as store:
        state = store.schedule("s")
    assert state is not None
    assert [asked.at for asked in state.asked] == [1743289200000, 1743328800000], "23:00 and 10:00 UTC"
    none = holdfast("schedules", "backfill", "s", "2025-03-30T01:00:00+01:00", "2025-03-30T02:30:00Z").stderr
    assert none == "nothing was due from Sun 30 Mar 2025 01:00 CET up to Sun 30 Mar 2025 04:30 CEST\n"


@pytest.mark.parametrize(
    "words, says",
    [
        (("add", "x", "f", "--cron", "0 0 30 2 *"), "there is no such day in that month"),
        (("add", "x", "f"), "either a cron expression or an interval"),
        (("add", "x", "f", "--every", "5 minutes"), "Write an integer above 0"),
        (("add", "x", "f", "--every", "1h", "--zone", "Nowhere"), "is not a time zone"),
        (("add", "x", "f", "--every", "1h", "--overlap", "sometimes"), "Write one of skip, queue, replace, allow"),
        (("add", "x", "f", "--every", "1h", "--catch-up", "all"), "needs overlap 'queue' or 'allow'"),
        (("add", "x", "f", "--every", "1h", "--catch-up", "all:0", "--overlap", "allow"), "write 1 to 100"),
        (("add", "x", "f", "--every", "1h", "--start", "tomorrow"), "Write a time with its zone"),
        (("add", "x y", "f", "--every", "1h"), "use 1 to 40 letters"),
        (("add", "x", "f g", "--every", "1h"), "Function name"),
        (("pause", "nothing"), "There is no schedule 'nothing'"),
        (("backfill", "s", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "must be after its beginning"),
        (("backfill", "s", "2026-01-01", "2026-01-01"), "must be after its beginning"),
        (("backfill", "s", "2026-01-01T00:00", "2026-01-02"), "Write a time with its zone"),
        (("backfill", "s", "2026-01-01", "2026-13-02"), "Write a time with its zone"),
    ],
)
def test_a_mistake_is_one_line_with_a_code_and_exit_code_two(holdfast: Program, words: tuple[str, ...], says: str) -> None:
    holdfast("schedules", "add", "s", "f", "--every", "1h")
    ended = holdfast("schedules", *words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert ended.stderr.startswith("error[")
    assert ended.stderr.count("\n") == 1


# --- HTTP


class Server:
    """The routes of schedules behind a gate, with callers of several roles and tenants."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.clock, self.looks = store, VirtualClock(skipping=False), 0
        now = self.clock.now()
        self.issued = {
            "operator": token(store, "operator", now=now),
            "viewer": token(store, "viewer", now=now),
            "blue": token(store, "operator", now=now, tenant="blue"),
            "red": token(store, "operator", now=now, tenant="red"),
            "default": token(store, "operator", now=now, tenant="default"),
        }
        gate = open_gate(store, host="127.0.0.1", clock=self.clock)
        routes = ScheduleRoutes(store, self.clock, self._look).routes()
        self._client = client(App(routes, WebLimits(), lambda: id_at(now), gate))

    def _look(self) -> None:
        self.looks += 1

    async def __call__(self, method: str, path: str, body: Any = None, by: str = "operator") -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return await self._client.request(method, f"/v1/schedules{path}", content=content, headers=bearer(self.issued[by]))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    with closing(SqliteStore(str(tmp_path / "s.db"), "here")) as store:
        made = Server(store)
        yield made
        await made._client.aclose()
        await asyncio.sleep(0)


async def test_the_verbs_over_http_are_those_of_the_command_line(server: Server) -> None:
    made = await server("POST", "", {"name": "s", "run": "report", "cron": "0 2 * * *", "zone": "Europe/Berlin", "input": {"n": 1}})
    assert (made.status_code, made.headers["location"], made.json()["origin"]) == (201, "/v1/schedules/s", "http")
    assert (await server("POST", "", {"name": "s", "run": "report", "every": "1h"})).status_code == 400
    changed = await server("POST", "", {"name": "s", "run": "report", "every": "1h", "replace": True})
    assert (changed.status_code, changed.json()["every"]) == (201, "1h")
    assert [x["name"] for x in (await server("GET", "")).json()["schedules"]] == ["s"]
    assert len((await server("GET", "/s/next?count=3")).json()["next"]) == 3
    assert (await server("POST", "/s/pause")).json()["paused"] is True
    assert (await server("POST", "/s/resume", {"catch_up": True})).json()["paused"] is False
    assert (await server("POST", "/s/run-now")).json()["asked_for"] == 1
    filled = await server("POST", "/s/backfill", {"from": "2025-12-31T00:00:00Z", "to": "2026-01-01T00:00:00Z"})
    assert (filled.status_code, filled.json()["asked_for"]) == (202, 1)
    assert server.looks == 6
    assert (await server("DELETE", "/s")).json() == {"removed": "s"}
    gone = await server("GET", "/s")
    assert (gone.status_code, gone.json()["error"]["error_code"]) == (404, "schedule_not_found")
    noted = [noted.note for noted in server.store.audit(NoteFilter())][::-1]
    told = ["add schedule", "add schedule", "pause schedule", "resume schedule", "run schedule", "backfill schedule", "remove schedule"]
    assert [note.what for note in noted] == told
    assert {(note.on, note.who) for note in noted} == {("s", server.issued["operator"].credential.id)}


async def test_a_long_page_of_schedules_is_described_off_the_event_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[threading.Thread]()

    def noted(*args: Any, **options: Any) -> Any:
        threads.add(threading.current_thread())
        return described(*args, **options)

    for name in ("a", "b"):  # each needs a search through forty years
        await server("POST", "", {"name": name, "run": "report", "cron": "0 0 * 2 MON#5"})
    monkeypatch.setattr("holdfast.server.schedules.described", noted)
    assert [one["name"] for one in (await server("GET", "?after=a")).json()["schedules"]] == ["b"]
    assert threads
    assert threading.current_thread() not in threads


async def test_a_viewer_looks_and_changes_nothing(server: Server) -> None:
    await server("POST", "", {"name": "s", "run": "report", "every": "1h"})
    assert (await server("GET", "/s", by="viewer")).status_code == 200
    for method, path in (
        ("POST", ""),
        ("DELETE", "/s"),
        ("POST", "/s/pause"),
        ("POST", "/s/resume"),
        ("POST", "/s/run-now"),
        ("POST", "/s/backfill"),
    ):
        assert (await server(method, path, {}, by="viewer")).status_code == 403


async def test_a_tenant_sees_and_changes_only_its_own_schedules(server: Server) -> None:
    asked = {"name": "b", "run": "report", "every": "1h", "tenant": "red"}
    assert (await server("POST", "", asked, by="blue")).json()["tenant"] == "blue"
    await server("POST", "", {"name": "all", "run": "report", "every": "1h"})
    assert [x["name"] for x in (await server("GET", "", by="blue")).json()["schedules"]] == ["b"]
    assert (await server("GET", "", by="red")).json() == {"schedules": []}
    for method, path in (
        ("GET", "/b"),
        ("POST", "/b/pause"),
        ("POST", "/b/run-now"),
        ("DELETE", "/b"),
        ("GET", "/all"),
        ("POST", "/all/pause"),
    ):
        assert (await server(method, path, by="red")).status_code == 404
    taken = await server("POST", "", {"name": "b", "run": "mine", "every": "1h", "replace": True}, by="red")
    assert (taken.status_code, taken.json()["error"]["error_code"]) == (400, "schedule_invalid")
    assert [x["name"] for x in (await server("GET", "")).json()["schedules"]] == ["all", "b"]


async def test_a_schedule_without_a_tenant_is_one_of_the_tenant_default(server: Server) -> None:
    await server("POST", "", {"name": "all", "run": "report", "every": "1h"})
    await server("POST", "", {"name": "b", "run": "report", "every": "1h"}, by="blue")
    assert [x["name"] for x in (await server("GET", "", by="default")).json()["schedules"]] == ["all"]
    assert (await server("POST", "/all/pause", by="default")).status_code == 200
    assert (await server("GET", "/b", by="default")).status_code == 404


@pytest.mark.parametrize(
    "path, body",
    [
        ("", []),
        ("", {}),
        ("", {"name": 5, "run": "f", "every": "1h"}),
        ("", {"name": "x", "run": "f", "every": "1h", "odd": 1}),
        ("", {"name": "x", "run": ["f"], "every": "1h"}),
        ("", {"name": "x", "run": "f", "every": 5}),
        ("", {"name": "x", "run": "f", "every": "1h", "start": 5}),
        ("", {"name": "x", "run": "f", "every": "1h", "input": "x" * 300_000}),
        ("", {"name": "x", "run": "f", "cron": "0 0 30 2 *"}),
        ("", {"name": "x", "run": "f", "cron": "* " * 1000}),
        ("", {"name": "x", "run": "f", "every": "1h", "zone": "\x00"}),
        ("", {"name": "x", "run": "f", "every": "1h", "tenant": "\n"}),
        ("", {"name": "x", "run": "f", "every": "1h", "version": "a b"}),
        ("/s/pause", {"odd": 1}),
        ("/s/resume", {"catch_up": "yes"}),
        ("/s/backfill", {"from": "2026-01-01T00:00:00Z"}),
        ("/s/backfill", {"from": "1900-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
        ("/s/backfill", {"from": "2026-01-01T00:00", "to": "2026-01-02"}),
        ("/s/backfill", {"from": "2026-02-30", "to": "2026-03-02"}),
        ("/" + "x" * 500 + "/pause", None),
    ],
)
async def test_a_body_that_does_not_fit_is_told_so_and_changes_nothing(server: Server, path: str, body: Any) -> None:
    await server("POST", "", {"name": "s", "run": "report", "every": "1h"})
    answer = await server("POST", path, body)
    assert answer.status_code in (400, 413, 422)
    assert answer.json()["error"]["message"]
    assert [state.revision for state in server.store.schedules("", 10)] == [1]
