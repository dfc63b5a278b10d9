"""A finished run again, on its receipts: the same code does the same, other code is told apart, and nothing is done to the world."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.protocol import Constraints, Response
from holdfast.contract.terms import Contract, Retries
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import InvalidParameter
from holdfast.workers.approvals import Decision
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import DayCaps, Most, Policy
from holdfast.workers.replay import Finished, RunReplay, finished_in, replay
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from holdfast.workers.value_changes import changes
from tests.workers.harness import LOCAL, Counted, InlineWorker, contract, request, worker_service

Body = Callable[[dict[str, Any], Any], Any]


class Scene:
    """A worker with one tool that reads and one that writes, run once; then again with this body or another."""

    def __init__(self, folder: Path, *, promise: Contract | None = None, approvals: frozenset[str] = frozenset()) -> None:
        self.folder = folder
        self.promise = promise or contract("look", "pay")
        self.approvals = approvals
        self.look = Counted("look", Effect.READ, lambda at: {"at": at})
        self.pay = Counted("pay", Effect.WRITE, lambda cents: {"paid": cents})
        self.policy = Policy()
        self.asks = bool(approvals)
        """Then time stands still: else a week would pass without a decision."""

    def worker(self, body: Body) -> InlineWorker:
        return InlineWorker(self.promise, body, self.look, self.pay, approvals=self.approvals)

    async def ran(self, body: Body, verdict: str | None = None, **inputs: Any) -> tuple[Finished, Response]:
        clock = VirtualClock(skipping=not self.asks)
        async with worker_service(self.worker(body), folder=self.folder, policy=self.policy, clock=clock) as service:
            response = await service.invoke(request(**inputs), LOCAL)
            if verdict is not None:
                decision = Decision(verdict=verdict, decided_by="ada", decided_at=0, result="blue")
                await service.decide(response.approvals[0]["approval_id"], decision, LOCAL)
                response = await service.response(response.run_id, LOCAL)
            return finished_in(service._engine.store, response.run_id, LOCAL), response

    async def again(self, finished: Finished, body: Body) -> RunReplay:
        before = len(self.look.calls), len(self.pay.calls)
        told = await replay(finished, self.worker(body), "p", Artifacts(Folder(self.folder), self.policy.artifact_bytes), self.policy)
        assert (len(self.look.calls), len(self.pay.calls)) == before, "a replay calls no tool"
        return told


def told_of(replayed: RunReplay) -> list[tuple[int, str, str]]:
    return [(difference.attempt, difference.kind, difference.message) for difference in replayed.differences]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def good(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    seen = await ctx.tools.look(at="x")
    seven = await ctx.step(lambda: 7, name="seven")
    paid = await ctx.tools.pay(cents=5)
    return {"seen": seen, "seven": seven, "paid": paid, "id": str(ctx.uuid()), "at": ctx.now().isoformat()}


async def test_the_same_code_comes_to_the_same_without_a_call(scene: Scene) -> None:
    finished, _ = await scene.ran(good)
    told = await scene.again(finished, good)
    assert (told.matches, told.differences, told.attempts, told.receipts) == (True, (), 1, 2)


async def test_a_run_that_left_no_records_is_compared_with_its_response(scene: Scene) -> None:
    async def plain(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": 1, "first": ctx.now().isoformat()}

    async def other(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": 2, "first": ctx.now().isoformat()}

    finished, _ = await scene.ran(plain)
    assert (await scene.again(finished, plain)).matches
    assert told_of(await scene.again(finished, other)) == [(1, "outputs", "outputs/n was 1, and is now 2")]


async def test_a_write_that_has_no_receipt_is_refused_and_shown(scene: Scene) -> None:
    async def pays_twice(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await good(inputs, ctx)
        try:
            await ctx.tools.pay(cents=6)
        except Exception:
            return {"hidden": True}
        raise AssertionError("it must not be answered")

    finished, _ = await scene.ran(good)
    told = await scene.again(finished, pays_twice)
    assert told_of(told) == [
        (1, "new_call", 'pay({"cents":6}) has no receipt; the replay did not make the call, because the tool changes the world')
    ]
    assert not told.matches


async def test_a_read_that_has_no_receipt_is_refused_too(scene: Scene) -> None:
    async def looks_elsewhere(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look(at="x")
        return {"seen": await ctx.tools.look(at="y")}

    finished, _ = await scene.ran(good)
    assert [kind for _, kind, _ in told_of(await scene.again(finished, looks_elsewhere))] == ["new_call"]


async def test_other_arguments_are_shown_beside_those_of_the_run(scene: Scene) -> None:
    async def asks_otherwise(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"seen": await ctx.tools.look(at="y")}

    finished, _ = await scene.ran(good)
    told = await scene.again(finished, asks_otherwise)
    assert told_of(told) == [(1, "other_arguments", 'look was called with {"at":"x"}, and now with {"at":"y"}')]


async def test_calls_that_are_not_made_any_more_and_outputs_that_changed_are_all_shown(scene: Scene) -> None:
    async def pays_nothing(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        seen = await ctx.tools.look(at="x")
        seven = await ctx.step(lambda: 7, name="seven")
        return {"seen": seen, "seven": seven + 1, "id": str(ctx.uuid())}

    finished, _ = await scene.ran(good)
    told = told_of(await scene.again(finished, pays_nothing))
    assert told[:2] == [
        (1, "missing_call", 'pay({"cents":5}) was called, and is not any more'),
        (1, "outputs", "outputs/seven was 7, and is now 8"),
    ]
    assert {message.split()[0] for _, kind, message in told if kind == "outputs"} == {"outputs/seven", "outputs/paid", "outputs/at"}


async def test_a_step_is_answered_by_its_record_and_a_new_one_is_shown(scene: Scene) -> None:
    ran: list[int] = []

    def count() -> int:
        ran.append(1)
        return len(ran)

    async def steps(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"n": await ctx.step(count)}

    async def one_more(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.step(lambda: 0, name="count")
        return {"n": await ctx.step(lambda: 1, name="again")}

    finished, response = await scene.ran(steps)
    assert (await scene.again(finished, steps)).matches
    assert (response.outputs, ran) == ({"n": 1}, [1])
    assert told_of(await scene.again(finished, one_more)) == [
        (1, "new_record", "BodyStep 'again' is new: the run has no record of it"),
    ]


async def test_every_attempt_is_replayed_on_the_receipts_it_had(scene: Scene) -> None:
    answers = iter([ToolFailed("tool_unavailable", "closed"), {"paid": 1}])
    scene.pay = Counted("pay", Effect.WRITE, lambda cents: next(answers))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        began = ctx.now().isoformat()
        seen = await ctx.tools.look(at="x")
        return {"seen": seen, "began": began, "paid": await ctx.tools.pay(cents=5)}

    finished, response = await scene.ran(body)
    assert response.observability.attempt == 2
    told = await scene.again(finished, body)
    assert (told.differences, told.attempts, told.receipts) == ((), 2, 4)


async def test_an_error_of_the_bodys_own_is_compared_by_its_code_and_what_came_with_it(scene: Scene) -> None:
    def failing(code: str, **partial: Any) -> Body:
        async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
            raise WorkerError(code, "so it is", partial=partial or None)

        return body

    finished, _ = await scene.ran(failing("no_such_order", looked=1))
    assert (await scene.again(finished, failing("no_such_order", looked=1))).matches
    assert told_of(await scene.again(finished, failing("no_such_order", looked=2))) == [
        (1, "outputs", "outputs/looked was 1, and is now 2")
    ]
    assert told_of(await scene.again(finished, failing("other"))) == [
        (1, "outcome", "it ended with no_such_order: so it is, and now with other: so it is")
    ]


async def test_outputs_that_break_the_promise_do_so_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, promise=contract(output_schema={"type": "object", "required": ["n"]}))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"m": 1}

    finished, response = await scene.ran(body)
    assert response.error is not None
    assert response.error.error_code == "output_schema_mismatch"
    assert (await scene.again(finished, body)).matches


async def test_a_body_sees_the_limits_that_its_request_tightened_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, promise=contract(limits={"max_tokens": 100}))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"most": ctx.contract.limits.max_tokens}

    finished, response = await scene.ran(body, constraints=Constraints(max_tokens=50))
    assert response.outputs == {"most": 50}
    assert (await scene.again(finished, body)).matches


async def test_what_the_budget_refused_it_refuses_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, promise=contract("look", "pay", limits={"max_tokens": 100}))
    scene.look = Counted("look", Effect.READ, reservation=Reservation(60, Decimal(0)), usage=Usage(30, 20, Decimal(0)))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look(at="x")
        await ctx.tools.look(at="y")
        return {}

    scene.look._does = lambda at: {"at": at}
    finished, response = await scene.ran(body)
    assert response.error is not None
    assert response.error.error_code == "budget_exceeded"
    assert (await scene.again(finished, body)).matches


async def test_the_last_attempt_is_compared_with_its_own_error_and_not_with_an_earlier_one_that_the_response_shows(tmp_path: Path) -> None:
    """The first attempt loses its call, which may have spent its tokens; the second has no tokens left."""
    scene = Scene(tmp_path, promise=contract("look", "pay", limits={"max_tokens": 100}))
    failure = ToolFailed("tool_unavailable", "the line is dead", known=False)
    scene.look = Counted("look", Effect.READ, lambda at: failure, reservation=Reservation(60, Decimal(0)))

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"seen": await ctx.tools.look(at="x")}

    finished, response = await scene.ran(body)
    assert response.error is not None
    assert (response.error.error_code, response.error.details["then"]["error_code"]) == ("tool_unavailable", "budget_exceeded")
    assert told_of(await scene.again(finished, body)) == []


BUSY = ToolFailed("rate_limited", "slow down", retry_after_seconds=600, closes="tool:look")


async def looks_on(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    with contextlib.suppress(WorkerError):
        await ctx.tools.look(at="x")
    return {"seen": await ctx.tools.look(at="y")}


@pytest.mark.parametrize(
    "policy, answer, code, noted",
    [
        pytest.param(Policy(most=Most(tool_calls=1)), {}, "budget_exceeded", False, id="calls"),
        pytest.param(Policy(caps=DayCaps(tokens=100)), {}, "rate_limited", True, id="cap"),
        pytest.param(Policy(), BUSY, "rate_limited", True, id="closed"),
    ],
)
async def test_a_call_that_a_limit_of_the_operator_refused_is_no_new_call(
    tmp_path: Path, policy: Policy, answer: Any, code: str, noted: bool
) -> None:
    scene = Scene(tmp_path, promise=contract("look", "pay", retries=Retries(max_attempts=1)))
    scene.look = Counted("look", Effect.READ, lambda at: answer, reservation=Reservation(60, Decimal(0)), usage=Usage(30, 20, Decimal(0)))
    scene.policy = policy
    finished, response = await scene.ran(looks_on)
    assert response.error is not None
    assert (response.error.error_code, len(scene.look.calls)) == (code, 1)
    told = await scene.again(finished, looks_on)
    assert (told_of(told), len(told.notes)) == ([], int(noted))
    assert not noted or f'look({{"at":"y"}}) has no receipt; it got the error {code}' in told.notes[0]


async def test_a_new_call_is_shown_although_a_call_with_a_receipt_met_a_limit(scene: Scene) -> None:
    scene.look = Counted("look", Effect.READ, lambda at: BUSY)
    scene.promise = contract("look", "pay", retries=Retries(max_attempts=1))

    async def looks_once(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"seen": await ctx.tools.look(at="x")}

    finished, _ = await scene.ran(looks_once)
    assert [kind for _, kind, _ in told_of(await scene.again(finished, looks_on))] == ["new_call"]


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_what_a_person_decided_is_decided(tmp_path: Path, verdict: str) -> None:
    scene = Scene(tmp_path, approvals=frozenset({"pay"}))
    finished, _ = await scene.ran(good, verdict)
    assert len(scene.pay.calls) == (1 if verdict == "approve" else 0)
    assert (await scene.again(finished, good)).differences == ()


@pytest.mark.parametrize("verdict, notes", [("happened", ()), ("stop", ("attempt 1: pay was under way when the attempt ended",))])
async def test_a_call_that_nobody_knows_of_is_answered_as_far_as_it_was(scene: Scene, verdict: str, notes: tuple[str, ...]) -> None:
    scene.asks = True
    scene.pay = Counted("pay", Effect.WRITE, lambda cents: ToolFailed("tool_timeout", "silence", known=False))
    finished, _ = await scene.ran(good, verdict)
    assert len(scene.pay.calls) == 1
    told = await scene.again(finished, good)
    assert (told.differences, told.notes) == ((), notes)


async def test_a_persons_answer_is_given_again_and_a_new_question_is_shown(scene: Scene) -> None:
    def asking(question: str) -> Body:
        async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
            return {"colour": await ctx.ask(question)}

        return body

    scene.asks = True
    finished, response = await scene.ran(asking("which colour?"), "answer")
    assert response.outputs == {"colour": "blue"}
    assert (await scene.again(finished, asking("which colour?"))).matches
    assert [kind for _, kind, _ in told_of(await scene.again(finished, asking("which size?")))] == ["new_record"]


async def test_a_timeout_is_not_the_codes_doing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, promise=contract("look", "pay", limits={"timeout_seconds": 0.5}, retries=Retries(max_attempts=1)))
    hang = True

    async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        await ctx.tools.look(at="x")
        if hang:
            await asyncio.Event().wait()
        return {"ok": True}

    finished, response = await scene.ran(body)
    assert response.error is not None
    assert response.error.error_code == "timeout"
    hang = False
    told = await scene.again(finished, body)
    assert told.matches
    assert told.notes == ("attempt 1: it ended with timeout, which the code did not cause; now it ends with ok",)


async def test_a_run_that_is_not_over_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, approvals=frozenset({"pay"}))
    with pytest.raises(InvalidParameter, match="has not ended yet"):
        await scene.ran(good)


async def test_artifacts_are_made_again_and_kept_nowhere(scene: Scene) -> None:
    def making(text: str) -> Body:
        async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
            kept = await ctx.artifact("note.txt", text)
            with await ctx.open(kept) as file:
                return {"kept": kept, "large": "x" * 100_000, "read": file.read().decode()}

        return body

    finished, response = await scene.ran(making("one"))
    assert response.outputs is not None
    assert "$artifact" in response.outputs["large"]
    before = sorted(scene.folder.rglob("*"))
    assert (await scene.again(finished, making("one"))).matches
    assert "outputs/kept/sha256" in str(told_of(await scene.again(finished, making("two"))))
    assert sorted(scene.folder.rglob("*")) == before


async def test_an_artifact_of_an_earlier_run_is_opened_again(scene: Scene) -> None:
    async def opening(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        with await ctx.open(inputs["file"]) as file:
            return {"read": file.read().decode()}

    left = [b"hello"]
    kept = Artifacts(Folder(scene.folder), 1000).keep(LOCAL.tenant, "note.txt", "text/plain", lambda _: left.pop() if left else b"")
    finished, response = await scene.ran(opening, file={"artifact_id": kept.artifact_id})
    assert response.outputs == {"read": "hello"}
    assert told_of(await scene.again(finished, opening)) == []


@pytest.mark.parametrize(
    "before, after, found",
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 1.0}, [("/a", "1", "1.0")]),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}, 4]}, [("/a/1/b", "2", "3"), ("/a/2", "not there", "4")]),
        ({"a": 1}, {"b": 1}, [("/a", "1", "not there"), ("/b", "not there", "1")]),
        (None, {"a": 1}, [("", "null", '{"a":1}')]),
        ({"a": "x" * 300}, {"a": ""}, [("/a", f'"{"x" * 196}...', '""')]),
    ],
)
def test_differences_of_values_are_told_by_path(before: Any, after: Any, found: list[tuple[str, str, str]]) -> None:
    assert list(changes(before, after)) == found
