"""A call of a model that fails is booked as what it may have cost, and the response shows why it failed. A real server counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.contract.terms import Retries
from holdfast.model.clock import VirtualClock
from holdfast.workers.day_usage import spent_today
from holdfast.workers.policy import DayCaps, Policy
from holdfast.workers.run_lookup import Caller
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.prices import Price
from holdfast.workers.tools.seam import Effect, Reservation, ToolFailed, Usage
from holdfast.workers.tools.token_estimate import estimated_input, estimated_tokens
from tests.tools.servers import Asked, head, site
from tests.workers.harness import Counted, InlineWorker, contract, request, worker_service

PROMPT = "Is it so?"
INPUT = estimated_input([{"role": "user", "content": PROMPT}])
"""The tokens of input that are estimated; the server counts as many."""
OUTPUT = 20
PRICE = Price(input=Decimal(1), output=Decimal(10))
SAID = "it is so"
WIDE = DayCaps(tokens=10_000, cost_usd=Decimal(1))
Move = Callable[["Server", asyncio.StreamWriter], Any]


class Server:
    """A model's server that fails in the ways it is told, then answers; its books."""

    def __init__(self, *moves: Move) -> None:
        self.url = ""
        self.input = self.output = 0
        self.asked = 0
        self._moves = list(moves)

    async def serve(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        await (self._moves.pop(0) if self._moves else answers)(self, writer)

    @property
    def counted(self) -> tuple[int, int, Decimal]:
        return self.input, self.output, PRICE.cost(self.input, self.output)


def whole() -> bytes:
    message = {"role": "assistant", "content": SAID}
    usage = {"prompt_tokens": INPUT, "completion_tokens": 7}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}).encode()


async def answers(server: Server, writer: asyncio.StreamWriter) -> None:
    server.input, server.output = server.input + INPUT, server.output + 7
    writer.write(head(200, {"content-type": "application/json", "content-length": str(len(whole()))}) + whole())


def refuses(status: int, *, cut: bool = False) -> Move:
    """An error of the server's, which bills nothing; `cut`: it breaks off in the middle of saying why."""

    async def move(server: Server, writer: asyncio.StreamWriter) -> None:
        said = b'{"error": {"message": "the machine room is dark"}}'
        sent = said[:10] if cut else said
        writer.write(head(status, {"content-type": "application/json", "content-length": str(len(said)), "retry-after": "1"}) + sent)

    return move


async def hangs_up(server: Server, writer: asyncio.StreamWriter) -> None:
    """It has read the request, and says nothing."""
    server.input += INPUT


async def breaks_off(server: Server, writer: asyncio.StreamWriter) -> None:
    """It has said a part of its answer, and bills that part."""
    sent = whole()[: whole().index(SAID.encode()) + 5]
    server.input, server.output = server.input + INPUT, server.output + estimated_tokens(SAID[:5])
    writer.write(head(200, {"content-type": "application/json", "content-length": str(len(whole()))}) + sent)


async def is_silent(server: Server, writer: asyncio.StreamWriter) -> None:
    server.input += INPUT
    await asyncio.Event().wait()


async def talks_nonsense(server: Server, writer: asyncio.StreamWriter) -> None:
    server.input += INPUT
    writer.write(head(200, {"content-type": "text/html", "content-length": "5"}) + b"<html")


@asynccontextmanager
async def served(*moves: Move) -> AsyncIterator[Server]:
    async with site() as web:
        server = Server(*moves)
        server.url = f"{web.url}/v1"
        web.pages["/v1/chat/completions"] = server.serve
        yield server


async def asks_once(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {"said": await ctx.tools.language_model(prompt=PROMPT, max_output_tokens=OUTPUT)}


async def asks_twice(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    try:
        return await asks_once(inputs, ctx)
    except Exception:
        return await asks_once(inputs, ctx)


async def come_to(
    folder: Path, url: str, *, body: Any = asks_once, attempts: int = 2, caps: DayCaps = WIDE, seconds: float = 5.0, **limits: Any
) -> tuple[Response, dict[str, Any]]:
    """One run against this server, and what its tenant's day has counted after it."""
    model = LanguageModel(ModelSettings(base_url=url, model="m", prices={"m": PRICE}, timeout_seconds=seconds))
    worker = InlineWorker(contract("language_model", limits=limits, retries=Retries(max_attempts=attempts)), body, model)
    policy = Policy(caps=caps)
    try:
        async with worker_service(worker, folder=folder, policy=policy, clock=VirtualClock()) as service:
            now = service._engine.clock.now()
            response = await service.invoke(request(), Caller())
            return response, {each.what: each.spent for each in spent_today(service._engine.store, policy, ["default"], now)}
    finally:
        await model.close()


def usage(response: Response) -> tuple[Any, ...]:
    used = response.observability.usage
    return used.tokens.input, used.tokens.output, used.cost_usd


def error(response: Response) -> Any:
    assert response.error is not None
    return response.error


ENOUGH_FOR_ONE = INPUT + OUTPUT
"""A budget that holds one call and not two: what is wrongly booked is missed at once."""


@pytest.mark.parametrize("move", [refuses(500), refuses(502), refuses(503), refuses(429), refuses(500, cut=True), refuses(409)])
async def test_a_call_that_was_not_billed_leaves_the_budget_whole_and_the_pages_retry_is_made(tmp_path: Path, move: Move) -> None:
    async with served(move) as server:
        response, day = await come_to(tmp_path, server.url, max_tokens=ENOUGH_FOR_ONE)
    assert (response.status, response.outputs, server.asked) == (ResponseStatus.OK, {"said": SAID}, 2)
    assert usage(response) == server.counted
    assert (day["tokens"], day["cost_usd"]) == (server.input + server.output, server.counted[2])


async def test_a_server_that_refuses_the_connection_costs_nothing(tmp_path: Path) -> None:
    response, day = await come_to(tmp_path, "http://127.0.0.1:1/v1", max_tokens=ENOUGH_FOR_ONE)
    assert (error(response).error_code, response.observability.attempt) == ("tool_unavailable", 2)
    assert (usage(response), day["tokens"], day["cost_usd"]) == ((0, 0, 0), 0, 0)


@pytest.mark.parametrize("move, seconds", [(hangs_up, 5.0), (breaks_off, 5.0), (talks_nonsense, 5.0), (is_silent, 0.3)])
async def test_a_call_whose_outcome_is_unknown_is_booked_as_its_input_and_what_was_streamed(
    tmp_path: Path, move: Move, seconds: float
) -> None:
    async with served(move) as server:
        response, day = await come_to(tmp_path, server.url, max_tokens=2 * ENOUGH_FOR_ONE, seconds=seconds)
    assert (response.status, server.asked) == (ResponseStatus.OK, 2)
    assert usage(response) == server.counted
    assert (day["tokens"], day["cost_usd"]) == (server.input + server.output, server.counted[2])


async def test_a_budget_that_a_failed_call_has_spent_does_not_hide_the_first_failure(tmp_path: Path) -> None:
    async with served(hangs_up) as server:
        response, _ = await come_to(tmp_path, server.url, max_tokens=ENOUGH_FOR_ONE)
    told = error(response)
    assert (response.status, told.error_code, told.retryable, server.asked) == (ResponseStatus.RETRYABLE_ERROR, "tool_unavailable", True, 1)
    assert "disconnected" in told.message
    assert told.details["then"]["error_code"] == "budget_exceeded"
    assert "budget_exceeded" in told.message


async def test_a_body_that_asks_again_by_itself_does_not_hide_it_either(tmp_path: Path) -> None:
    async with served(hangs_up) as server:
        response, _ = await come_to(tmp_path, server.url, body=asks_twice, attempts=1, max_tokens=ENOUGH_FOR_ONE)
    told = error(response)
    assert (told.error_code, told.details["then"]["error_code"], server.asked) == ("tool_unavailable", "budget_exceeded", 1)


async def test_a_budget_that_good_answers_have_spent_is_told_as_such(tmp_path: Path) -> None:
    async def asks_on(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        while True:
            await asks_once(inputs, ctx)

    async with served() as server:
        response, _ = await come_to(tmp_path, server.url, body=asks_on, max_tokens=ENOUGH_FOR_ONE)
    assert (error(response).error_code, error(response).details) == ("budget_exceeded", None)


async def test_a_result_that_cannot_be_kept_is_booked_by_the_tools_own_count(tmp_path: Path) -> None:
    async def looks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"found": await ctx.tools.look()}

    tool = Counted("look", Effect.READ, lambda: object(), reservation=Reservation(100, Decimal(1)), usage=Usage(5, 2, Decimal("0.1")))
    async with worker_service(InlineWorker(contract("look"), looks, tool), folder=tmp_path) as service:
        response = await service.invoke(request(), Caller())
    assert (error(response).error_code, usage(response)) == ("tool_failed", (5, 2, Decimal("0.1")))


@pytest.mark.parametrize("known, booked", [(True, (0, 0, 0)), (False, (100, 0, 1))])
async def test_any_tool_with_costs_is_booked_by_what_it_knows(tmp_path: Path, known: bool, booked: tuple[int, int, int]) -> None:
    async def looks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
        return {"found": await ctx.tools.look()}

    failure = ToolFailed("tool_failed", "no", known=known)
    tool = Counted("look", Effect.READ, lambda: failure, reservation=Reservation(100, Decimal(1)))
    policy = Policy(caps=WIDE)
    async with worker_service(InlineWorker(contract("look"), looks, tool), folder=tmp_path, policy=policy) as service:
        response = await service.invoke(request(), Caller())
        day = spent_today(service._engine.store, policy, ["default"], service._engine.clock.now())
    assert usage(response) == booked
    assert [each.spent for each in day] == [booked[0], booked[2]]


# --- a cap of the day


async def test_a_cap_of_the_day_says_until_when_it_holds_and_may_be_tried_again(tmp_path: Path) -> None:
    async with served() as server:
        response, _ = await come_to(tmp_path, server.url, attempts=3, body=asks_and_asks, caps=DayCaps(tokens=INPUT + OUTPUT + 5))
    told = error(response)
    assert (response.status, told.error_code, told.retryable, response.observability.attempt) == (
        ResponseStatus.RETRYABLE_ERROR,
        "rate_limited",
        True,
        1,
    )
    now = VirtualClock().now()
    assert (told.details["cap"], told.details["until"] in told.message) == ("tokens", True)
    assert 0 < told.retry_after_seconds <= 86_400
    assert abs(told.retry_after_seconds * 1000 + now - (now - now % 86_400_000 + 86_400_000)) < 60_000, "midnight by UTC"
    assert server.asked == 1, "the run did not wait for the next day by itself"


async def test_a_cap_on_the_runs_of_a_day_says_until_when_it_holds(tmp_path: Path) -> None:
    worker = InlineWorker(contract(), lambda inputs, ctx: {})
    async with worker_service(worker, folder=tmp_path, policy=Policy(caps=DayCaps(runs=1))) as service:
        await service.invoke(request(), Caller())
        told = error(await service.invoke(request(), Caller()))
    assert (told.error_code, told.retryable, told.details["cap"], told.details["until"] in told.message) == (
        "rate_limited",
        True,
        "runs",
        True,
    )


async def asks_and_asks(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    await asks_once(inputs, ctx)
    return await asks_once(inputs, ctx)
