"""Decisions of people over HTTP: persons behind credentials, batches, and signed links with their page."""

from __future__ import annotations

import asyncio
import html
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from holdfast.contract.terms import ToolGrant
from holdfast.costs import estimates
from holdfast.descriptions.pipeline_view import pipeline_view
from holdfast.model.audit import NoteFilter
from holdfast.pipelines.graph.graph import HumanNode, MapNode
from holdfast.server.protocol import links as protocol_links
from holdfast.server.protocol.link_page import question_page
from holdfast.server.protocol.routes import worker_routes
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.service.store_approvals import StoreApprovals
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import Gate, open_gate
from holdfast.web.limits import WebLimits
from holdfast.web.replies import Reply
from holdfast.workers import batches
from holdfast.workers.approvals import WITHDRAWN, Approval
from holdfast.workers.links import Link, make_link, token_of
from holdfast.workers.policy import Policy, RiskRule
from holdfast.workers.tools.seam import Effect
from tests.flow.harness import eventually
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import ref
from tests.surface.auth_server import BASE, bearer, client, token
from tests.workers.harness import Counted, InlineWorker

HOSTILE = "</pre><script>alert(1)</script>\"'&\u202e"
FORM = {
    "type": "object",
    "required": ["price", "grade"],
    "properties": {
        "price": {"type": "integer", "minimum": 1, "title": "Price <b>\u202e"},
        "grade": {"enum": ["good", "bad"]},
        "urgent": {"type": "boolean"},
        "why": {"type": "string"},
        "more": {"type": "array"},
    },
}


class Scene:
    """A server of one pipeline, with its store."""

    def __init__(self, made: Stage, http: httpx.AsyncClient, clock: PatientClock, gate: Gate) -> None:
        self.made, self.http, self.clock, self.gate = made, http, clock, gate

    @property
    def store(self) -> Store:
        return self.made.engine._engine.store  # type: ignore[no-any-return]

    def key(self, *roles: str, person: str | None = None) -> dict[str, str]:
        """A new credential. The server reads credentials at its first request, so a test makes all of them before."""
        return bearer(token(self.store, *roles, person=person))

    async def question(self) -> str:
        response = await self.made.run()
        return str(response.approvals[0]["approval_id"])

    def link(self, approval: str, person: str = "ann", seconds: int = 3600) -> str:
        return make_link(self.store, approval, person, LOCAL, self.clock.now(), seconds).path

    async def state(self, approval: str) -> str:
        is_open = any(one.approval_id == approval for one in self.made.service.approvals(LOCAL))
        return "open" if is_open else "closed"


@asynccontextmanager
async def scene(folder: Path, *nodes: Any, workers: tuple[InlineWorker, ...] = (), policy: Policy | None = None) -> AsyncIterator[Scene]:
    clock = PatientClock(skipping=False)
    graph = msgspec.structs.replace(graph_of(*nodes, gives={}), steps=None)
    async with stage(graph, *workers, folder=folder, clock=clock, policy=policy) as made:
        store = made.engine._engine.store
        token(store, "admin")  # a server with credentials
        gate = open_gate(store, host="127.0.0.1", clock=clock)
        routes = worker_routes(ServedWorkers(made.service, store, clock, WebLimits()))
        async with client(App(routes, WebLimits(), lambda: "id", gate)) as http:
            yield Scene(made, http, clock, gate)
        await gate.close()


def asking(**more: Any) -> HumanNode:
    return HumanNode(name="h", show={"text": HOSTILE}, question=f"Publish {HOSTILE}?", **more)


# --- persons


async def test_two_keys_of_one_person_are_one_vote_and_another_person_closes_it(tmp_path: Path) -> None:
    async with scene(tmp_path, asking(votes=2)) as at:
        approval = await at.question()
        ann, again, bob = (at.key("approver", person=name) for name in ("ann", "ann", "bob"))
        where = f"/v1/approvals/{approval}/approve"
        first = await at.http.post(where, headers=ann)
        second = await at.http.post(where, headers=again)
        last = await at.http.post(where, headers=bob, json={"comment": "yes"})
        noted = [one.note for one in at.store.audit(NoteFilter(what="approve"))]
    assert (first.status_code, first.json()["state"], first.json()["votes_needed"]) == (200, "open", 2)
    assert (second.status_code, second.json()["error"]["error_code"]) == (409, "voted_before")
    assert (last.json()["state"], last.json()["decided_by"]) == ("approve", "ann, bob")
    assert [one["person"] for one in last.json()["votes"]] == ["ann", "bob"]
    assert [one.outcome for one in noted] == ["vote: approve, as bob", "vote: approve, as ann"]


async def test_a_run_that_a_person_started_is_not_decided_with_another_key_of_that_person(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        mine, other = at.key("operator", person="ann"), at.key("approver", person="ann")
        started = await at.http.post("/v1/workers/p/invoke", json={"inputs": {}}, headers=mine)
        approval = started.json()["approvals"][0]
        refused = await at.http.post(f"/v1/approvals/{approval['approval_id']}/approve", headers=other)
    assert approval["requested_by"] == "ann"
    assert (refused.status_code, refused.json()["error"]["error_code"]) == (403, "approver_refused")


async def test_a_response_that_waits_tells_what_the_rest_may_cost_as_its_question_does(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        key = at.key("operator", "approver", person="ann")
        invoked = (await at.http.post("/v1/workers/p/invoke", json={"inputs": {}}, headers=key)).json()
        looked = (await at.http.get(f"/v1/runs/{invoked['run_id']}", headers=key)).json()
        asked = (await at.http.get(f"/v1/approvals/{invoked['approvals'][0]['approval_id']}", headers=key)).json()
    assert asked["may_cost"] == {"most": {"tokens": 0, "cost_usd": 0.0}, "p50": None, "p95": None}
    assert [one["approvals"][0]["may_cost"] for one in (invoked, looked)] == [asked["may_cost"]] * 2


# --- lists


async def test_a_list_comes_in_pages_and_reads_the_outermost_run_once_for_all_its_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.ask(f"item {inputs['n']}?")}

    views: list[str] = []

    def counted(store: Store, header: Any, accepted: Any) -> Any:
        views.append(header.id)
        return pipeline_view(store, header, accepted)

    monkeypatch.setattr(estimates, "pipeline_view", counted)
    items = MapNode(name="items", worker="asks", over=[0, 1, 2, 3], inputs={"n": ref("item")}, at_most=10)
    async with scene(tmp_path, items, asking(), workers=(worker("asks", asks),)) as at:
        run = (await at.made.run()).run_id
        key = at.key("approver", person="ann")
        await eventually(lambda: len(at.made.service.approvals(LOCAL)) == 5)
        expected = [one.approval_id for one in at.made.service.approvals(LOCAL)]
        seen: dict[str, list[str]] = {}
        for chosen in ({}, {"run": run}):
            views.clear()
            whole = (await at.http.get("/v1/approvals", params=chosen, headers=key)).json()
            assert (views, whole["next"]) == ([run], None)
            assert all(one["may_cost"] is not None for one in whole["approvals"])
            seen[str(chosen)] = [one["approval_id"] for one in whole["approvals"]]
            paged: list[list[str]] = []
            after: dict[str, str] = {}
            while True:
                page = (await at.http.get("/v1/approvals", params=chosen | after | {"limit": "2"}, headers=key)).json()
                paged.append([one["approval_id"] for one in page["approvals"]])
                if page["next"] is None:
                    break
                after = {"after": page["next"]}
            assert [len(one) for one in paged] == [2, 2, 1]
            assert [one for page in paged for one in page] == seen[str(chosen)]
        first, last = expected[0], expected[-1]
        await at.http.post(f"/v1/approvals/{first}/reject", headers=key)
        behind = (await at.http.get("/v1/approvals", params={"after": first}, headers=key)).json()
        wrong = [await at.http.get("/v1/approvals", params=odd, headers=key) for odd in ({"limit": "0"}, {"limit": "501"}, {"after": "x"})]
    assert set(map(tuple, seen.values())) == {tuple(expected)}
    assert last in [one["approval_id"] for one in behind["approvals"]], "the approval that the page begins after is decided by now"
    assert [one.status_code for one in wrong] == [400, 400, 400]


# --- batches


async def test_a_batch_decides_the_items_of_a_map_one_by_one_and_one_failure_stops_no_other(tmp_path: Path) -> None:
    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"said": await ctx.ask(f"item {inputs['n']}?")}

    items = MapNode(name="items", worker="asks", over=[0, 1, 2], inputs={"n": ref("item")}, at_most=10)
    async with scene(tmp_path, items, asking(), workers=(worker("asks", asks),)) as at:
        run = (await at.made.run()).run_id
        key = at.key("approver", person="ann")
        listed = (await at.http.get("/v1/approvals", params={"run": run}, headers=key)).json()["approvals"]
        of_items = [one["approval_id"] for one in listed if one["node"] is None]
        lone = next(one["approval_id"] for one in listed if one["node"] == "h")
        odd = await at.http.post("/v1/approvals/decide", headers=key, json={"verdict": "reject", "approvals": [of_items[0], "a_none.1"]})
        rest = await at.http.post("/v1/approvals/decide", headers=key, json={"verdict": "reject", "run": run, "node": "items"})
        wrong = await at.http.post("/v1/approvals/decide", headers=key, json={"verdict": "reject"})
        still = (await at.http.get(f"/v1/approvals/{lone}", headers=key)).json()["state"]
    assert len(of_items) == 3
    assert [(one["approval_id"], one.get("state"), one.get("error_code")) for one in odd.json()["results"]] == [
        (of_items[0], "reject", None),
        ("a_none.1", None, "approval_not_found"),
    ]
    assert {one["approval_id"] for one in rest.json()["results"]} <= set(of_items) - {of_items[0]}
    assert (still in ("open", WITHDRAWN), wrong.status_code) == (True, 400), "the run may fail meanwhile, and take its other question back"


async def test_a_batch_approves_the_calls_of_a_maps_items_and_answers_their_questions_each_checked_by_itself(tmp_path: Path) -> None:
    async def asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        posted = await ctx.tools.post(n=inputs["n"])
        wanted = {"type": "integer", "minimum": inputs["n"]}
        return {"posted": posted, "said": await ctx.ask(f"item {inputs['n']}?", schema=wanted)}

    posts = Counted("post", Effect.WRITE, lambda n: n)
    poster = worker("asks", asks, posts, grants=(ToolGrant("post"),))
    poster.approvals = frozenset({"post"})
    items = MapNode(name="items", worker="asks", over=[0, 1, 9], inputs={"n": ref("item")}, at_most=10)
    async with scene(tmp_path, items, workers=(poster,)) as at:
        run = (await at.made.run()).run_id
        key = at.key("approver", person="ann")

        async def decide(**said: Any) -> httpx.Response:
            return await at.http.post("/v1/approvals/decide", headers=key, json={"run": run, "node": "items", **said})

        approved = await decide(verdict="approve")
        while len(waiting := at.made.service.approvals(LOCAL)) != 3 or any(one.kind != "question" for one in waiting):
            await asyncio.sleep(0)
        without = [await decide(verdict="answer"), await decide(verdict="approve", result=5)]
        yes = await decide(verdict="approve")
        answered = await decide(verdict="answer", result=5, comment="for all")
        rest = await decide(verdict="answer", result=9)
        response = await at.made.service.response(run, LOCAL)
        notes = [one.note.outcome for one in at.store.audit(NoteFilter(what="answer"))]
    assert [one["state"] for one in approved.json()["results"]] == ["approve"] * 3
    assert [one.status_code for one in without] == [400, 400]
    assert {one["error_code"] for one in yes.json()["results"]} == {"approval_refused"}, "a question is answered, and not approved"
    assert sorted(one.get("state", one.get("error_code")) for one in answered.json()["results"]) == ["answer", "answer", "approval_refused"]
    assert [one["state"] for one in rest.json()["results"]] == ["answer"]
    assert (response.status, len(posts.calls)) == ("ok", 3)
    assert sorted(notes) == ["answer, as ann"] * 3 + ["approval_refused"], "each answer is in the audit log"


async def test_of_more_than_500_open_approvals_of_a_run_all_are_listed_and_chosen(tmp_path: Path) -> None:
    async with scene(tmp_path, *[HumanNode(name=f"h{n}", show={"n": n}) for n in range(501)]) as at:
        run = (await at.made.run()).run_id
        ours = StoreApprovals(at.store, at.made.clock)
        assert (len(list(ours.list(run))), len(list(ours.list(run, limit=2)))) == (501, 2)
        assert len(batches.chosen(at.store, LOCAL, run=run).ids) == 501


async def test_a_batch_of_a_run_with_more_approvals_than_one_request_decides_says_that_more_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST", 2)
    async with scene(tmp_path, *[HumanNode(name=f"h{n}", show={"n": n}) for n in range(3)]) as at:
        run = (await at.made.run()).run_id
        key = at.key("approver", person="ann")
        said = {"verdict": "approve", "run": run}
        first, second = [(await at.http.post("/v1/approvals/decide", headers=key, json=said)).json() for _ in range(2)]
    assert (len(first["results"]), first["more"], len(second["results"]), second["more"]) == (2, True, 1, False)


async def test_a_risk_forbids_batches_and_links(tmp_path: Path) -> None:
    policy = Policy(risks={"high": RiskRule(batch=False, links=False)})
    async with scene(tmp_path, asking(risk="high"), policy=policy) as at:
        approval = await at.question()
        key = at.key("approver", "admin", person="ann")
        batch = await at.http.post("/v1/approvals/decide", headers=key, json={"verdict": "approve", "approvals": [approval]})
        link = await at.http.post(f"/v1/approvals/{approval}/link", headers=key, json={"person": "bob"})
        alone = await at.http.post(f"/v1/approvals/{approval}/approve", headers=key)
    assert batch.json()["results"][0]["error_code"] == "approval_refused"
    assert (link.status_code, link.json()["error"]["error_code"]) == (422, "approval_refused")
    assert alone.json()["state"] == "approve"


# --- links


async def test_a_link_opened_by_a_scanner_decides_nothing_and_its_form_decides_once(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        approval = await at.question()
        admin, viewer = at.key("admin"), at.key("viewer")
        made = await at.http.post(f"/v1/approvals/{approval}/link", headers=admin, json={"person": "ann", "valid": "4h"})
        path = made.json()["url"].removeprefix(BASE)
        opened = {(await at.http.get(path)).status_code for _ in range(5)} | {(await at.http.head(path)).status_code}
        assert await at.state(approval) == "open"
        sent = {"verdict": "approve", "comment": "by mail"}
        posts = [at.http.post(path, data=sent, headers={"origin": BASE, "sec-fetch-site": "same-origin"}) for _ in range(3)]
        decided, *twice = sorted(await asyncio.gather(*posts), key=lambda reply: reply.status_code)
        again = await at.http.post(path, data=sent)
        later = await at.http.get(path)
        found = await at.http.get(f"/v1/approvals/{approval}", headers=viewer)
        notes = [one.note for one in at.store.audit(NoteFilter())]
    assert (made.status_code, made.headers["cache-control"], made.json()["person"]) == (201, "no-store", "ann")
    assert opened == {200, 405}
    assert (decided.status_code, again.status_code, later.status_code) == (200, 410, 410)
    assert [reply.status_code for reply in twice] == [410, 410], "sent three times at once, it decides once"
    assert (found.json()["state"], found.json()["decided_by"], found.json()["comment"]) == ("approve", "ann", "by mail")
    told = {(note.who, note.what, note.outcome) for note in notes}
    assert ("link:ann", "approve", "approve, as ann") in told
    assert any(what == "link" and outcome == "made for ann" for _, what, outcome in told)
    secret = path.rpartition("/")[2]
    assert not any(secret[10:60] in repr(note) for note in notes), "no line of the audit log has the token"


async def test_the_page_of_a_link_shows_hostile_text_as_text_and_loads_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        approval = await at.question()
        shown = await at.http.get(at.link(approval))
    text = shown.text
    assert "<script" not in text
    assert "\u202e" not in text
    assert html.escape("</pre><script>alert(1)</script>") in text
    assert not re.search(r"(src|href)=", text)
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (shown.headers["cache-control"], shown.headers["referrer-policy"]) == ("no-store", "same-origin")
    assert shown.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("question, told", [("Publish?", "Publish?"), ("", "Do you approve what is shown below?")])
async def test_the_page_of_a_link_asks_what_the_node_asks(tmp_path: Path, question: str, told: str) -> None:
    async with scene(tmp_path, HumanNode(name="h", show={"x": 1}, question=question)) as at:
        shown = await at.http.get(at.link(await at.question()))
    assert f"<h1>{told}</h1>" in shown.text


async def test_of_a_large_value_the_page_of_a_link_encodes_only_what_it_shows_and_not_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    class Rows(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            nonlocal taken
            for row in super().__iter__():
                taken += 1
                yield row

    threads: list[threading.Thread] = []

    def large(approval: Approval, person: str, **more: Any) -> Reply:
        threads.append(threading.current_thread())
        rows = Rows([{"text": "x" * 90}] * 40_000)  # 4 MB
        return question_page(msgspec.structs.replace(approval, arguments={"rows": rows}), person, **more)

    monkeypatch.setattr(protocol_links, "question_page", large)
    async with scene(tmp_path, asking(form=FORM)) as at:
        path = at.link(await at.question())
        shown = await at.http.get(path)
        refused = await at.http.post(path, data={"verdict": "answer"}, headers={"origin": BASE})
    assert (shown.status_code, refused.status_code) == (200, 422)
    assert 0 < taken < 2 * 1000
    assert "(cut: the text is longer than" in shown.text
    assert len(shown.text) < 300_000
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_form_behind_a_link_has_a_field_for_each_property_and_its_answer_is_checked(tmp_path: Path) -> None:
    async with scene(tmp_path, asking(form=FORM)) as at:
        approval = await at.question()
        path = at.link(approval)
        shown = await at.http.get(path)
        given = {
            "verdict": "answer",
            "field.price": "0",
            "field.grade": '"good"',
            "field.urgent": "true",
            "field.why": "",
            "field.more": "[1]",
        }
        low = await at.http.post(path, data=given)
        odd = await at.http.post(path, data={**given, "field.more": "[1"})
        assert await at.state(approval) == "open"
        good = await at.http.post(path, data={**given, "field.price": "7"})
        found = await at.http.get("/v1/approvals", headers=at.key("viewer"))
        settled = at.made.service
        run = approval.removeprefix("a_").rpartition(".")[0]
        response = await settled.response(run, LOCAL, wait=20)
    assert 'type="number" step="1" name="field.price" required' in shown.text
    assert "Price &lt;b&gt;\\u202e" in shown.text
    assert '<option value="&quot;good&quot;">good</option>' in shown.text
    assert (low.status_code, "does not fit" in low.text) == (422, True)
    assert (odd.status_code, "is not JSON" in odd.text) == (422, True)
    assert (good.status_code, found.json()["approvals"]) == (200, [])
    assert response.status == "ok"


Spoil = Callable[[Scene, str], str]


def _tampered(at: Scene, approval: str) -> str:
    path = at.link(approval)
    return path[:-3] + ("AAA" if not path.endswith("AAA") else "BBB")


def _other_person(at: Scene, approval: str) -> str:
    return f"/v1/links/{token_of(at.store.seal, Link(approval, 'mallory', at.clock.now() + 1000, 'x'))}"


def _expired(at: Scene, approval: str) -> str:
    path = at.link(approval, seconds=60)
    at.clock.move_to(at.clock.now() + 60_000)
    return path


@pytest.mark.parametrize(
    "spoil, status, told",
    [
        pytest.param(_tampered, 404, "This link is not valid", id="tampered"),
        pytest.param(lambda at, _: "/v1/links/hf_x", 404, "This link is not valid", id="nonsense"),
        pytest.param(_expired, 410, "This link has expired", id="expired"),
        pytest.param(_other_person, 403, "not among those who may decide", id="person without permission"),
    ],
)
async def test_a_link_that_is_no_good_says_so_and_decides_nothing(tmp_path: Path, spoil: Spoil, status: int, told: str) -> None:
    async with scene(tmp_path, asking(approvers=("ann",))) as at:
        approval = await at.question()
        path = spoil(at, approval)
        answers = [await at.http.get(path), await at.http.post(path, data={"verdict": "approve"})]
        state = await at.state(approval)
    for answer in answers:
        assert (answer.status_code, told in answer.text) == (status, True), answer.text
        assert answer.headers["content-type"].startswith("text/html")
    assert state == "open"


async def test_a_withdrawn_question_says_so_behind_its_link(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        approval = await at.question()
        path = at.link(approval)
        await at.made.service.cancel(approval.removeprefix("a_").rpartition(".")[0], LOCAL)
        answer = await at.http.get(path)
    assert (answer.status_code, "taken back" in answer.text) == (410, True)


async def test_a_page_of_another_site_cannot_send_the_form_and_the_refusal_does_not_log_the_token(tmp_path: Path) -> None:
    async with scene(tmp_path, asking()) as at:
        approval = await at.question()
        path = at.link(approval)
        refused = await at.http.post(path, data={"verdict": "approve"}, headers={"origin": "https://evil.example"})
        state = await at.state(approval)
        await at.gate.close()
        (note,) = [one.note for one in at.store.audit(NoteFilter(what="DecideByLink"))]
    assert (refused.status_code, state) == (403, "open")
    assert (note.on, note.outcome) == ("/v1/links", "AccessDeniedException")


@pytest.mark.parametrize("base, begins", [(None, BASE), ("https://h.example/hf/", "https://h.example/hf")])
async def test_a_link_begins_with_the_address_that_the_operator_sets(tmp_path: Path, base: str | None, begins: str) -> None:
    async with scene(tmp_path, asking(), policy=Policy(link_base=base)) as at:
        approval = await at.question()
        made = await at.http.post(f"/v1/approvals/{approval}/link", headers=at.key("admin"), json={"person": "ann"})
    assert made.json()["url"].startswith(f"{begins}/v1/links/hf_")


async def test_only_an_admin_makes_links_and_only_for_persons_who_may_decide(tmp_path: Path) -> None:
    async with scene(tmp_path, asking(approvers=("ann",))) as at:
        approval = await at.question()
        where, lesser, admin = f"/v1/approvals/{approval}/link", at.key("approver"), at.key("admin")
        approver = await at.http.post(where, headers=lesser, json={"person": "ann"})
        stranger = await at.http.post(where, headers=admin, json={"person": "bob"})
        odd = await at.http.post(where, headers=admin, json={"person": "hft-ann"})
    assert (approver.status_code, stranger.status_code, odd.status_code) == (403, 403, 400)
