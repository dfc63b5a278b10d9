"""/v1/queues: enqueue one and many, a full queue, what a tenant sees, and what an operator changes. Real routes and a real gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast import AsyncDurableContext, Limits, Queue, durable_execution
from holdfast.model.audit import NoteFilter
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.server.protocol.queues import Queues
from holdfast.server.protocol.routes import worker_routes
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.service.engines import EngineOpening
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from tests.postgres import new_schema
from tests.surface.auth_server import bearer, client, token

EMAILS = "/v1/queues/emails"
gates: dict[str, asyncio.Event] = {}
stores: dict[str, str] = {}


@durable_execution
async def send(event: Any, context: AsyncDurableContext) -> Any:
    async def sent(_: object) -> Any:
        if event.get("fails"):
            raise LookupError("no such address")
        if event.get("waits"):
            await gates.setdefault(event["waits"], asyncio.Event()).wait()
        return event["to"]

    return await context.step(sent, name="send", config=holdfast.StepConfig(retry_strategy=lambda *_: _never()))


def _never() -> Any:
    from holdfast.durable.retries import RetryDecision

    return RetryDecision.no_retry()


class Scene:
    """One server in this process."""

    def __init__(self, opening: EngineOpening, http: httpx.AsyncClient) -> None:
        self.engine, self.store, self.http = opening.engine, opening.engine.store, http

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.http.post(path, json={} if body is None else body, **options)

    async def ended(self, run: str) -> None:
        await self.engine.ending(run)


@pytest.fixture(autouse=True, params=["memory", pytest.param("postgres", marks=pytest.mark.long)])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store of `serving`."""
    monkeypatch.chdir(tmp_path)  # on Postgres, the packages of workers lie in the current folder
    stores["now"] = ":memory:" if request.param == "memory" else new_schema()
    return stores["now"]


@asynccontextmanager
async def serving(*queues: Queue, credentials: bool = False) -> AsyncIterator[Scene]:
    opening = holdfast.open(stores["now"], functions=[send], queues=queues)
    async with opening:
        engine = opening.engine
        if credentials:
            token(engine.store, "admin")
        gate = open_gate(engine.store, host="127.0.0.1", clock=SystemClock())
        app = App(Queues(engine, id_at, None).routes(), WebLimits(), lambda: id_at(SystemClock().now()), gate)
        async with client(app) as http:
            yield Scene(opening, http)
        await gate.close()


async def test_a_message_is_enqueued_and_run_and_its_key_finds_it_again() -> None:
    async with serving(Queue("emails")) as scene:
        first = await scene.post(EMAILS, {"target": "send", "inputs": {"to": "ada"}, "idempotency_key": "m-1"})
        again = await scene.post(EMAILS, {"target": "send", "inputs": {"to": "ada"}, "idempotency_key": "m-1"})
        other = await scene.post(EMAILS, {"target": "send", "inputs": {"to": "bob"}, "idempotency_key": "m-1"})
        assert (first.status_code, again.status_code, other.status_code) == (202, 202, 409)
        assert first.headers["location"] == f"/v1/runs/{first.json()['run_id']}"
        assert first.json()["run_id"] == again.json()["run_id"]
        await scene.ended(first.json()["run_id"])
        (listed,) = (await scene.http.get("/v1/queues")).json()["queues"]
    assert (listed["queue"], listed["admitted"], listed["waiting"]) == ("emails", 1, 0)


async def test_many_messages_are_each_answered_by_themselves() -> None:
    async with serving(Queue("emails", at_once=1)) as scene:
        await scene.post(f"{EMAILS}/pause")
        told = await scene.post(
            EMAILS,
            {
                "messages": [
                    {"target": "send", "inputs": {"to": "ada"}},
                    {"target": "sned", "inputs": {}},
                    {"target": "send", "inputs": {"to": "bob"}, "delay": -1},
                    {"target": "send", "inputs": {"to": "bob"}, "delay": 60, "key": "bob"},
                ]
            },
        )
        runs = told.json()["runs"]
        assert told.status_code == 202
        assert [run.get("state") or run["error"]["error_code"] for run in runs] == [
            "queued",
            "function_not_found",
            "invalid_parameter",
            "queued",
        ]
        page = (await scene.http.get(EMAILS)).json()
    assert (page["waiting"], page["delayed"], page["mode"]) == (1, 1, "paused")


async def test_many_messages_of_which_none_is_enqueued_are_an_error() -> None:
    async with serving(Queue("emails", most_waiting=1)) as scene:
        await scene.post(f"{EMAILS}/pause")
        good, wrong = {"target": "send", "inputs": {"to": "ada"}}, {"target": "sned", "inputs": {}}
        told = [await scene.post(EMAILS, {"messages": messages}) for messages in ([wrong], [good, wrong], [good, wrong])]
    assert [one.status_code for one in told] == [400, 202, 503]
    assert told[0].json()["runs"][0]["error"]["error_code"] == "function_not_found"


async def test_a_full_queue_answers_503_with_the_time_to_come_back_and_writes_nothing() -> None:
    async with serving(Queue("emails", most_waiting=1)) as scene:
        await scene.post(f"{EMAILS}/pause")
        message = {"target": "send", "inputs": {"to": "ada"}}
        many = await scene.post(EMAILS, {"messages": [message, message]})
        one = await scene.post(EMAILS, message)
        none = await scene.post(EMAILS, {"messages": [message]})
        assert (many.status_code, many.headers["retry-after"]) == (202, "60")
        assert [run.get("error", {}).get("error_code") for run in many.json()["runs"]] == [None, "overloaded"]
        assert (one.status_code, one.headers["retry-after"], none.status_code) == (503, "60", 503)
        error = one.json()["error"]
        assert (error["error_code"], error["retryable"], error["retry_after_seconds"]) == ("overloaded", True, 60)
        assert (await scene.http.get(EMAILS)).json()["waiting"] == 1


@pytest.mark.parametrize(
    "body, says",
    [
        (b"[]", "The body is not valid"),
        (b"{", "The body is not valid"),
        (b'{"target": 3}', "Expected `str`, got `int` - at `$.target`"),
        (b'{"inputs": {}}', "missing required field `target`"),
        (b'{"target": "send", "tenants": 1}', "unknown field `tenants`"),
        (b'{"messages": []}', "1 to 1,000 messages"),
        (b'{"messages": [%s]}' % b",".join([b'{"target": "send"}'] * 1001), "1 to 1,000 messages, not 1,001"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_and_nothing_is_written(body: bytes, says: str) -> None:
    async with serving() as scene:
        told = await scene.http.post(EMAILS, content=body)
        assert (told.status_code, told.json()["error"]["error_code"]) == (400, "schema_mismatch")
        assert says in told.json()["error"]["message"]
        assert (await scene.http.get("/v1/queues")).json() == {"queues": []}


@pytest.mark.parametrize("name", ["delay", "ttl", "head_start"])
async def test_a_time_that_no_run_can_have_is_refused_with_the_range(name: str) -> None:
    async with serving(Queue("emails")) as scene:
        for value in (31_622_401, 1e300, -1):
            told = (await scene.post(EMAILS, {"target": "send", "inputs": {"to": "ada"}, name: value})).json()["error"]
            assert (told["error_code"], "from 0 up to 31,622,400 (366 days)" in told["message"]) == ("invalid_parameter", True)
        good = await scene.post(EMAILS, {"target": "send", "inputs": {"to": "ada"}, name: 31_622_400})
        assert good.status_code == 202


async def test_a_message_says_how_many_tokens_it_may_use_and_a_rate_of_tokens_counts_them() -> None:
    async with serving(Queue("emails", rates="100 tokens/m")) as scene:
        message = {"target": "send", "inputs": {"to": "ada"}}
        told = (await scene.post(EMAILS, {"messages": [{**message, "units": units} for units in (60, 60, 101, -1)]})).json()["runs"]
        assert sorted(run["state"] for run in told[:2]) == ["queued", "running"]
        assert [run["error"]["error_code"] for run in told[2:]] == ["invalid_parameter"] * 2
        assert "never admits more than 100 tokens at once" in told[2]["error"]["message"]


async def test_an_operator_pauses_sets_drains_and_each_change_is_noted() -> None:
    async with serving(Queue("emails", at_once=2, rates="100/m")) as scene:
        for verb, mode in (("pause", "paused"), ("resume", "open"), ("drain", "draining")):
            assert (await scene.post(f"{EMAILS}/{verb}")).json() == {"queue": "emails", "mode": mode}
        told = await scene.post(f"{EMAILS}/set", {"set": {"at_once": 5, "per_tenant": {"at_once": 2}}})
        assert told.json()["settings"]["counts"]["at_once"] == 5
        told = await scene.post(f"{EMAILS}/set", {"set": {"rates": []}, "reset": ["at_once"]})
        assert told.json()["settings"]["operator"] == {"rates": [], "per_tenant.at_once": 2}
        wrong = await scene.post(f"{EMAILS}/set", {"set": {"at_once": "many"}})
        assert (wrong.status_code, wrong.json()["error"]["error_code"]) == (400, "invalid_parameter")
        missing = await scene.post("/v1/queues/emials/pause")
        assert (missing.status_code, missing.json()["error"]["error_code"]) == (404, "queue_not_found")
        notes = [noted.note.what for noted in scene.store.audit(NoteFilter())]
    assert notes == ["queue_set", "queue_set", "queue_drain", "queue_resume", "queue_pause"]


async def test_a_queue_that_the_store_does_not_have_is_404_with_the_similar_name_until_an_operator_makes_it() -> None:
    async with serving(Queue("emails", at_once=1)) as scene:
        message = {"target": "send", "inputs": {"to": "ada"}}
        for body in (message, {"messages": [message]}):
            told = await scene.post("/v1/queues/emials", body)
            assert (told.status_code, told.json()["error"]["error_code"]) == (404, "queue_not_found")
            assert "Did you mean `emails`?" in told.json()["error"]["message"]
        assert [row.name for row in scene.store.queues()] == ["emails"], "nothing is made"
        made = await scene.post("/v1/queues/news/set", {"set": {"at_once": None}})
        again = await scene.post("/v1/queues/news/set", {"set": {"at_once": 5}})
        assert (made.status_code, made.json()["is_new"]) == (201, True)
        assert (again.status_code, again.json()["is_new"]) == (200, False)
        assert (await scene.post("/v1/queues/news", message)).status_code == 202


async def test_parked_runs_are_listed_and_started_again() -> None:
    async with serving(Queue("emails")) as scene:
        bad, good = [
            (await scene.post(EMAILS, {"target": "send", "inputs": {"to": to, **more}})).json()["run_id"]
            for to, more in (("ada", {"fails": True}), ("bob", {}))
        ]
        await scene.ended(bad)
        await scene.ended(good)
        (parked,) = (await scene.http.get(f"{EMAILS}/parked")).json()["parked"]
        assert (parked["id"], parked["message"]) == (bad, "no such address")
        assert (await scene.http.get(f"{EMAILS}/parked?error=other")).json() == {"parked": []}
        told = await scene.post(f"{EMAILS}/redrive", {"runs": [good, bad]})
        refused, started = told.json()["runs"]
        assert (told.status_code, refused["error"]["error_code"], started["parked"]) == (202, "invalid_parameter", bad)
        await scene.ended(started["run_id"])
        again = await scene.post(f"{EMAILS}/redrive", {"all": True, "error": parked["error_code"]})
        assert again.json()["found"] == 1
        await scene.ended(again.json()["runs"][0]["run_id"])
        for body in ({}, {"all": True, "runs": [bad]}, {"runs": [bad], "error": "x"}):
            assert (await scene.post(f"{EMAILS}/redrive", body)).status_code == 400


async def test_a_tenant_enqueues_for_itself_sees_its_own_and_changes_nothing_for_others() -> None:
    async with serving(Queue("emails", per_tenant=Limits(at_once=1)), credentials=True) as scene:
        acme, other, root = (
            bearer(token(scene.store, "operator", tenant="acme")),
            bearer(token(scene.store, "operator", tenant="acme-2")),
            bearer(token(scene.store, "operator")),
        )
        viewer = bearer(token(scene.store, "viewer", tenant="acme"))
        assert (await scene.post(f"{EMAILS}/pause", headers=root)).status_code == 200
        message = {"target": "send", "inputs": {"to": "ada"}}
        for who, count in ((acme, 2), (other, 1)):
            told = await scene.post(EMAILS, {"messages": [message] * count}, headers=who)
            assert told.status_code == 202
        assert (await scene.post(EMAILS, {**message, "tenant": "acme-2"}, headers=acme)).status_code == 403
        assert (await scene.post(EMAILS, {**message, "tenant": "acme-2"}, headers=root)).status_code == 202
        assert (await scene.post(EMAILS, message, headers=viewer)).status_code == 403
        for verb in ("pause", "resume", "drain", "set"):
            assert (await scene.post(f"{EMAILS}/{verb}", headers=acme)).status_code == 403
        seen = (await scene.http.get(EMAILS, headers=viewer)).json()
        assert (seen["waiting"], {lane["lane"] for lane in seen["lanes"]}) == (2, {"emails/tenant=acme/function=send:$LATEST"})
        (listed,) = (await scene.http.get("/v1/queues", headers=acme)).json()["queues"]
        assert (listed["waiting"], listed["delayed"], listed["parked"], listed["held"]) == (2, 0, 0, 0)
        assert "oldest_at" not in listed, "the store does not know it of one tenant"
        assert "admitted" not in listed
        assert (await scene.http.get(EMAILS, headers=root)).json()["waiting"] == 4
        assert (await scene.http.get(EMAILS)).status_code in (401, 403)


async def test_a_tenant_with_hundreds_of_keys_and_a_long_name_sees_all_of_its_own_numbers() -> None:
    async with serving(Queue("emails"), credentials=True) as scene:
        root, long = bearer(token(scene.store, "operator")), "t" * 170
        mine = bearer(token(scene.store, "operator", tenant=long))
        await scene.post(f"{EMAILS}/pause", headers=root)
        message = {"target": "send", "inputs": {"to": "ada"}}
        many = [{**message, "key": f"k{number}"} for number in range(250)] + [{**message, "delay": 60}]
        assert (await scene.post(EMAILS, {"messages": many}, headers=mine)).status_code == 202
        assert (await scene.post(EMAILS, {**message, "delay": 60}, headers=root)).status_code == 202
        seen = (await scene.http.get(EMAILS, headers=mine)).json()
        assert (seen["waiting"], seen["delayed"], len(seen["lanes"]), seen["more_lanes"]) == (250, 1, 100, True)


async def test_a_redrive_of_named_runs_reads_only_those_and_of_its_own_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Queue("emails"), Queue("other"), credentials=True) as scene:
        acme, root = bearer(token(scene.store, "operator", tenant="acme")), bearer(token(scene.store, "operator"))
        bad = {"target": "send", "inputs": {"to": "ada", "fails": True}}
        places = ((EMAILS, acme), (EMAILS, root), ("/v1/queues/other", acme))
        parked = [(await scene.post(path, bad, headers=who)).json()["run_id"] for path, who in places]
        for run in parked:
            await scene.ended(run)
        monkeypatch.setattr(scene.store, "parked", None)  # a read of every parked run would fail
        told = (await scene.post(f"{EMAILS}/redrive", {"runs": [*parked, "unknown"]}, headers=acme)).json()["runs"]
        assert [one.get("error", {}).get("error_code") for one in told] == [None, *["invalid_parameter"] * 3]
        await scene.ended(told[0]["run_id"])


async def test_runs_of_a_worker_are_enqueued_parked_and_redriven_over_http_and_a_message_that_does_not_fit_is_refused() -> None:
    opening = holdfast.open(stores["now"], workers=["queue-based-worker"], queues=[Queue("messages")])
    async with opening:
        engine = opening.engine
        assert opening.runtime is not None
        routes = Queues(engine, id_at, opening.runtime.worker_service).routes()
        gate = open_gate(engine.store, host="127.0.0.1", clock=SystemClock())
        async with client(App(routes, WebLimits(), lambda: id_at(SystemClock().now()), gate)) as http:
            scene = Scene(opening, http)
            poison = {"target": "queue-based-worker", "inputs": {"message": {}, "idempotency_key": "p"}, "idempotency_key": "p"}
            first, again = await scene.post("/v1/queues/messages", poison), await scene.post("/v1/queues/messages", poison)
            wrong = await scene.post("/v1/queues/messages", {"target": "queue-based-worker", "inputs": {"message": 3}})
            assert (first.status_code, again.json()["run_id"]) == (202, first.json()["run_id"])
            assert (wrong.status_code, wrong.json()["error"]["error_code"]) == (400, "schema_mismatch")
            await scene.ended(first.json()["run_id"])
            (parked,) = (await scene.http.get("/v1/queues/messages/parked?error=poison_message")).json()["parked"]
            assert parked["id"] == first.json()["run_id"]
            told = (await scene.post("/v1/queues/messages/redrive", {"all": True})).json()
            await scene.ended(told["runs"][0]["run_id"])
        await gate.close()


async def test_a_run_that_waits_in_its_queue_says_where_it_stands_and_for_which_limit() -> None:
    opening = holdfast.open(stores["now"], workers=["queue-based-worker"], queues=[Queue("messages", at_once=1)])
    async with opening:
        engine = opening.engine
        assert opening.runtime is not None
        service, limits = opening.runtime.worker_service, WebLimits()
        gate = open_gate(engine.store, host="127.0.0.1", clock=SystemClock())
        routes = [*Queues(engine, id_at, service).routes(), *worker_routes(ServedWorkers(service, engine.store, engine.clock, limits))]
        async with client(App(routes, limits, lambda: id_at(SystemClock().now()), gate)) as http:
            scene = Scene(opening, http)
            await scene.post("/v1/queues/messages/pause")
            message = {"target": "queue-based-worker", "inputs": {"message": {}, "idempotency_key": "p"}, "key": "k"}
            told = (await scene.post("/v1/queues/messages", {"messages": [message, message, {**message, "delay": 60}]})).json()["runs"]
            seen = [(await http.get(f"/v1/runs/{run['run_id']}")).json() for run in told]
            lane = "messages/tenant=default/key=k/function=queue-based-worker:$LATEST"
            common = {"queue": "messages", "lane": lane, "key": "k"}
            waits = [{**common, "position": position, "limit": "queue messages is paused"} for position in (1, 2)]
            assert [run["state"] for run in seen] == ["queued"] * 3
            assert sorted((run["place"] for run in seen[:2]), key=lambda place: place["position"]) == waits
            assert seen[2]["place"] == {**common, "position": None, "limit": None}
            await scene.post("/v1/queues/messages/resume")
            for run in told[:2]:
                await scene.ended(run["run_id"])
                assert "place" not in (await http.get(f"/v1/runs/{run['run_id']}")).json()
        await gate.close()
