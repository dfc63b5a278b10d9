"""/v1/queues: enqueue one and many, a full queue, what a tenant sees, and what an operator changes. Real routes and a real gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

import holdfast
from holdfast import AsyncDurableContext, Limits, Queue, durable_execution
from holdfast.model.audit import NoteFilter
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.server.protocol.queues import Queues
from holdfast.service.engines import Opening
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import Limits as WebLimits
from tests.surface.auth_server import bearer, client, token

EMAILS = "/v1/queues/emails"
gates: dict[str, asyncio.Event] = {}


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

    def __init__(self, opening: Opening, http: httpx.AsyncClient) -> None:
        self.engine, self.store, self.http = opening.engine, opening.engine.store, http

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.http.post(path, json={} if body is None else body, **options)

    async def ended(self, run: str) -> None:
        await self.engine.ending(run)


@asynccontextmanager
async def serving(*queues: Queue, credentials: bool = False) -> AsyncIterator[Scene]:
    opening = holdfast.open(":memory:", functions=[send], queues=queues)
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
    async with serving() as scene:
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
        (b"[]", "The body does not fit"),
        (b"{", "The body does not fit"),
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


async def test_parked_runs_are_listed_and_started_again() -> None:
    async with serving() as scene:
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
        assert (await scene.http.get("/v1/queues", headers=acme)).json()["queues"][0]["waiting"] == 2
        assert (await scene.http.get(EMAILS, headers=root)).json()["waiting"] == 4
        assert (await scene.http.get(EMAILS)).status_code in (401, 403)


async def test_runs_of_a_worker_are_enqueued_parked_and_redriven_over_http_and_a_message_that_does_not_fit_is_refused() -> None:
    opening = holdfast.open(":memory:", workers=["queue-based-worker"])
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
