"""What a simulation runs: scripts, made by chance, of every kind of durable call; and the world outside, which sees what they do.

A script is a list of acts, each a list that begins with its kind and a name that no other act of the script has. One handler runs them all,
so a script is its input and a history tells which one it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from holdfast.durable.config import (
    CallbackConfig,
    CompletionConfig,
    Duration,
    InvokeConfig,
    MapConfig,
    ParallelConfig,
    StepConfig,
    StepSemantics,
    WaitForCallbackConfig,
)
from holdfast.durable.enqueue_refusal import EnqueueRefused
from holdfast.durable.exceptions import CallbackError, InvokeError, StepError
from holdfast.durable.execution import DurableFunction, durable_execution
from holdfast.durable.retries import RetryDecision
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.ids import Arn
from tests.simulation.loop import Died, current_process
from tests.simulation.queue_load import asked

Act = list[Any]
_SECOND: Final = Duration.from_seconds(1)
_TRIES: Final = 4
"""Attempts of a step that always fails."""
_TIMEOUTS: Final = (3, 30, 300)
_ID: Final = 36
"""The characters of an execution's id."""


class Body(NamedTuple):
    """A body that began."""

    execution: str
    step: str
    attempt: int
    once: bool
    order: int


class Saw(NamedTuple):
    """A result that a handler was given: from then on it stands."""

    execution: str
    step: str
    value: Any
    order: int


class Outside:
    """The world outside, where nothing can be undone. A dead process cannot reach it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._order = 0
        self.bodies: list[Body] = []
        self.seen: list[Saw] = []
        self.callbacks: list[str] = []
        self.on_asked: Callable[[str], None] = lambda callback_id: None
        """A person who is told of each callback."""

    def ran(self, execution: str, step: str, attempt: int, *, once: bool) -> None:
        """A body begins."""
        self.bodies.append(Body(execution, step, attempt, once, self._next(f"ran {execution[-4:]} {step} {attempt}")))

    def saw(self, execution: str, step: str, value: Any) -> None:
        """A handler has a step's result."""
        self.seen.append(Saw(execution, step, value, self._next(f"saw {execution[-4:]} {step}")))

    def asked(self, callback_id: str) -> None:
        """A person must answer this callback."""
        self._next("asked")
        self.callbacks.append(callback_id)
        self.on_asked(callback_id)

    def _next(self, line: str) -> int:
        if not current_process().alive:
            raise Died
        self._tell(line)
        self._order += 1
        return self._order


# --- making scripts


class ScriptMaker:
    """Makes scripts."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._names = 0

    def script(self, depth: int = 2) -> list[Act]:
        """A few acts; those that hold others are fewer the deeper they are."""
        return [self._act(depth) for _ in range(self._chance.randint(1, 4 if depth == 2 else 2))]

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _act(self, depth: int) -> Act:
        chance = self._chance
        kinds = ["step", "once", "flaky", "wait", "callback", "submit", "look", "race", "laps"]
        if depth:
            kinds += ["parallel", "parallel", "map", "invoke", "invoke", "child", "enqueue"]
        kind = chance.choice(kinds)
        name = self._name(kind)
        if kind in ("step", "once"):
            fails = chance.choice([0, 0, 0, 1, 2, 99])
            return ["step", name, kind == "once", fails, chance.choice([0, 0, 1, 20, 400, 5000])]
        if kind == "flaky":
            return ["step", name, chance.random() < 0.5, chance.randint(1, 2), 0]
        if kind in ("wait", "look", "laps"):
            return [kind, name, chance.randint(1, 4)]
        if kind in ("callback", "submit", "race"):
            return [kind, name, chance.choice(_TIMEOUTS)]
        if kind == "parallel":
            return [kind, name, [self.script(depth - 1) for _ in range(chance.randint(1, 4))], chance.choice([None, 1, 2])]
        if kind == "map":
            return [kind, name, chance.randint(1, 4), chance.choice([None, 2])]
        if kind == "invoke":
            return [kind, name, self.script(depth - 1), chance.random() < 0.7, chance.choice(["script", "script", "brief"])]
        if kind == "enqueue":
            how = asked(chance)
            del how["tenant"]  # a job has the tenant of the execution that enqueues it
            return [kind, name, self.script(depth - 1), how]
        return [kind, name, self.script(depth - 1)]


# --- playing them


def _again(error: Exception, attempt: int) -> RetryDecision:
    return RetryDecision(should_retry=attempt < 1000, delay=_SECOND)


def _a_few_times(error: Exception, attempt: int) -> RetryDecision:
    return RetryDecision(should_retry=attempt < _TRIES, delay=_SECOND)


class ScriptHandlers:
    """The functions of a simulation. Their processes share nothing but the world outside."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self.functions: list[DurableFunction] = [
            durable_execution(name="script")(self._script),
            durable_execution(name="brief", execution_timeout=20)(self._script),
            durable_execution(name="lap")(self._lap),
        ]

    async def _script(self, event: Any, context: Any) -> Any:
        return await self._acts(event, context)

    async def _acts(self, acts: list[Act], context: Any) -> list[Any]:
        return [await getattr(self, f"_{act[0]}")(context, *act[1:]) for act in acts]

    async def _lap(self, event: Any, context: Any) -> Any:
        left = await self._body(context, "lap", event["left"] - 1)
        if left > 0:
            context.continue_as_new({**event, "left": left})
        return event["name"]

    async def _body(self, context: Any, name: str, value: Any, *, config: StepConfig | None = None, fails: int = 0, ms: int = 0) -> Any:
        me = _who(context)
        config = config or StepConfig(retry_strategy=_again)
        once = config.step_semantics is StepSemantics.AT_MOST_ONCE_PER_RETRY

        async def body(step: Any) -> Any:
            self._outside.ran(me, name, step.attempt, once=once)
            if ms:
                await asyncio.sleep(ms / 1000)
            if step.attempt <= fails:
                raise ConnectionError("not yet")
            return value

        result = await context.step(body, name=name, config=config)
        self._outside.saw(me, name, result)
        return result

    async def _step(self, context: Any, name: str, once: bool, fails: int, ms: int) -> Any:
        semantics = StepSemantics.AT_MOST_ONCE_PER_RETRY if once else StepSemantics.AT_LEAST_ONCE_PER_RETRY
        config = StepConfig(retry_strategy=_a_few_times if fails > _TRIES else _again, step_semantics=semantics)
        try:
            return await self._body(context, name, name, config=config, fails=fails, ms=ms)
        except StepError:
            return f"{name} failed"

    async def _wait(self, context: Any, name: str, seconds: int) -> str:
        await context.wait(Duration.from_seconds(seconds), name=name)
        return name

    async def _callback(self, context: Any, name: str, timeout: int) -> Any:
        callback = await context.create_callback(name, CallbackConfig(timeout=Duration.from_seconds(timeout)))
        self._outside.asked(callback.callback_id)  # before the execution waits for it
        await self._body(context, f"{name}-ask", None)
        try:
            return await callback.result()
        except CallbackError:
            return f"no {name}"

    async def _submit(self, context: Any, name: str, timeout: int) -> Any:
        async def submit(callback_id: str, _: Any) -> None:
            self._outside.asked(callback_id)

        config = WaitForCallbackConfig(timeout=Duration.from_seconds(timeout), retry_strategy=_again)
        try:
            return await context.wait_for_callback(submit, name=name, config=config)
        except CallbackError:
            return f"no {name}"

    async def _race(self, context: Any, name: str, seconds: int) -> Any:
        callback = await context.create_callback(f"{name}-answer")
        timer = await context.create_timer(Duration.from_seconds(seconds), name=f"{name}-timer")
        self._outside.asked(callback.callback_id)
        if await context.first_of([callback, timer], name=name) == 1:
            return f"no {name}"
        await timer.cancel()
        try:
            return await callback.result()
        except CallbackError:
            return f"no {name}"

    async def _look(self, context: Any, name: str, times: int) -> str:
        me = _who(context)

        async def check(seen: int, looking: Any) -> int:
            self._outside.ran(me, name, looking.attempt, once=False)
            return seen + 1

        def strategy(seen: int, attempts: int) -> WaitForConditionDecision:
            return WaitForConditionDecision(should_continue=seen < times, delay=_SECOND)

        seen = await context.wait_for_condition(check, WaitForConditionConfig(strategy, initial_state=0), name=name)
        return name if seen == times else f"{name} saw {seen}"

    async def _parallel(self, context: Any, name: str, scripts: list[list[Act]], most: int | None) -> Any:
        branches = [lambda child, script=script: self._acts(script, child) for script in scripts]
        return (await context.parallel(branches, name=name, config=ParallelConfig(max_concurrency=most))).get_results()

    async def _map(self, context: Any, name: str, count: int, most: int | None) -> str:
        async def item(child: Any, value: int, index: int, items: Any) -> Any:
            return await self._body(child, f"{name}-{index}", value, ms=value * 7)

        config: MapConfig[int] = MapConfig(max_concurrency=most, completion_config=CompletionConfig(min_successful=(count + 1) // 2))
        done = await context.map(range(count), item, name=name, config=config)
        return name if all(one.result == one.index for one in done.succeeded()) else f"{name} mixed its items up"

    async def _child(self, context: Any, name: str, script: list[Act]) -> Any:
        return await context.run_in_child_context(lambda child: self._acts(script, child), name=name)

    async def _invoke(self, context: Any, name: str, script: list[Act], cascade: bool, function: str) -> Any:
        try:
            return await context.invoke(function, script, name=name, config=InvokeConfig(cascade=cascade))
        except InvokeError:
            return f"{name} ended badly"

    async def _enqueue(self, context: Any, name: str, script: list[Act], how: dict[str, Any]) -> Any:
        try:
            return await context.enqueue("script", script, name=name, **how)
        except EnqueueRefused as refused:
            return f"no {name}" if refused.is_overloaded else str(refused)

    async def _laps(self, context: Any, name: str, count: int) -> Any:
        try:
            return await context.invoke("lap", {"name": name, "left": count}, name=name)
        except InvokeError:
            return f"{name} ended badly"


def _who(context: Any) -> str:
    return Arn.parse(context.execution_context.durable_execution_arn).id


# --- expected results


def is_right(acts: list[Act], result: Any, answers: set[str]) -> bool:
    """Whether a script has the result that it must have; `answers` are the texts that callers have sent."""
    return isinstance(result, list) and len(result) == len(acts) and all(map(lambda a, r: _is_right(a, r, answers), acts, result))


def _is_right(act: Act, result: Any, answers: set[str]) -> bool:
    kind, name = act[0], act[1]
    if kind == "step":
        return bool(result == (f"{name} failed" if act[3] > _TRIES else name))
    if kind == "enqueue":
        return bool(result == f"no {name}" or (isinstance(result, str) and len(result) == _ID))
    if kind in ("callback", "submit", "race"):
        return result == f"no {name}" or result in answers
    if kind == "parallel":
        return len(result) == len(act[2]) and all(is_right(script, one, answers) for script, one in zip(act[2], result, strict=True))
    if kind == "child":
        return is_right(act[2], result, answers)
    if kind == "invoke":
        return result == f"{name} ended badly" or is_right(act[2], result, answers)
    return bool(result == name or (kind == "laps" and result == f"{name} ended badly"))
