"""Trips: branches within branches, a map that ends early, other functions, conditions, retried blocks and races, in both colours.

A trip invokes functions of both colours, and those invoke others: a tree of executions three levels deep, one chain of it continuing
as new. Every body tells the outside world; `result_of_trip` says what must come out, however often anything was interrupted.
"""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.durable.config import CompletionConfig, Duration, MapConfig, ParallelConfig
from holdfast.durable.exceptions import InvokeError
from holdfast.durable.retries import WithRetryConfig, with_retry
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from tests.crash.orders import ONCE, SECOND, again_in_a_second
from tests.crash.outside import outside, who

STOPS, WANTED = 6, 4
"""The map ends as soon as so many of its items are done."""
LAPS = 3
LOOKS = 2
HOUR = Duration.from_hours(1)

MAP: MapConfig[int] = MapConfig(max_concurrency=2, completion_config=CompletionConfig(min_successful=WANTED))
FEW = ParallelConfig(max_concurrency=4)
AGAIN: WithRetryConfig[Any] = WithRetryConfig(retry_strategy=again_in_a_second)
LOOK: WaitForConditionConfig[int] = WaitForConditionConfig(
    lambda seen, _: WaitForConditionDecision(should_continue=seen < LOOKS, delay=SECOND), initial_state=0
)


def result_of_trip(n: int, answered: bool) -> list[Any]:
    """The result of a trip, without the stops: any stops may have been done first."""
    side_by_side = [
        [[n + 2, f"paid {n}"], [n + 2, f"paid {n}"]],
        [f"pack {n}", [f"ticket {n}", f"seat {n}"], f"late {n}"],
        LOOKS,
        "try 2",
        "answer" if answered else "timer",
        [n, LAPS],
        ["LookupError", f"no such toll: {n}"],
    ]
    return [side_by_side, f"paid {n}"]


def _told(me: str, step: str, value: Any, **more: Any) -> Any:
    """A body that tells, and returns a value."""

    def body(context: Any) -> Any:
        outside.tell(me, step, context.attempt, **more)
        return value

    return body


def _atold(me: str, step: str, value: Any, **more: Any) -> Any:
    async def body(context: Any) -> Any:
        outside.tell(me, step, context.attempt, **more)
        return value

    return body


# --- the functions that are invoked


@holdfast.plain_function
def toll(event: Any, context: Any) -> Any:
    """An ordinary function: called once, unless its process dies."""
    outside.tell(context.aws_request_id, "toll")
    return f"paid {event}"


@holdfast.plain_function
async def refusal(event: Any, context: Any) -> Any:
    """An ordinary function that fails."""
    outside.tell(context.aws_request_id, "refusal")
    raise LookupError(f"no such toll: {event}")


@holdfast.durable_execution
def leg(event: Any, context: Any) -> Any:
    """Steps of both kinds and an ordinary function: a child with a child."""
    me = who(context)
    first = context.step(_told(me, "ride", event + 1), name="ride")
    second = context.step(_told(me, "change", first + 1, once=True), name="change", config=ONCE)
    return [second, context.invoke("toll", event, name="toll")]


@holdfast.durable_execution
async def aleg(event: Any, context: Any) -> Any:
    """The same, awaiting."""
    me = who(context)
    first = await context.step(_atold(me, "ride", event + 1), name="ride")
    second = await context.step(_told(me, "change", first + 1, once=True), name="change", config=ONCE)
    return [second, await context.invoke("toll", event, name="toll")]


@holdfast.durable_execution
def relay(event: Any, context: Any) -> Any:
    """Several executions, one after the other, that stand for one."""
    lap = context.step(_told(who(context), "lap", event["lap"] + 1), name="lap")
    if lap < LAPS:
        context.continue_as_new({**event, "lap": lap})
    return [event["n"], lap]


@holdfast.durable_execution
async def arelay(event: Any, context: Any) -> Any:
    """The same, awaiting, and with a wait before each hand-over but the first."""
    lap = await context.step(_atold(who(context), "lap", event["lap"] + 1), name="lap")
    if lap == LAPS - 1:
        await context.wait(SECOND)
    if lap < LAPS:
        context.continue_as_new({**event, "lap": lap})
    return [event["n"], lap]


# --- a trip


class _Trip:
    """The branches of a `def` trip."""

    def __init__(self, event: Any, context: Any) -> None:
        self.n = int(event["n"])
        self.answered = bool(event["answered"])
        self.me = who(context)

    def legs(self, context: Any) -> Any:
        return [context.invoke("aleg", self.n, name="aleg"), context.invoke("leg", self.n, name="leg")]

    def nested(self, context: Any) -> Any:
        def inner(context: Any) -> Any:
            steps = [
                lambda child: child.step(_told(self.me, "ticket", f"ticket {self.n}", once=True), name="ticket", config=ONCE),
                lambda child: child.step(_told(self.me, "seat", f"seat {self.n}"), name="seat"),
            ]
            return context.parallel(steps, name="inner").get_results()

        def late(context: Any) -> Any:
            context.wait(SECOND)
            return context.step(_told(self.me, "late", f"late {self.n}"), name="late")

        pack = _told(self.me, "pack", f"pack {self.n}")
        return context.parallel([lambda child: child.step(pack, name="pack"), inner, late], name="nested").get_results()

    def looking(self, context: Any) -> Any:
        def look(state: int, check: Any) -> int:
            outside.tell(self.me, "look", check.attempt)
            return state + 1

        return context.wait_for_condition(look, LOOK, name="look")

    def stubborn(self, context: Any) -> Any:
        def block(context: Any, attempt: int) -> Any:
            tried = context.step(_told(self.me, f"try {attempt}", f"try {attempt}"), name=f"try {attempt}")
            if attempt < 2:
                raise ConnectionError("not yet")
            return tried

        return with_retry(context, block, AGAIN, name="stubborn")

    def racing(self, context: Any) -> Any:
        answer = context.create_callback(name="answer")
        timer = context.create_timer(HOUR if self.answered else SECOND, name="timer")
        more = {"callback": answer.callback_id} if self.answered else {}
        context.step(_told(self.me, "ask", None, **more), name="ask")
        if context.first_of([answer, timer], name="race") == 1:
            return "timer"
        timer.cancel()
        assert answer.result() == f"yes {self.me}"
        return "answer"

    def relayed(self, context: Any) -> Any:
        return context.invoke("arelay" if self.n // 2 % 2 else "relay", {"n": self.n, "lap": 0}, name="relay")

    def refused(self, context: Any) -> Any:
        try:
            return context.invoke("refusal", self.n, name="refusal")
        except InvokeError as error:
            return [error.error_type, error.message]

    def stop(self, context: Any, item: int, index: int, items: Any) -> Any:
        return context.step(_told(self.me, f"stop {index}", self.n + item), name=f"stop {index}")


@holdfast.durable_execution
def trip(event: Any, context: Any) -> Any:
    """In a `def` handler."""
    t = _Trip(event, context)
    branches = [t.legs, t.nested, t.looking, t.stubborn, t.racing, t.relayed, t.refused]
    side_by_side = context.parallel(branches, name="side by side", config=FEW if t.n % 8 < 2 else None).get_results()
    stops = context.map(range(STOPS), t.stop, name="stops", config=MAP)
    done = [[item.index, item.result] for item in stops.succeeded()]
    return [side_by_side, context.invoke("toll", t.n, name="toll"), stops.completion_reason.value, done]


class _ATrip:
    """The branches of an `async def` trip; some bodies are `def`, and run in threads."""

    def __init__(self, event: Any, context: Any) -> None:
        self.n = int(event["n"])
        self.answered = bool(event["answered"])
        self.me = who(context)

    async def legs(self, context: Any) -> Any:
        return [await context.invoke("aleg", self.n, name="aleg"), await context.invoke("leg", self.n, name="leg")]

    async def nested(self, context: Any) -> Any:
        async def inner(context: Any) -> Any:
            steps = [
                lambda child: child.step(_atold(self.me, "ticket", f"ticket {self.n}", once=True), name="ticket", config=ONCE),
                lambda child: child.step(_told(self.me, "seat", f"seat {self.n}"), name="seat"),
            ]
            return (await context.parallel(steps, name="inner")).get_results()

        async def late(context: Any) -> Any:
            await context.wait(SECOND)
            return await context.step(_atold(self.me, "late", f"late {self.n}"), name="late")

        pack = _atold(self.me, "pack", f"pack {self.n}")
        return (await context.parallel([lambda child: child.step(pack, name="pack"), inner, late], name="nested")).get_results()

    async def looking(self, context: Any) -> Any:
        async def look(state: int, check: Any) -> int:
            outside.tell(self.me, "look", check.attempt)
            return state + 1

        return await context.wait_for_condition(look, LOOK, name="look")

    async def stubborn(self, context: Any) -> Any:
        async def block(context: Any, attempt: int) -> Any:
            tried = await context.step(_atold(self.me, f"try {attempt}", f"try {attempt}"), name=f"try {attempt}")
            if attempt < 2:
                raise ConnectionError("not yet")
            return tried

        return await with_retry(context, block, AGAIN, name="stubborn")

    async def racing(self, context: Any) -> Any:
        answer = await context.create_callback(name="answer")
        timer = await context.create_timer(HOUR if self.answered else SECOND, name="timer")
        more = {"callback": answer.callback_id} if self.answered else {}
        await context.step(_told(self.me, "ask", None, **more), name="ask")
        if await context.first_of([answer, timer], name="race") == 1:
            return "timer"
        await timer.cancel()
        assert await answer.result() == f"yes {self.me}"
        return "answer"

    async def relayed(self, context: Any) -> Any:
        return await context.invoke("arelay" if self.n // 2 % 2 else "relay", {"n": self.n, "lap": 0}, name="relay")

    async def refused(self, context: Any) -> Any:
        try:
            return await context.invoke("refusal", self.n, name="refusal")
        except InvokeError as error:
            return [error.error_type, error.message]

    async def stop(self, context: Any, item: int, index: int, items: Any) -> Any:
        return await context.step(_atold(self.me, f"stop {index}", self.n + item), name=f"stop {index}")


@holdfast.durable_execution
async def atrip(event: Any, context: Any) -> Any:
    """In an `async def` handler."""
    t = _ATrip(event, context)
    branches = [t.legs, t.nested, t.looking, t.stubborn, t.racing, t.relayed, t.refused]
    side_by_side = (await context.parallel(branches, name="side by side", config=FEW if t.n % 8 < 2 else None)).get_results()
    stops = await context.map(range(STOPS), t.stop, name="stops", config=MAP)
    done = [[item.index, item.result] for item in stops.succeeded()]
    return [side_by_side, await context.invoke("toll", t.n, name="toll"), stops.completion_reason.value, done]


FUNCTIONS = [trip, atrip, leg, aleg, relay, arelay, toll, refusal]
