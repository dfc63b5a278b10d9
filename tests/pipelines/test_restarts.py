"""Restarts: retries and restarts of pipelines take from earlier runs what still counts, and write nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Pipeline
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Retries, ToolGrant
from holdfast.descriptions.pipeline_view import pipeline_view
from holdfast.model.audit import Actor, NoteFilter
from holdfast.model.errors import ExecutionNotFound, HoldfastError, InvalidParameter
from holdfast.model.restart_errors import NodeNotFound, RestartRefused
from holdfast.pipelines.graph.graph import (
    After,
    GateNode,
    Graph,
    HumanNode,
    MapNode,
    Rule,
    SuperviseNode,
    Undo,
    UntilNode,
    WaitNode,
    WorkerNode,
)
from holdfast.restarts.comparisons import compare_runs
from holdfast.restarts.runs import RETRY, RestartAsked, prepare, restart_run
from holdfast.store.seam import Filter
from holdfast.testing import pipeline_kit
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import Policy
from holdfast.workers.replay import finished_in, replay
from holdfast.workers.run_lookup import Caller, find_run
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from tests.pipelines.stage import LOCAL, PatientClock, Stage, graph_of, stage, worker
from tests.pipelines.templates import out, ref
from tests.postgres import new_schema
from tests.workers.harness import Counted

Inputs = dict[str, Any]


class Shop:
    """Workers that count what they do, and a tool that writes. Names in `broken` fail."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.broken: set[str] = set()
        self.retryable: bool | None = None
        self.posts = Counted("post", Effect.WRITE, lambda **given: {"posted": given})

    def worker(self, name: str, *, writes: bool = False, version: str = "1.0") -> Any:
        async def body(inputs: Inputs, ctx: Any) -> Inputs:
            self.ran.append(name)
            posted = await ctx.tools.post(text=inputs.get("text", name)) if writes else None
            if name in self.broken:
                raise WorkerError("broken_part", f"{name} is broken", retryable=self.retryable)
            return {"by": name, "got": inputs, "posted": posted}

        made = worker(name, body, *([self.posts] if writes else []), grants=(ToolGrant("post"),) if writes else ())
        made.package = f"{name}-{version}"
        return made

    @property
    def took(self) -> list[str]:
        """What ran since the last look."""
        ran, self.ran = self.ran, []
        return sorted(ran)


async def again(made: Stage, run_id: str, asked: RestartAsked = RETRY, **more: Any) -> Response:
    header, accepted = await restart_run(made.service, run_id, LOCAL, asked)
    return await made.service.wait_for(header, accepted, wait=more.get("wait", 20))


def pipeline(*nodes: Any, **more: Any) -> Graph:
    """A pipeline whose graph can be read from the store: it has no steps."""
    return msgspec.structs.replace(graph_of(*nodes, **more), steps=None)


def chain(*names: str) -> list[WorkerNode]:
    """Nodes one after the other."""
    return [
        WorkerNode(name=name, worker=name, inputs={"text": ref("inputs", "text") if before is None else out(before, "by")})
        for before, name in zip([None, *names], names, strict=False)
    ]


WHERE: list[Any] = [pytest.param(lambda: ":memory:", id="sqlite"), pytest.param(new_schema, id="postgres", marks=pytest.mark.long)]


@pytest.mark.parametrize("where", WHERE)
async def test_a_retry_runs_only_what_failed_and_writes_nothing_twice(tmp_path: Path, where: Callable[[], str]) -> None:
    """`publish` failed after its write: the retry answers the write from its receipt."""
    shop = Shop()
    shop.broken = {"publish"}
    graph = pipeline(*chain("facts", "report", "publish"), gives={"by": out("publish", "by")})
    workers = [shop.worker("facts"), shop.worker("report"), shop.worker("publish", writes=True)]
    async with stage(graph, *workers, folder=tmp_path, where=where(), clock=PatientClock()) as made:
        failed = await made.run({"text": "t"})
        assert (shop.took, len(shop.posts.calls)) == (["facts", "publish", "report"], 1)
        shop.broken = set()
        response = await again(made, failed.run_id)
        store = made.engine._engine.store
        old, new = store.find(failed.run_id), store.find(response.run_id)
        view = pipeline_view(store, *find_run(store, response.run_id, LOCAL))
    assert (response.status, response.outputs) == (ResponseStatus.OK, {"by": "publish"})
    assert (shop.took, len(shop.posts.calls)) == (["publish"], 1)
    assert old is not None
    assert new is not None
    assert (old.superseded_by, old.name) == (new.id, new.name)
    assert view is not None
    assert [(one.node, one.reused) for one in view.nodes] == [("facts", True), ("report", True), ("publish", False)]


async def test_a_restart_from_a_node_runs_it_and_everything_below_it(tmp_path: Path) -> None:
    shop = Shop()
    graph = pipeline(*chain("facts", "report", "publish"), WorkerNode(name="aside", worker="aside", inputs={"text": "x"}))
    workers = [shop.worker("facts"), shop.worker("report"), shop.worker("publish", writes=True), shop.worker("aside")]
    async with stage(graph, *workers, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"})
        assert len(shop.took) == 4
        second = await again(made, first.run_id, RestartAsked(nodes=("report",)))
        assert (second.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["publish", "report"], 1)
        third = await again(made, second.run_id, RestartAsked(nodes=("publish",)))  # a restart of a restart
        assert (third.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["publish"], 1)
        resent = await again(made, third.run_id, RestartAsked(nodes=("publish",), resend=("publish",)))
        assert (resent.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["publish"], 2)
        last = await again(made, resent.run_id, RestartAsked(nodes=("publish",)))  # inherits from the one that sent again
    assert (last.status, len(shop.posts.calls)) == (ResponseStatus.OK, 2)
    keys = [call.idempotency_key for call in shop.posts.calls]
    assert keys[0] != keys[1], "a call that is sent again is another call for the server"


@pytest.mark.parametrize(
    "action, posts, answer",
    [
        ("send", [{"text": "old"}, {"text": "new"}], {"posted": {"text": "new"}}),
        ("keep", [{"text": "old"}], {"posted": {"text": "old"}}),
        ("stop", [{"text": "old"}], None),
    ],
)
async def test_a_write_whose_arguments_changed_is_a_question_that_names_old_and_new(
    tmp_path: Path, action: str, posts: list[Inputs], answer: Inputs | None
) -> None:
    shop, sent = Shop(), list[Inputs]()

    def post(**given: Any) -> Inputs:
        sent.append(given)
        return {"posted": given}

    shop.posts = Counted("post", Effect.WRITE, post)
    graph = pipeline(*chain("publish"), gives={"posted": out("publish", "posted")})
    async with stage(graph, shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "old"})
        header, accepted = await restart_run(made.service, first.run_id, LOCAL, RestartAsked(inputs={"text": "new"}))
        asks = await made.service.wait_for(header, accepted, wait=20)
        (approval,) = made.service.approvals(LOCAL)
        assert (approval.kind, approval.arguments["before"], approval.arguments["now"]) == ("question", {"text": "old"}, {"text": "new"})
        assert asks.status is ResponseStatus.NEEDS_HUMAN
        assert approval.question is not None
        assert '{"text":"old"}' in approval.question
        assert '{"text":"new"}' in approval.question
        await made.act(action)
        response = await made.service.wait_for(header, accepted, wait=20)
    assert sent == posts
    if answer is None:
        assert response.error is not None
        assert response.error.error_code == "receipt_conflict"
    else:
        assert response.outputs is not None
        assert response.outputs["posted"] == answer


@pytest.mark.parametrize("end", ["failed", "void"])
async def test_a_later_try_of_a_changed_write_has_the_key_of_the_changed_write(tmp_path: Path, end: str) -> None:
    """The first try of the changed write fails; or its outcome is unknown, and a person says that it did not happen."""
    shop, failures = Shop(), [ToolFailed("tool_unavailable", "the line is busy", known=end == "failed")]

    def post(**given: Any) -> Any:
        return failures.pop() if given["text"] == "new" and failures else {"posted": given}

    shop.posts = Counted("post", Effect.WRITE, post)
    publish = shop.worker("publish", writes=True)
    publish.contract = msgspec.structs.replace(publish.contract, retries=Retries(max_attempts=2))
    async with stage([], publish, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "old"}, name="publish")
        header, accepted = await restart_run(made.service, first.run_id, LOCAL, RestartAsked(inputs={"text": "new"}))
        await made.service.wait_for(header, accepted, wait=20)
        await made.act("send")
        response = await made.service.wait_for(header, accepted, wait=20)
        if end == "void":
            await made.cancel(response.run_id)
            cancelled = await made.service.wait_for(header, accepted, wait=20)
            header, accepted = await restart_run(made.service, cancelled.run_id, LOCAL, RETRY)
            await made.service.wait_for(header, accepted, wait=20)
            await made.answer("not_happened")
            response = await made.service.wait_for(header, accepted, wait=20)
    old, new, again_new = [call.idempotency_key for call in shop.posts.calls]
    assert (response.status, response.outputs and response.outputs["posted"]) == (ResponseStatus.OK, {"posted": {"text": "new"}})
    assert (new != old, again_new) == (True, new), "a server that knows the key of the earlier call would give the earlier answer"


async def test_a_write_that_happened_answers_although_a_changed_one_after_it_did_not_happen(tmp_path: Path) -> None:
    """The changed write is lost; a person says that it did not happen; it fails; the last run asks for the first write."""
    shop, failures = Shop(), [ToolFailed("tool_failed", "no", known=known) for known in (True, False)]
    shop.posts = Counted("post", Effect.WRITE, lambda **given: failures.pop() if given["text"] == "new" else {"posted": given})
    async with stage([], shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "old"}, name="publish")
        header, accepted = await restart_run(made.service, first.run_id, LOCAL, RestartAsked(inputs={"text": "new"}))
        await made.service.wait_for(header, accepted, wait=20)
        await made.act("send")
        await made.service.wait_for(header, accepted, wait=20)
        await made.cancel(header.id)
        await made.service.wait_for(header, accepted, wait=20)
        header, accepted = await restart_run(made.service, header.id, LOCAL, RETRY)
        await made.service.wait_for(header, accepted, wait=20)
        await made.answer("not_happened")
        failed = await made.service.wait_for(header, accepted, wait=20)
        assert failed.error is not None
        assert failed.error.error_code == "tool_failed"
        last = await again(made, failed.run_id, RestartAsked(inputs={"text": "old"}))
    assert (last.status, len(shop.posts.calls)) == (ResponseStatus.OK, 3)


async def test_a_replay_of_a_restart_knows_that_a_person_kept_the_earlier_write(tmp_path: Path) -> None:
    shop = Shop()
    publish = shop.worker("publish", writes=True)
    async with stage([], publish, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "old"}, name="publish")
        header, accepted = await restart_run(made.service, first.run_id, LOCAL, RestartAsked(inputs={"text": "new"}))
        await made.service.wait_for(header, accepted, wait=20)
        await made.act("keep")
        assert (await made.service.wait_for(header, accepted, wait=20)).status is ResponseStatus.OK
        finished = finished_in(made.engine._engine.store, header.id, LOCAL)
        replayed = await replay(finished, publish, publish.package, Artifacts(Folder(tmp_path), 1000), Policy())
    assert (replayed.differences, replayed.notes, len(shop.posts.calls)) == ((), (), 1)


async def test_changed_code_or_inputs_run_again_and_equal_results_stop_the_change(tmp_path: Path) -> None:
    shop = Shop()
    graph = pipeline(*chain("facts", "report"))
    async with stage(graph, shop.worker("facts"), shop.worker("report"), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"})
        assert shop.took == ["facts", "report"]
        made.service.serve(shop.worker("facts", version="1.1"))  # gives what it gave before, so `report` is not asked again
        second = await again(made, first.run_id, RestartAsked(inputs={"text": "t"}))
        assert (second.status, shop.took) == (ResponseStatus.OK, ["facts"])
        third = await again(made, second.run_id, RestartAsked(inputs={"text": "u"}))
        assert (third.status, shop.took) == (ResponseStatus.OK, ["facts"])
        made.service.serve(shop.worker("report", version="1.1"))
        fourth = await again(made, third.run_id, RestartAsked(inputs={"text": "u"}))
    assert (fourth.status, shop.took) == (ResponseStatus.OK, ["report"])


async def test_items_of_a_map_are_reused_one_by_one(tmp_path: Path) -> None:
    asked: list[str] = []
    bad = {"b", "d"}

    async def body(inputs: Inputs, ctx: Any) -> Inputs:
        asked.append(inputs["name"])
        if inputs["name"] in bad:
            raise WorkerError("broken_part", "broken")
        return {"name": inputs["name"].upper()}

    node = MapNode(name="each", worker="one", over=ref("inputs", "names"), inputs={"name": ref("item")}, at_most=10, tolerate=1)
    graph = pipeline(node, gives={"names": ref("each", "ok", "*", "outputs", "name")})
    async with stage(graph, worker("one", body), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"names": list("abcd")})
        assert first.status is not ResponseStatus.OK
        asked.clear()
        bad.discard("d")
        second = await again(made, first.run_id)
        assert (sorted(asked), second.outputs) == (["b", "d"], {"names": ["A", "C", "D"]})
        asked.clear()
        bad.clear()
        third = await again(made, second.run_id)  # a run that is partial can be retried
        assert (asked, third.outputs) == (["b"], {"names": ["A", "B", "C", "D"]})
        asked.clear()
        fourth = await again(made, third.run_id, RestartAsked(inputs={"names": ["x", "a", "c", "d"]}))  # moved, and one new
        assert (asked, fourth.outputs) == (["x"], {"names": ["X", "A", "C", "D"]})


async def test_verdicts_rounds_waits_and_decisions_are_reused_with_their_candidate(tmp_path: Path) -> None:
    ran: list[str] = []
    broken = {"publish"}

    async def body(inputs: Inputs, ctx: Any) -> Inputs:
        ran.append(inputs["who"])
        if inputs["who"] in broken:
            raise WorkerError("broken_part", "broken")
        if inputs["who"] == "judge":
            good = inputs["candidate"] == "second"
            return {"verdict": "allow" if good else "revise", "reasons": [] if good else [{"code": "weak", "message": "weak"}]}
        return {"text": "second" if "revision" in inputs else "first"}

    takes = {"type": "object", "properties": {"revision": {}, "who": {}}}
    graph = pipeline(
        WaitNode(name="rest", seconds=600),
        WorkerNode(name="facts", worker="w", inputs={"who": "facts"}, after=(After("rest"),)),
        GateNode(name="check", worker="w", candidate={"who": "judge", "candidate": out("facts", "text")}, revise="facts", rounds=2),
        HumanNode(name="sign", show={"text": out("facts", "text")}, after=(After("check"),)),
        WorkerNode(name="publish", worker="w", inputs={"who": "publish"}, after=(After("sign"),)),
    )
    async with stage(graph, worker("w", body, takes=takes), folder=tmp_path, clock=PatientClock()) as made:
        asks = await made.run()
        await made.answer("approve")
        failed = await made.service.response(asks.run_id, LOCAL)
        assert (failed.status is ResponseStatus.OK, ran) == (False, ["facts", "judge", "facts", "judge", "publish"])
        ran.clear()
        broken.clear()
        began = made.clock.now()
        response = await again(made, failed.run_id)
        assert (response.status, ran, made.clock.now() - began < 600_000) == (ResponseStatus.OK, ["publish"], True)
        ran.clear()
        header, accepted = await restart_run(made.service, response.run_id, LOCAL, RestartAsked(nodes=("facts",)))
        assert (await made.service.wait_for(header, accepted, wait=20)).status is ResponseStatus.NEEDS_HUMAN  # what is below is asked again
        assert ran == ["facts", "judge", "facts", "judge"]


async def test_an_item_that_the_last_run_did_not_begin_is_taken_from_the_run_before_it(tmp_path: Path) -> None:
    """The first run published a, b and c, and failed at c; the second failed at a, before it began b and c."""
    shop = Shop()
    broken = {"c": "after"}

    async def publish(inputs: Inputs, ctx: Any) -> Inputs:
        shop.ran.append(inputs["text"])
        if broken.get(inputs["text"]) == "before":
            raise WorkerError("broken_part", "before it posts")
        await ctx.tools.post(text=inputs["text"])
        if broken.get(inputs["text"]) == "after":
            raise WorkerError("broken_part", "after it has posted")
        return {}

    graph = pipeline(MapNode(name="m", worker="publish", over=["a", "b", "c"], at_most=10, at_once=1, inputs={"text": ref("item")}))
    made_of = worker("publish", publish, shop.posts, grants=(ToolGrant("post"),))
    async with stage(graph, made_of, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run()
        assert shop.took == ["a", "b", "c"]
        made_of.package, broken = "another", {"a": "before"}
        second = await again(made, first.run_id)
        assert shop.took == ["a"]
        made_of.package, broken = "p", {}
        third = await again(made, second.run_id)
    assert (third.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["a", "c"], 3), (
        "b is reused, a and c write nothing again"
    )


async def test_a_new_item_does_not_get_the_idempotency_key_of_the_item_that_stood_at_its_place(tmp_path: Path) -> None:
    shop = Shop()
    each = {"text": ref("item")}
    graph = pipeline(MapNode(name="m", worker="publish", over=ref("inputs", "ns"), at_most=10, inputs=each))
    async with stage(graph, shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"ns": ["a", "b"]})
        second = await again(made, first.run_id, RestartAsked(inputs={"ns": ["c", "a", "b"]}))
    assert (second.status, len(shop.posts.calls)) == (ResponseStatus.OK, 3)
    assert len({call.idempotency_key for call in shop.posts.calls}) == 3


async def test_what_was_undone_is_done_again_and_what_a_good_run_did_stays(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken = {"last"}
    undo = Undo(worker="unpublish", inputs={"text": "away"})
    graph = pipeline(
        WorkerNode(name="publish", worker="publish", inputs={"text": "t"}, undo=undo),
        WorkerNode(name="last", worker="last", inputs={"x": out("publish", "by"), "y": ref("inputs", "y")}),
    )
    workers = [shop.worker("publish", writes=True), shop.worker("unpublish", writes=True), shop.worker("last")]
    async with stage(graph, *workers, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"y": 1})
        assert (shop.took, len(shop.posts.calls)) == (["last", "publish", "unpublish"], 2)
        second = await again(made, first.run_id)
        assert (shop.took, len(shop.posts.calls)) == (["last", "publish", "unpublish"], 4), "done again, and undone again"
        assert len({call.idempotency_key for call in shop.posts.calls}) == 4
        shop.broken = set()
        good = await again(made, second.run_id)
        assert (good.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["last", "publish"], 5)
        shop.broken = {"last"}
        bad = await again(made, good.run_id, RestartAsked(inputs={"y": 2}))
        assert (bad.status is ResponseStatus.OK, shop.took) == (False, ["last"]), "the good run's write stays"


async def test_a_nested_pipeline_reuses_its_own_nodes(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken = {"second"}
    inner = pipeline(*chain("first", "second"), name="inner", gives={"by": out("second", "by")})
    outer = pipeline(WorkerNode(name="whole", worker="inner", inputs={"text": ref("inputs", "text")}))
    async with stage(
        [inner, outer], shop.worker("first", writes=True), shop.worker("second", writes=True), folder=tmp_path, clock=PatientClock()
    ) as made:
        failed = await made.run({"text": "t"})
        assert (shop.took, len(shop.posts.calls)) == (["first", "second"], 2)
        shop.broken = set()
        response = await again(made, failed.run_id)
        assert (response.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["second"], 2)
        whole = await again(made, response.run_id, RestartAsked(nodes=("whole",)))
    assert (whole.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["first", "second"], 2)


async def test_receipts_are_inherited_from_runs_before_the_last_one(tmp_path: Path) -> None:
    """The second run never began `publish`, which had written in the first."""
    shop = Shop()
    graph = pipeline(*chain("facts", "publish"))
    async with stage(graph, shop.worker("facts"), shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"})
        shop.broken = {"facts"}
        second = await again(made, first.run_id, RestartAsked(nodes=("facts",)))
        assert second.status is not ResponseStatus.OK
        shop.broken = set()
        assert sorted(shop.ran) == ["facts", "facts", "publish"]
        shop.ran.clear()
        third = await again(made, second.run_id)
    assert (third.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["facts", "publish"], 1)


def forget(made: Stage, run_id: str) -> None:
    """Let retention remove a run and the runs that it asked for, and nothing later."""
    store = made.engine._engine.store
    header = store.find(run_id)
    assert header is not None
    assert header.expires_at is not None
    while store.expire(header.expires_at, 1000):
        pass
    assert store.find(run_id) is None


@pytest.mark.parametrize("settled", ["answered", "keep", "unknown"])
async def test_a_third_run_writes_nothing_again_though_retention_has_removed_the_first(tmp_path: Path, settled: str) -> None:
    """The second run keeps what it inherits, with what a person decided about it."""
    shop = Shop()
    shop.broken = {"publish"}

    def post(**given: Any) -> Inputs:
        if settled == "unknown":
            raise ToolFailed("tool_failed", "the line is dead", known=False)
        return {"posted": given}

    shop.posts = Counted("post", Effect.WRITE, post)
    async with stage([], shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"}, name="publish")
        if settled == "unknown":
            await made.cancel(first.run_id)
            first = await made.service.response(first.run_id, LOCAL)
        made.clock.move_to(made.clock.now() + 86_400_000)
        asked = RestartAsked(inputs={"text": "u" if settled == "keep" else "t"})
        header, accepted = await restart_run(made.service, first.run_id, LOCAL, asked)
        second = await made.service.wait_for(header, accepted, wait=20)
        if settled != "answered":
            assert second.status is ResponseStatus.NEEDS_HUMAN
            await (made.act("keep") if settled == "keep" else made.answer("happened", result={}))
            second = await made.service.wait_for(header, accepted, wait=20)
        assert second.error is not None
        assert (second.error.error_code, len(shop.posts.calls)) == ("broken_part", 1)
        assert second.observability.usage.tool_calls == 0
        forget(made, first.run_id)
        shop.broken = set()
        third = await again(made, second.run_id)
    assert (third.status, len(shop.posts.calls)) == (ResponseStatus.OK, 1)


async def test_a_request_with_the_key_of_a_restart_inherits_also_what_the_first_run_wrote(tmp_path: Path) -> None:
    """The restart ends before it reaches the node that wrote; then the key begins a third run."""
    shop = Shop()
    shop.broken, shop.retryable = {"publish"}, True
    graph = pipeline(*chain("facts", "publish"), gives={"by": out("publish", "by")})
    async with stage(graph, shop.worker("facts"), shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"}, idempotency_key="k")
        shop.broken = {"facts"}
        second = await again(made, first.run_id, RestartAsked(nodes=("facts",)))
        assert [first.status, second.status] == [ResponseStatus.RETRYABLE_ERROR] * 2
        shop.broken = set()
        third = await made.run({"text": "t"}, idempotency_key="k")
        assert len({first.run_id, second.run_id, third.run_id}) == 3
    assert (third.status, len(shop.posts.calls)) == (ResponseStatus.OK, 1)


@pytest.mark.parametrize("lost", ["the first run", "a child run"])
async def test_a_pipeline_whose_earlier_writes_are_not_kept_is_not_restarted(tmp_path: Path, lost: str) -> None:
    shop = Shop()
    graph = pipeline(*chain("publish"), HumanNode(name="sign", show={"text": out("publish", "by")}))
    async with stage(graph, shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        asks = await made.run({"text": "t"})
        (gone,) = made.engine._engine.store.list(Filter(parent=asks.run_id))
        made.clock.move_to(made.clock.now() + 86_400_000)
        await made.answer("reject")
        last = await made.service.response(asks.run_id, LOCAL)
        if lost == "the first run":
            made.clock.move_to(made.clock.now() + 86_400_000)
            header, accepted = await restart_run(made.service, last.run_id, LOCAL, RestartAsked(nodes=("publish",)))
            await made.service.wait_for(header, accepted, wait=20)
            await made.answer("reject")
            last, gone = await made.service.wait_for(header, accepted, wait=20), (await made.found(last.run_id))[0]
        forget(made, gone.id)
        with pytest.raises(RestartRefused, match="is not kept any more"):
            await restart_run(made.service, last.run_id, LOCAL, RETRY)
    assert len(shop.posts.calls) == 1


async def test_a_run_of_a_worker_is_retried_as_a_whole_and_inherits_its_receipts(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken = {"publish"}
    async with stage([], shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        failed = await made.run({"text": "t"}, name="publish")
        shop.broken = set()
        with pytest.raises(RestartRefused, match="which has no nodes"):
            await restart_run(made.service, failed.run_id, LOCAL, RestartAsked(nodes=("publish",)))
        response = await again(made, failed.run_id)
    assert (response.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["publish", "publish"], 1)


async def test_while_a_child_run_is_under_way_a_stopped_run_is_not_restarted(tmp_path: Path) -> None:
    shop, sleeps = Shop(), asyncio.Event()

    async def body(inputs: Inputs, ctx: Any) -> Inputs:
        await sleeps.wait()
        return {}

    async with stage(pipeline(*chain("slow")), worker("slow", body), folder=tmp_path, clock=PatientClock()) as made:
        going = await made.run({"text": "t"}, wait=0.2)
        await made.engine._engine.stop(going.run_id, cascade=False)
        with pytest.raises(RestartRefused, match="has not ended yet"):
            await restart_run(made.service, going.run_id, LOCAL, RETRY)
        sleeps.set()
        assert shop.took == []


async def test_a_run_under_way_two_levels_below_refuses_a_restart_though_the_pipeline_between_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps, begun = asyncio.Event(), asyncio.Event()

    async def body(inputs: Inputs, ctx: Any) -> Inputs:
        begun.set()
        await sleeps.wait()
        return {}

    inner = pipeline(*chain("slow"), name="inner")
    outer = pipeline(WorkerNode(name="whole", worker="inner", inputs={"text": ref("inputs", "text")}))
    async with stage([inner, outer], worker("slow", body), folder=tmp_path, clock=PatientClock()) as made:
        going = await made.run({"text": "t"}, wait=0.2)
        await begun.wait()
        store = made.engine._engine.store
        (middle,) = store.list(Filter(parent=going.run_id))
        for one in (going.run_id, middle.id):
            await made.engine._engine.stop(one, cascade=False)
        with pytest.raises(RestartRefused, match=f"which run {middle.id} asked for, has not ended yet"):
            prepare(store, going.run_id, LOCAL, RETRY)
        (slow,) = store.list(Filter(parent=middle.id))
        await made.engine._engine.stop(slow.id, cascade=False)
        assert prepare(store, going.run_id, LOCAL, RETRY).header.id == going.run_id
        monkeypatch.setattr("holdfast.restarts.runs._MOST_BELOW", 1)
        with pytest.raises(RestartRefused, match="more than a restart checks"):
            prepare(store, going.run_id, LOCAL, RETRY)
        sleeps.set()


async def test_the_decision_of_the_person_who_asks_for_the_new_run_does_not_count_again(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken = {"publish"}
    graph = pipeline(
        HumanNode(name="sign", show={"text": "t"}), WorkerNode(name="publish", worker="publish", inputs={}, after=(After("sign"),))
    )
    ann, bob = (Caller(principal=name) for name in ("ann", "bob"))
    async with stage(graph, shop.worker("publish"), folder=tmp_path, clock=PatientClock()) as made:
        asks = await made.run()
        await made.answer("approve", by="ann")
        failed = await made.service.response(asks.run_id, LOCAL)
        header, accepted = await restart_run(made.service, failed.run_id, bob, RETRY)
        second = await made.service.wait_for(header, accepted, wait=20)
        assert (second.status is ResponseStatus.NEEDS_HUMAN, made.service.approvals(LOCAL)) == (False, [])  # ann decided for bob
        header, accepted = await restart_run(made.service, second.run_id, ann, RETRY)
        third = await made.service.wait_for(header, accepted, wait=20)
        assert third.status is ResponseStatus.NEEDS_HUMAN
        await made.answer("approve", by="bob")
        assert (await made.service.response(third.run_id, LOCAL)).status is not ResponseStatus.NEEDS_HUMAN


async def test_the_note_of_a_restart_names_its_nodes_what_is_sent_again_and_that_the_inputs_are_others(tmp_path: Path) -> None:
    shop = Shop()
    caller = Caller(actor=Actor(who="ann", origin="cli"))
    async with stage(pipeline(*chain("publish")), shop.worker("publish", writes=True), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "secret-1"})
        asked = RestartAsked(nodes=("publish",), resend=("publish",), inputs={"text": "secret-2"})
        header, accepted = await restart_run(made.service, first.run_id, caller, asked)
        await made.service.wait_for(header, accepted, wait=20)
        (noted,) = made.engine._engine.store.audit(NoteFilter(what="restart"))
    assert noted.note.outcome == f"as {header.id}; with other inputs; sends again publish; from publish"


REFUSED: list[Any] = [
    pytest.param(RestartAsked(nodes=("nowhere",)), NodeNotFound, "no node 'nowhere'", id="unknown-node"),
    pytest.param(RestartAsked(nodes=("x" * 5000,)), NodeNotFound, "no node", id="long-node"),
    pytest.param(RestartAsked(nodes=("facts",), resend=("nowhere",)), NodeNotFound, "--resend", id="unknown-resend"),
    pytest.param(RestartAsked(nodes=("report",), resend=("facts",)), RestartRefused, "neither it nor a node", id="resend-of-reused"),
    pytest.param(RestartAsked(), InvalidParameter, "a node to begin from", id="nothing-asked"),
    pytest.param(RestartAsked(inputs={"text": 7}), InvalidRequest, "do not fit", id="inputs-against-the-contract"),
    pytest.param(RETRY, RestartRefused, "nothing to retry", id="retry-of-a-good-run"),
]


@pytest.mark.parametrize("asked, error, told", REFUSED)
async def test_a_restart_that_cannot_be_is_refused_and_nothing_starts(
    tmp_path: Path, asked: RestartAsked, error: type[HoldfastError], told: str
) -> None:
    shop = Shop()
    takes = {"type": "object", "properties": {"text": {"type": "string"}}}
    async with stage(
        pipeline(*chain("facts", "report"), takes=takes), shop.worker("facts"), shop.worker("report"), folder=tmp_path, clock=PatientClock()
    ) as made:
        first = await made.run({"text": "t"})
        shop.ran.clear()
        with pytest.raises(error, match=told):
            await restart_run(made.service, first.run_id, LOCAL, asked)
        header = made.engine._engine.store.find(first.run_id)
    assert header is not None
    assert header.superseded_by is None
    assert shop.took == []


async def test_runs_that_go_on_that_were_restarted_that_are_below_others_or_of_others_are_refused(tmp_path: Path) -> None:
    shop = Shop()
    graph = pipeline(*chain("facts"), HumanNode(name="sign", show={"a": out("facts", "by")}))
    async with stage(graph, shop.worker("facts"), folder=tmp_path, clock=PatientClock()) as made:
        asks = await made.run({"text": "t"})
        asked = RestartAsked(nodes=("facts",))
        with pytest.raises(RestartRefused, match="is not over"):
            await restart_run(made.service, asks.run_id, LOCAL, asked)
        await made.answer("reject")
        store = made.engine._engine.store
        failed = await made.service.response(asks.run_id, LOCAL)
        with pytest.raises(ExecutionNotFound):
            await restart_run(made.service, failed.run_id, Caller(tenant="other", logged_in=True), asked)
        child = next(one for one in [x async for x in made.engine.list()] if one.parent == failed.run_id)
        with pytest.raises(RestartRefused, match=f"was invoked by {failed.run_id}"):
            await restart_run(made.service, child.id, LOCAL, RETRY)
        header, _ = await restart_run(made.service, failed.run_id, LOCAL, asked)
        with pytest.raises(RestartRefused, match=f"started again as {header.id}"):
            await restart_run(made.service, failed.run_id, LOCAL, asked)
        with pytest.raises(ExecutionNotFound):
            prepare(store, "nothing", LOCAL, RETRY)


async def test_a_plan_says_what_is_reused_what_runs_again_and_why(tmp_path: Path) -> None:
    shop = Shop()
    shop.broken = {"publish"}
    nodes = [*chain("facts", "report", "publish"), WorkerNode(name="late", worker="late", inputs={"x": out("publish", "by")})]
    workers = [shop.worker(name) for name in ("facts", "report", "publish", "late")]
    async with stage(pipeline(*nodes), *workers, folder=tmp_path, clock=PatientClock()) as made:
        failed = await made.run({"text": "t"})
        store = made.engine._engine.store

        def told(asked: RestartAsked) -> list[tuple[str, str]]:
            return [(one.what, one.why) for one in prepare(store, failed.run_id, LOCAL, asked, made.service).plan.nodes]

        ended = f"ended ok in {failed.run_id}"
        assert told(RETRY) == [
            ("reused", ended),
            ("reused", ended),
            ("again", "ended failed with broken_part"),
            ("again", "did not run before"),
        ]
        assert [what for what, _ in told(RestartAsked(nodes=("report",)))] == ["reused", "again", "again", "again"]
        assert told(RestartAsked(inputs={"text": "u"}))[:2] == [
            ("again", "its inputs changed"),
            ("depends", "runs again if the result of facts changes"),
        ]
        made.service.serve(shop.worker("facts", version="1.1"))
        assert told(RETRY)[0] == ("again", "facts has other code now")


@pytest.mark.parametrize("cap, may", [(Decimal("0.5"), Decimal("0.5")), (None, None)])
async def test_where_no_worker_is_served_the_caps_of_a_run_tell_what_its_restart_may_cost(
    tmp_path: Path, cap: Decimal | None, may: Decimal | None
) -> None:
    shop = Shop()
    graph = pipeline(*chain("facts", "report"), max_cost_usd=cap)
    async with stage(graph, shop.worker("facts"), shop.worker("report"), folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run({"text": "t"})
        store = made.engine._engine.store
        plan = prepare(store, first.run_id, LOCAL, RestartAsked(nodes=("report",))).plan
        served = prepare(store, first.run_id, LOCAL, RestartAsked(nodes=("report",)), made.service).plan
    assert plan.may_cost_usd == may
    assert served.may_cost_usd == 0, "where they are served, it is known that they ask no model"


async def test_two_runs_are_compared_node_by_node(tmp_path: Path) -> None:
    shop = Shop()
    graph = pipeline(
        *chain("facts"),
        GateNode(name="check", candidate=out("facts", "got"), rules=(Rule(path=".text", op="equals", value="good"),), on_block="skip"),
        gives={"text": out("facts", "got", "text")},
    )
    async with stage(graph, shop.worker("facts"), folder=tmp_path, clock=PatientClock()) as made:
        one = await made.run({"text": "good"})
        two = await made.run({"text": "bad"})
        store = made.engine._engine.store
        told = compare_runs(store, one.run_id, two.run_id, LOCAL)
        same = compare_runs(store, one.run_id, one.run_id, LOCAL)
    assert [(d.path, d.a, d.b) for d in told.inputs] == [("text", '"good"', '"bad"')]
    facts, check = told.nodes
    assert [(d.path, d.a, d.b) for d in facts.outputs] == [("outputs.got.text", '"good"', '"bad"')]
    assert check.a is not None
    assert check.b is not None
    assert (check.a.verdict, check.b.verdict, check.a.state, check.b.state) == ("allow", "block", "ok", "blocked")
    assert "verdict" in check.differs
    assert (same.is_same, told.is_same) == (True, False)


async def test_a_comparison_tells_how_long_each_node_took_and_what_it_cost(tmp_path: Path) -> None:
    model = Counted("model", Effect.READ, lambda number: {}, reservation=Reservation(20, Decimal(1)), usage=Usage(7, 2, Decimal("0.25")))
    clock = PatientClock()

    async def think(inputs: Inputs, ctx: Any) -> Inputs:
        for number in range(inputs["times"]):
            await ctx.tools.model(number=number)
            clock.move_to(clock.now() + 1000)
        return {}

    thinker = worker("think", think, model, grants=(ToolGrant("model"),))
    graph = pipeline(WorkerNode(name="think", worker="think", inputs={"times": ref("inputs", "times")}))
    async with stage(graph, thinker, folder=tmp_path, clock=clock) as made:
        one, three = [(await made.run({"times": times})).run_id for times in (1, 3)]
        told = compare_runs(made.engine._engine.store, one, three, LOCAL)
    (node,) = told.nodes
    assert node.a is not None
    assert node.b is not None
    assert [(side.duration_ms, side.cost_usd, side.tokens, len(side.runs)) for side in (node.a, node.b)] == [
        (1000, Decimal("0.25"), 9, 1),
        (3000, Decimal("0.75"), 27, 1),
    ]


def paying(*, maps: bool) -> Pipeline:
    p = Pipeline("paying", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
    pages = p.map("pages", "page-worker", p.inputs.urls, {"url": p.item}, at_most=9, tolerate="50%") if maps else None
    facts = p.worker("facts", "fact-worker", {"pages": p.inputs.urls if pages is None else pages.ok.outputs})
    signed = p.human("sign", show=facts.outputs)
    p.gives({"paid": p.worker("pay", "pay-worker", {"facts": facts.outputs}, after=[signed]).outputs})
    return p


@pytest.mark.parametrize(
    "again_, calls",
    [
        pytest.param([{}], ["fact-worker", "pay-worker", "pay-worker"], id="retry"),
        pytest.param([{}], ["fact-worker", *["page-worker"] * 3, "pay-worker", "pay-worker"], id="map", marks=pytest.mark.long),
        pytest.param([{"nodes": "facts"}], None, id="restart", marks=pytest.mark.long),
        pytest.param([{}, {"nodes": "pay"}], None, id="restart-of-a-restart", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("kit_store")
def test_a_crash_anywhere_in_a_restarted_pipeline_changes_nothing(again_: list[Inputs], calls: list[str] | None) -> None:
    def scene(does: Callable[..., Any]) -> Any:
        return does(
            paying(maps=calls is None or "page-worker" in calls),
            {"urls": ["a", "b"]},
            workers={
                "page-worker": lambda inputs: WorkerError("gone", "gone") if inputs["url"] == "b" else {"page": inputs["url"]},
                "fact-worker": {"facts": 1},
                "pay-worker": [WorkerError("broken", "broken"), {"paid": True}, {"paid": True}],
            },
            decisions={"sign": "approve"},
            again=again_,
        )

    ran = scene(pipeline_kit.run)
    assert ran.response.outputs == {"paid": {"paid": True}}
    if calls is not None:
        assert sorted(worker_id for worker_id, _ in ran.stub_calls) == calls
        assert len(ran.questions) == 0, "the decision of the first run counts"
    assert scene(pipeline_kit.crash_everywhere) > 10


async def test_rounds_of_until_and_turns_of_a_supervisor_count_again_and_their_writes_are_not_made_twice(tmp_path: Path) -> None:
    shop, looked = Shop(), list[int]()
    shop.broken = {"end"}

    async def look(inputs: Inputs, ctx: Any) -> Inputs:
        looked.append(1)
        return {"n": len(looked)}

    async def boss(inputs: Inputs, ctx: Any) -> Inputs:
        shop.ran.append("boss")
        if "boss" in shop.broken and len(inputs["so_far"]) == 2:
            raise WorkerError("broken_part", "the boss is ill")
        done = len(inputs["so_far"]) == 2
        return {"choice": "finish" if done else "post", "reason": "r", "inputs": {"text": f"t{len(inputs['so_far'])}"}, "outputs": {}}

    graph = pipeline(
        UntilNode(name="ready", worker="look", inputs={}, rules=(Rule(path=".n", op="at_least", value=2),), at_most=5, every_seconds=600),
        SuperviseNode(name="lead", worker="boss", inputs={}, choices={"post": "publish"}, turns=5, after=(After("ready"),)),
        WorkerNode(name="end", worker="end", inputs={}, after=(After("lead"),)),
    )
    workers = [worker("look", look), worker("boss", boss), shop.worker("publish", writes=True), shop.worker("end")]
    async with stage(graph, *workers, folder=tmp_path, clock=PatientClock()) as made:
        first = await made.run()
        assert (len(looked), shop.took, len(shop.posts.calls)) == (2, ["boss", "boss", "boss", "end", "publish", "publish"], 2)
        shop.broken = {"boss"}
        began = made.clock.now()
        second = await again(made, first.run_id, RestartAsked(nodes=("lead",)))
        assert (len(looked), made.clock.now() - began < 600_000) == (2, True)
        assert (second.status is ResponseStatus.OK, shop.took, len(shop.posts.calls)) == (False, ["boss"] * 3 + ["publish"] * 2, 2)
        shop.broken = set()
        third = await again(made, second.run_id)
        assert (third.status, shop.took, len(shop.posts.calls)) == (ResponseStatus.OK, ["boss"] * 3 + ["end"] + ["publish"] * 2, 2)
        fourth = await again(made, third.run_id, RestartAsked(nodes=("end",)))
    assert (fourth.status, shop.took, len(looked)) == (ResponseStatus.OK, ["end"], 2)
