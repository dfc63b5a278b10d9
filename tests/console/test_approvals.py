"""The inbox of approvals: what its cards say, who may decide, and what becomes of a decision."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from holdfast.console.console import Console
from holdfast.model.audit import NoteFilter
from holdfast.model.clock import Clock
from holdfast.model.ids import id_at
from holdfast.pipelines.graph.graph import After, HumanNode, Then, WorkerNode
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import open_gate
from holdfast.web.limits import WebLimits
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Effect, ToolFailed
from tests.console.scene import Browser, client_of, plain
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage
from tests.surface.auth_server import token
from tests.workers.harness import Counted, InlineWorker, contract

HOSTILE = "</pre><script>alert(1)</script>\"'&\u202e"
FORM = {
    "type": "object",
    "required": ["price"],
    "properties": {"price": {"type": "integer", "minimum": 1, "title": "Price <b>"}, "grade": {"enum": ["good", "bad"]}},
}


class Inbox:
    """A pipeline and a worker that ask, with a console on their store."""

    def __init__(self, made: Stage, app: App, clock: Clock, stack: AsyncExitStack) -> None:
        self.made, self.app, self.clock, self._stack = made, app, clock, stack

    @property
    def store(self) -> Store:
        return self.made.engine._engine.store  # type: ignore[no-any-return]

    async def people(self, **roles: str) -> list[Browser]:
        """Persons who are logged in, each with a role, or with a role and a tenant: `approver of other`.

        The server reads credentials at its first request, so all are made first."""
        said = {name: role.partition(" of ") for name, role in roles.items()}
        issued = [token(self.store, role, now=self.clock.now(), person=name, tenant=of or None) for name, (role, _, of) in said.items()]
        return [await Browser(await self._client()).log_in(one.secret) for one in issued]

    async def person(self, role: str, person: str) -> Browser:
        """One person who is logged in."""
        (found,) = await self.people(**{person: role})
        return found

    async def _client(self) -> httpx.AsyncClient:
        client: httpx.AsyncClient = await self._stack.enter_async_context(client_of(self.app))
        return client

    async def question(self, name: str = "p", **inputs: Any) -> str:
        """Start a run, and answer the id of what it asks."""
        response = await self.made.run(inputs, name=name)
        return str(response.approvals[0]["approval_id"])

    def audit(self, what: str) -> list[str]:
        return [one.note.outcome for one in self.store.audit(NoteFilter(what=what))]

    def state(self, approval: str) -> str:
        open_ones = [one.approval_id for one in self.made.service.approvals(LOCAL)]
        return "open" if approval in open_ones else "closed"


@asynccontextmanager
async def inbox(folder: Path, *nodes: Any, workers: tuple[InlineWorker, ...] = (), policy: Policy | None = None) -> AsyncIterator[Inbox]:
    clock = PatientClock(skipping=False)
    graph = msgspec.structs.replace(graph_of(*nodes, gives={}), steps=None)
    async with stage(graph, *workers, folder=folder, clock=clock, policy=policy) as made, AsyncExitStack() as stack:
        store = made.engine._engine.store
        token(store, "admin")
        gate = open_gate(store, host="127.0.0.1", clock=clock)
        console = Console(store, ":memory:", gate, clock=clock, ids=id_at)
        stack.push_async_callback(gate.close)
        stack.push_async_callback(console.close)
        yield Inbox(made, App(console.routes(), WebLimits(), lambda: id_at(clock.now()), gate), clock, stack)


def asking(**more: Any) -> HumanNode:
    return HumanNode(**{"name": "h", "show": {"text": HOSTILE, "cents": 12900}, "question": f"Publish {HOSTILE}?", **more})


# --- what a card says


async def test_a_card_says_what_is_asked_by_whom_what_was_spent_and_who_is_asked_next(tmp_path: Path) -> None:
    chain = (Then(after_seconds=600, approvers=("bob",)),)
    async with inbox(tmp_path, asking(approvers=("ann",), votes=1, within_seconds=3600, then=chain, risk=None)) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        page = (await ann.get("approvals")).text
        said = plain(page)
    assert "<script>alert" not in page
    assert "\u202e" not in html.unescape(page)
    assert "Publish </pre><script>alert(1)</script>\"'&\\u202e?" in said
    assert '"cents" : 12900' in said
    assert "Asks p , node h" in said
    assert "Spent so far $0.00 · 0 tokens · 0 calls" in said
    assert re.search(r"Asked now ann .*Next bob", said)
    assert "expires" in said
    assert "1 run waits for a person" in said
    assert f"approvals/{approval}" in page


async def test_the_page_of_one_run_counts_the_questions_of_this_run(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        first, second = await at.question(), await at.question()
        ann = await at.person("approver", "ann")
        run = first[2:].partition(".")[0]
        assert "1 question of this run waits" in await ann.text(f"approvals?run={run}")
        await ann.post(f"approvals/{first}/decide", verdict="approve", run=run)
        said, count = await ann.text(f"approvals?run={run}"), await ann.get(f"approvals/-/count?run={run}")
        assert "no question of this run waits" in said
        assert "No approval of this run waits for a decision." in said
        assert "1 run waits" not in said
        assert f'hx-get="../../approvals/-/count?run={run}"' in count.text
        assert "no question of this run waits" in plain(count.text)
        assert "1 run waits for a person" in await ann.text("approvals")
        assert at.state(second) == "open"


async def test_what_the_rest_may_cost_is_never_a_zero_that_is_not_known(tmp_path: Path) -> None:
    """The words are those of the command line: this console has no server beside it that knows contracts, either."""
    later = WorkerNode(name="later", worker="payer", inputs={}, after=(After("h"),))
    async with inbox(tmp_path / "asks-no-model", asking()) as at:
        await at.question()
        assert "May still cost nothing for models" in await (await at.person("approver", "ann")).text("approvals")
    async with inbox(tmp_path / "asks-a-worker", asking(), later, workers=(InlineWorker(contract(worker_id="payer"), _pays),)) as at:
        await at.question()
        assert "May still cost at most unknown here" in await (await at.person("approver", "ann")).text("approvals")


async def test_another_tenant_sees_no_approval_and_a_viewer_decides_none(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        approval = await at.question()
        stranger, viewer = await at.people(eve="approver of other", vic="viewer")
        assert "No approval waits for a decision." in await stranger.text("approvals")
        assert approval not in (await stranger.get("approvals?state=all")).text
        await stranger.get(f"approvals/{approval}", expect=404)
        await stranger.post(f"approvals/{approval}/decide", verdict="approve", expect=404)
        assert "A person with the role approver decides it." in await viewer.text("approvals")
        await viewer.post(f"approvals/{approval}/decide", verdict="approve", expect=403)
        await viewer.post("approvals/-/batch", verdict="approve", id=approval, expect=403)
        await viewer.post(f"approvals/{approval}/link", person="ann", expect=403)
        assert at.state(approval) == "open"


# --- deciding


async def test_a_decision_is_of_the_logged_in_person_and_in_the_audit_log(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        sent = await ann.post(f"approvals/{approval}/decide", verdict="approve", comment="looks right")
        assert sent.headers["location"] == f"../../approvals?done={approval}"
        assert "Your decision is recorded: approve ." in await ann.text(f"approvals?done={approval}")
        told = await ann.text(f"approvals/{approval}")
        listed = await ann.text("approvals?state=all")
        again = await ann.post(f"approvals/{approval}/decide", verdict="approve", expect=409)
        assert at.audit("approve") == ["callback_closed", "approve, as ann"]
    assert "Decided approve by ann" in told
    assert "Reason looks right" in told
    assert re.search(r"approve Publish .* p · h .* ann .* looks right", listed)
    assert "is closed already: approve by ann" in plain(again.text)


async def test_a_rejection_needs_a_reason_and_the_form_keeps_what_was_typed(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        missing = await ann.post(f"approvals/{approval}/decide", verdict="reject", expect=422)
        assert "Say why you reject it" in plain(missing.text)
        assert at.state(approval) == "open"
        await ann.post(f"approvals/{approval}/decide", verdict="reject", comment="wrong vendor")
        assert "Decided reject by ann" in await ann.text(f"approvals/{approval}")


async def test_edited_arguments_are_validated_and_a_wrong_text_is_shown_again(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        broken = await ann.post(f"approvals/{approval}/decide", verdict="approve", arguments='{"text": ', expect=422)
        assert "The edited text is not JSON" in plain(broken.text)
        assert "{&#34;text&#34;: </textarea>" in broken.text
        listed = await ann.post(f"approvals/{approval}/decide", verdict="approve", arguments="[1]", expect=422)
        assert "must be a JSON object" in plain(listed.text)
        await ann.post(f"approvals/{approval}/decide", verdict="approve", arguments='{"text": "better"}', comment="mended")
        told = await ann.text(f"approvals/{approval}")
        assert at.audit("approve")[0] == "approve, as ann, edited"
    assert re.search(r'Edited by ann \{ "text" : "better" \}', told)


async def test_the_text_of_the_form_unchanged_is_no_edit(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        page = (await ann.get("approvals")).text
        (text,) = re.findall(r"<textarea name=\"arguments\"[^>]*>(.*?)</textarea>", page, re.S)
        await ann.post(f"approvals/{approval}/decide", verdict="approve", arguments=html.unescape(text).replace("\n", "\r\n"))
        assert at.audit("approve")[0] == "approve, as ann"


async def test_a_question_with_a_schema_has_a_field_for_each_property(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking(form=FORM)) as at:
        approval = await at.question()
        ann = await at.person("approver", "ann")
        page = (await ann.get(f"approvals/{approval}")).text
        assert 'type="number" step="1" name="field.price"' in page
        assert "Price &lt;b&gt;" in page
        assert '<option value="&#34;good&#34;">good</option>' in page
        low_price: dict[str, Any] = {"verdict": "answer", "field.price": "0", "field.grade": '"bad"'}
        low = await ann.post(f"approvals/{approval}/decide", **low_price, expect=422)
        assert "does not fit" in plain(low.text)
        assert 'name="field.price" value="0"' in low.text
        assert '<option value="&#34;bad&#34;" selected>' in low.text
        await ann.post(f"approvals/{approval}/decide", **(low_price | {"field.price": "7"}))
        assert "Decided answer by ann" in await ann.text(f"approvals/{approval}")


async def test_votes_are_counted_and_a_second_vote_of_the_same_person_is_refused_on_the_card(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking(votes=2, approvers=("ann", "bob"))) as at:
        approval = await at.question()
        ann, bob, eve = await at.people(ann="approver", bob="approver", eve="approver")
        assert "eve is not among those who may decide this: ann, bob." in await eve.text("approvals")
        refused = await eve.post(f"approvals/{approval}/decide", verdict="approve", expect=409)
        assert "eve is not among those who may decide this" in plain(refused.text)
        await ann.post(f"approvals/{approval}/decide", verdict="approve")
        assert "Your vote is recorded: 1 of 2 persons have approved." in await ann.text(f"approvals?done={approval}")
        assert "You have voted, ann. 1 of 2 persons have approved." in await ann.text("approvals")
        again = await ann.post(f"approvals/{approval}/decide", verdict="approve", expect=409)
        assert "ann has voted" in plain(again.text)
        assert re.search(r"1 of 2 votes .*Votes ann: approve · 1 more", await bob.text("approvals"))
        await bob.post(f"approvals/{approval}/decide", verdict="approve")
        assert "by ann, bob" in await bob.text(f"approvals/{approval}")


async def test_a_batch_tells_the_count_first_and_then_what_became_of_each(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        ids = [await at.question() for _ in range(3)]
        ann = await at.person("approver", "ann")
        await ann.post(f"approvals/{ids[0]}/decide", verdict="approve")
        first = await ann.post("approvals/-/batch", verdict="reject", id=ids, comment="", expect=200)
        assert "Reject 3 approvals?" in plain(first.text)
        assert [at.state(one) for one in ids] == ["closed", "open", "open"]
        without = await ann.post("approvals/-/batch", verdict="reject", id=ids, comment="", confirmed="3", expect=422)
        assert "Say why you reject them" in plain(without.text)
        done = await ann.post("approvals/-/batch", verdict="reject", id=ids, comment="a duplicate", confirmed="3", expect=200)
        told = plain(done.text)
        assert [at.state(one) for one in ids] == ["closed"] * 3
        assert at.audit("reject").count("reject, as ann") == 2
    assert "2 of 3 rejected" in told
    assert re.search(r"refused Publish .*is closed already", told)


async def test_a_call_of_unknown_outcome_is_settled_by_a_settler_only(tmp_path: Path) -> None:
    lost = Counted("pay", Effect.WRITE, lambda **_: ToolFailed("tool_timeout", "no answer", known=False))
    payer = InlineWorker(contract("pay", worker_id="payer"), _pays, lost)
    async with inbox(tmp_path, asking(), workers=(payer,)) as at:
        approval = await at.question("payer")
        ann, sue = await at.people(ann="approver", sue="settler")
        seen = await ann.text("approvals")
        assert "Did the call of pay happen?" in seen
        assert "A person with the role settler tells whether it happened." in seen
        await ann.post(f"approvals/{approval}/settle", verdict="happened", expect=403)
        wrong = await sue.post(f"approvals/{approval}/settle", verdict="approve", expect=422)
        assert "settle" in plain(wrong.text)
        await sue.post(f"approvals/{approval}/settle", verdict="happened", result='{"id": 7}', comment="the bank says so")
        assert "Decided happened by sue" in await sue.text(f"approvals/{approval}")
        assert at.audit("settle")[0].startswith("happened")


async def _pays(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"paid": await ctx.tools.pay(cents=5)}


async def test_an_admin_makes_a_link_for_a_person_who_may_decide_and_it_is_shown_once(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking(approvers=("ann",))) as at:
        approval = await at.question()
        admin = await at.person("admin", "amy")
        wrong = await admin.post(f"approvals/{approval}/link", person="eve", expect=409)
        assert "eve is not among those who may decide this" in plain(wrong.text)
        unclear = await admin.post(f"approvals/{approval}/link", person="ann", valid="soon", expect=422)
        assert "is no duration" in plain(unclear.text)
        made = await admin.post(f"approvals/{approval}/link", person="ann", valid="4h", expect=200)
        assert re.search(r'readonly class="mono" aria-label="The link" value="/v1/links/hf_[^"]+"', made.text)
        assert "Put the address of your server before it" in plain(made.text)
        assert "/v1/links/" not in (await admin.get(f"approvals/{approval}")).text
        assert at.audit("link")[0] == "made for ann"


async def test_approvals_of_one_run_and_pages_of_many(tmp_path: Path) -> None:
    async with inbox(tmp_path, asking()) as at:
        ids = [await at.question() for _ in range(30)]
        run = ids[7].removeprefix("a_").rpartition(".")[0]
        ann = await at.person("approver", "ann")
        of_run = (await ann.get(f"approvals?run={run}")).text
        assert re.findall(r'aria-labelledby="t-(a_[^"]+)"', of_run) == [ids[7]]
        path, seen = "approvals", []
        while path:
            page = (await ann.get(path)).text
            seen += re.findall(r'aria-labelledby="t-(a_[^"]+)"', page)
            more = re.search(r'href="\./(approvals\?[^"]*after=[^"]*)">Next', page)
            path = "" if more is None else html.unescape(more[1])
    assert sorted(seen) == sorted(ids)
    assert len(seen) == 30


@pytest.mark.parametrize("path", ["approvals?state=none", "approvals?run=nothing", "approvals/a_x.y", "approvals/x"])
async def test_what_is_not_there_is_an_error_page(tmp_path: Path, path: str) -> None:
    async with inbox(tmp_path, asking()) as at:
        ann = await at.person("approver", "ann")
        answer = await ann.client.get(f"/console/{path}")
        assert answer.status_code in (404, 422)
