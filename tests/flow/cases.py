"""The table of cases: each handler is written once and runs on the official SDK and on ours with only its import root changed.

`make(sdk)` builds the `def` handler from whatever stands behind `sdk`; `twin(sdk)` is the same function as an `async def` one, which
only ours can run. Both must leave the same history.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import json
import threading
import uuid
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import msgspec
import pytest

from holdfast.durable.plain import plain_function
from holdfast.model.operations import Failure
from tests.flow.official.running import Answer, Beat, Deed, Fail
from tests.parts import one_of_each

OFFICIAL = "aws_durable_execution_sdk_python"
OURS = "holdfast.durable"
Decorator = Callable[[Callable[..., Any]], Any]


class Sdk:
    """One package under the official package's names."""

    def __init__(self, root: str) -> None:
        package = import_module(root)
        self.durable_execution: Decorator = package.durable_execution
        self.durable_step: Decorator = package.durable_step
        self.durable_with_child_context: Decorator = package.durable_with_child_context
        self.durable_wait_for_callback: Decorator = package.durable_wait_for_callback
        self.durable_parallel_branch: Callable[..., Decorator] = package.durable_parallel_branch
        self.with_retry: Any = package.with_retry
        self.config: Any = import_module(f"{root}.config")
        self.errors: Any = import_module(f"{root}.exceptions")
        self.retries: Any = import_module(f"{root}.retries")
        self.serdes: Any = import_module(f"{root}.serdes")
        self.waits: Any = import_module(f"{root}.waits")
        self.models: Any = import_module(f"{root}.concurrency.models")
        self.gate = threading.Event()
        """Opened by the driver once it has given the early answers."""

    def seconds(self, count: int) -> Any:
        """A duration."""
        return self.config.Duration.from_seconds(count)

    def retry(self, attempts: int, **settings: Any) -> Any:
        """A strategy without chance in it."""
        none = self.config.JitterStrategy.NONE
        made = self.retries.RetryStrategyConfig(max_attempts=attempts, initial_delay=self.seconds(2), jitter_strategy=none, **settings)
        return self.retries.create_retry_strategy(made)

    def step_config(self, attempts: int = 1, **settings: Any) -> Any:
        """A step's config with such a strategy."""
        return self.config.StepConfig(retry_strategy=self.retry(attempts), **settings)

    def flat(self, config: Any, **settings: Any) -> Any:
        """A map's or parallel's config without operations for the branches, one branch at a time."""
        return config(**{"max_concurrency": 1, **settings}, nesting_type=self.config.NestingType.FLAT)

    def condition(self, polling: Any, initial: Any, attempts: int = 9, **settings: Any) -> Any:
        """How a condition is polled: without chance, while `polling(state)`."""
        none = self.config.JitterStrategy.NONE
        made = self.waits.WaitStrategyConfig(polling, max_attempts=attempts, initial_delay=self.seconds(2), jitter_strategy=none)
        return self.waits.WaitForConditionConfig(self.waits.create_wait_strategy(made), initial, **settings)

    @property
    def at_most_once(self) -> Any:
        """The semantics."""
        return self.config.StepSemantics.AT_MOST_ONCE_PER_RETRY


Make = Callable[[Sdk], Any]


class Case(msgspec.Struct, kw_only=True):
    """One handler, what is done to it, and what must come of it."""

    name: str
    section: str = ""
    """Which part of the table it stands in: what it is about."""
    make: Make
    twin: Make | None = None
    event: Any = None
    script: dict[str, list[Deed]] = {}
    early: dict[str, Deed] = {}
    """Answers given while the handler still runs."""
    result: Any = None
    error: tuple[str, str] | None = None
    """The type and message that the execution fails with."""
    others: Make | None = None
    """Makes the functions it invokes, by name."""
    rests: int = 0
    """How often it waits for something outside."""
    side_by_side: bool = False
    """Branches race, so only the order within each branch is decided."""
    sooner: bool = False
    """The official SDK answers PENDING although its blocked branch could go on and nothing else is pending (its issue 213), and goes on
    with the next invocation, but on a busy machine it may go on in the same one. Our `def` branch goes on with the next invocation too; an
    `async def` branch goes on at once, with one invocation less."""
    stays: bool = False
    """What it invokes ends at once. Our `async def` parent stays live meanwhile, with fewer invocations; all other events are the same."""
    luck: bool = False
    """Several of the functions it invokes end at once, and how many invocations that takes is a matter of luck."""
    cut_off: bool = False
    """The handler ends inside an operation. Whether the START of that operation is still written is a race inside the official SDK,
    which drops what its background thread has not collected by then; ours always writes it."""


CASES: dict[str, Case] = {}
_section = ""


def case(**rest: Any) -> Callable[[Make], Make]:
    """Put a handler into the table; its name says what is shown."""

    def keep(make: Make) -> Make:
        name = make.__name__
        assert name not in CASES
        CASES[name] = Case(name=name, section=_section, make=make, **rest)
        return make

    return keep


def some_quick(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """A test for each case. In the quick part: of each section the first that rests and the first that does not."""
    return pytest.mark.parametrize("case", one_of_each(cases, kind=kind_of, name=lambda case: case.name))


def kind_of(case: Case) -> tuple[str, bool]:
    """What a case is about, and whether it waits for something outside."""
    return case.section, case.rests > 0


def twin(of: Make) -> Callable[[Make], Make]:
    """The `async def` form of a case."""

    def keep(make: Make) -> Make:
        assert CASES[of.__name__].twin is None
        CASES[of.__name__].twin = make
        return make

    return keep


def both(**rest: Any) -> Callable[[Callable[[Sdk, Decorator], Any]], None]:
    """Put a handler of both colours into the table, written once: `async def` functions under `coloured`, with `await now(call)`."""

    def keep(write: Callable[[Sdk, Decorator], Any]) -> None:
        name = write.__name__
        assert name not in CASES
        colours: tuple[Make, Make] = (lambda sdk: write(sdk, _as_def), lambda sdk: write(sdk, lambda func: func))
        CASES[name] = Case(name=name, section=_section, make=colours[0], twin=colours[1], **rest)

    return keep


async def now(value: Any) -> Any:
    """The answer of a durable call of either colour."""
    return await value if inspect.isawaitable(value) else value


def _as_def(func: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        coroutine = func(*arguments)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a def handler has nothing to await")

    call.__name__ = func.__name__
    return call


class Broken(Exception):
    """An error of a user's own."""


class Outer:
    class Inner(ValueError):
        """An error whose qualified name has a dot."""


# --- steps -------------------------------------------------------------------------------------------------------------------
_section = "steps"


@case(event={"a": 1}, result=[{"a": 1}, None, {"nested": [1, "two", None, {"three": 3.5}]}, True])
def steps_return_what_they_returned(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        one = context.step(lambda _: event, name="echo")
        two = context.step(lambda _: None, name="nothing")
        three = context.step(lambda _: {"nested": [1, "two", None, {"three": 3.5}]}, name="nested")
        return [one, two, three, context.step(lambda _: True)]

    return handler


@twin(steps_return_what_they_returned)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        async def echo(_: Any) -> Any:
            return event

        one = await context.step(echo, name="echo")
        two = await context.step(lambda _: None, name="nothing")
        three = await context.step(lambda _: {"nested": [1, "two", None, {"three": 3.5}]}, name="nested")
        return [one, two, three, await context.step(lambda _: True)]

    return handler


_RICH = {
    "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 1, 2),
    "price": decimal.Decimal("1.10"),
    "id": uuid.UUID(int=7),
    "raw": b"\x00\xff",
    "pair": (1, "x"),
    "deep": [{"t": "not a tag", "v": (None, [b""])}],
}


@case(result=[True, repr(_RICH)], rests=1)
def rich_values_survive_a_replay(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        before = context.step(lambda _: _RICH, name="rich")
        context.wait(sdk.seconds(1))
        return [before == _RICH, repr(before)]

    return handler


@twin(rich_values_survive_a_replay)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        before = await context.step(lambda _: _RICH, name="rich")
        await context.wait(sdk.seconds(1))
        return [before == _RICH, repr(before)]

    return handler


@case(event=[2, 3], result=[5, 6, "käse ✓"])
def a_durable_step_is_named_by_its_function(sdk: Sdk) -> Any:
    @sdk.durable_step
    def add(_: Any, a: int, b: int) -> int:
        return a + b

    @sdk.durable_step
    def text(_: Any) -> str:
        return "käse ✓"

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return [context.step(add(*event)), context.step(add(3, b=3), name="other name"), context.step(text())]

    return handler


@twin(a_durable_step_is_named_by_its_function)
def _(sdk: Sdk) -> Any:
    @sdk.durable_step
    async def add(_: Any, a: int, b: int) -> int:
        return a + b

    @sdk.durable_step
    def text(_: Any) -> str:
        return "käse ✓"

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return [await context.step(add(*event)), await context.step(add(3, b=3), name="other name"), await context.step(text())]

    return handler


def _third_time(context: Any) -> Any:
    if context.attempt < 3:
        raise Broken(f"attempt {context.attempt}")
    return context.attempt


@case(result=["before", 3, "after"], rests=2)
def a_step_is_retried_until_it_succeeds(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        before = context.step(lambda _: "before")
        flaky = context.step(_third_time, name="flaky", config=sdk.step_config(5))
        return [before, flaky, context.step(lambda _: "after")]

    return handler


@twin(a_step_is_retried_until_it_succeeds)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        async def third_time(step: Any) -> Any:
            return _third_time(step)

        before = await context.step(lambda _: "before")
        flaky = await context.step(third_time, name="flaky", config=sdk.step_config(5))
        return [before, flaky, await context.step(lambda _: "after")]

    return handler


def _always(_: Any) -> Any:
    raise Outer.Inner("no luck")


@case(result=["StepError", "no luck", "tests.flow.cases.Outer.Inner", "DurableOperationError", "no luck"], rests=2)
def exhausted_retries_can_be_caught(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        try:
            return context.step(_always, name="doomed", config=sdk.step_config(2))
        except sdk.errors.StepError as error:
            context.wait(sdk.seconds(5))
            cause: Any = error.__cause__
            return [type(error).__name__, str(error), error.error_type, type(cause).__name__, cause.message]

    return handler


@twin(exhausted_retries_can_be_caught)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        try:
            return await context.step(_always, name="doomed", config=sdk.step_config(2))
        except sdk.errors.StepError as error:
            await context.wait(sdk.seconds(5))
            cause: Any = error.__cause__
            return [type(error).__name__, str(error), error.error_type, type(cause).__name__, cause.message]

    return handler


@case(error=(f"{OFFICIAL}.exceptions.StepError", "no luck"))
def a_failed_step_that_nobody_catches_fails_the_execution(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.step(_always, name="doomed", config=sdk.step_config(1))

    return handler


@twin(a_failed_step_that_nobody_catches_fails_the_execution)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return await context.step(_always, name="doomed", config=sdk.step_config(1))

    return handler


@case(result=[["KeyError", "'k'"], ["tests.flow.cases.Broken", ""], ["UnicodeDecodeError", None], [None, "odd"]])
def errors_of_a_step_keep_their_type_and_message(sdk: Sdk) -> Any:
    def key(_: Any) -> Any:
        raise KeyError("k")

    def silent(_: Any) -> Any:
        raise Broken

    def decode(_: Any) -> Any:
        return b"\xff".decode()

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen = []
        for body in (key, silent, decode):
            try:
                context.step(body, config=sdk.step_config(1))
            except sdk.errors.StepError as error:
                seen.append([error.error_type, None if body is decode else error.message])
        return [*seen, [None, "odd"]]

    return handler


@case(result=["once", 2], rests=1)
def an_at_most_once_step_is_recorded_before_it_runs(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        once = context.step(lambda _: "once", name="once", config=sdk.config.StepConfig(step_semantics=sdk.at_most_once))
        return [once, context.step(_second_time, name="twice", config=sdk.step_config(3, step_semantics=sdk.at_most_once))]

    return handler


@twin(an_at_most_once_step_is_recorded_before_it_runs)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        once = await context.step(lambda _: "once", name="once", config=sdk.config.StepConfig(step_semantics=sdk.at_most_once))
        twice = await context.step(_second_time, name="twice", config=sdk.step_config(3, step_semantics=sdk.at_most_once))
        return [once, twice]

    return handler


def _second_time(context: Any) -> Any:
    if context.attempt < 2:
        raise TimeoutError("too slow")
    return context.attempt


def _reversing(sdk: Sdk) -> Any:
    class Reversing(sdk.serdes.SerDes):  # type: ignore[misc, name-defined]
        def serialize(self, value: Any, _: Any) -> str:
            return str(value)[::-1]

        def deserialize(self, data: str, _: Any) -> Any:
            return f"<{data[::-1]}>"

    return Reversing()


@case(result=["<abc>", "<abc>", "<abc>"], rests=1)
def a_serdes_of_its_own_is_used_on_the_first_run_and_on_replay(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.StepConfig(serdes=_reversing(sdk))
        first = context.step(lambda _: "abc", name="reversed", config=config)
        child = context.run_in_child_context(lambda _: "abc", config=sdk.config.ChildConfig(serdes=_reversing(sdk)))
        context.wait(sdk.seconds(1))
        return [first, child, context.step(lambda _: "abc", config=config)]

    return handler


@case(result=["SerDesError", "SerDesError"], rests=1)
def a_value_that_cannot_be_written_fails_its_step_without_a_retry(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen = []
        for wait in (True, False):
            try:
                context.step(lambda _: {1, 2}, name="a set", config=sdk.step_config(5))
            except Exception as error:
                seen.append(type(error).__name__)
            if wait:
                context.wait(sdk.seconds(1))
        return seen

    return handler


@twin(a_value_that_cannot_be_written_fails_its_step_without_a_retry)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        seen = []
        for wait in (True, False):
            try:
                await context.step(lambda _: {1, 2}, name="a set", config=sdk.step_config(5))
            except Exception as error:
                seen.append(type(error).__name__)
            if wait:
                await context.wait(sdk.seconds(1))
        return seen

    return handler


@case(result=["MyKind", "MyCallback"], script={"cb": [Answer("MyCallback")]}, rests=1)
def a_sub_type_of_ones_own_is_kept(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        kind = context.step(lambda _: "MyKind", config=sdk.config.StepConfig(sub_type="MyKind"))
        callback = context.create_callback("cb", sdk.config.CallbackConfig(sub_type="MyCallback"))
        context.run_in_child_context(lambda child: child.step(lambda _: 1), config=sdk.config.ChildConfig(sub_type="MyChild"))
        return [kind, callback.result()]

    return handler


# --- waits -------------------------------------------------------------------------------------------------------------------
_section = "waits"


@case(result="rested", rests=1)
def a_wait_suspends(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.wait(sdk.seconds(90), name="a while")
        return "rested"

    return handler


@twin(a_wait_suspends)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        await context.wait(sdk.seconds(90), name="a while")
        return "rested"

    return handler


@case(result=[0, 1, 2], rests=3)
def several_waits_come_one_after_the_other(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        done = []
        for index in range(3):
            context.wait(sdk.config.Duration.from_days(index + 1))
            done.append(context.step(lambda _, index=index: index))
        return done

    return handler


@twin(several_waits_come_one_after_the_other)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        done = []
        for index in range(3):
            await context.wait(sdk.config.Duration.from_days(index + 1))
            done.append(await context.step(lambda _, index=index: index))
        return done

    return handler


# --- callbacks ---------------------------------------------------------------------------------------------------------------
_section = "callbacks"


@case(result=["yes", True], script={"approval": [Answer("yes")]}, rests=1)
def a_callback_brings_its_answer_as_it_came(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        callback = context.create_callback("approval")
        handed_out = context.step(lambda _: callback.callback_id is not None, name="hand out")
        return [callback.result(), handed_out]

    return handler


@twin(a_callback_brings_its_answer_as_it_came)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        callback = await context.create_callback("approval")
        handed_out = await context.step(lambda _: callback.callback_id is not None, name="hand out")
        return [await callback.result(), handed_out]

    return handler


@case(result=[None, ""], script={"one": [Answer(None)], "two": [Answer("")]}, rests=2)
def an_empty_answer_is_not_no_answer(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return [context.create_callback("one").result(), context.create_callback("two").result()]

    return handler


@case(result={"n": 1}, script={"json": [Answer('{"n": 1}')]}, rests=1)
def a_callback_has_a_serdes_of_its_own(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(serdes=sdk.serdes.JsonSerDes())
        return context.create_callback("json", config).result()

    return handler


@twin(a_callback_has_a_serdes_of_its_own)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(serdes=sdk.serdes.JsonSerDes())
        return await (await context.create_callback("json", config)).result()

    return handler


_NO = Fail(Failure(message="not today", type="Denied", data='{"by": "boss"}', stack_trace=("line 1",)))


@case(
    result=["CallbackExternalError", "not today", '{"by": "boss"}', ["line 1"], "CallbackExternalError", "Callback failed"],
    script={"approval": [_NO], "silent": [Fail()]},
    rests=2,
)
def a_failed_callback_raises_where_its_result_is_asked_for(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        try:
            context.create_callback("approval").result()
        except sdk.errors.CallbackError as error:
            seen += [type(error).__name__, str(error), error.data, error.stack_trace]
        try:
            context.create_callback("silent").result()
        except sdk.errors.CallbackError as error:
            seen += [type(error).__name__, str(error)]
        return seen

    return handler


@twin(a_failed_callback_raises_where_its_result_is_asked_for)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        try:
            await (await context.create_callback("approval")).result()
        except sdk.errors.CallbackError as error:
            seen += [type(error).__name__, str(error), error.data, error.stack_trace]
        try:
            await (await context.create_callback("silent")).result()
        except sdk.errors.CallbackError as error:
            seen += [type(error).__name__, str(error)]
        return seen

    return handler


@case(error=(f"{OFFICIAL}.exceptions.CallbackTimeoutError", "Callback timed out"), rests=1)
def a_callback_times_out(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(timeout=sdk.seconds(60), heartbeat_timeout=sdk.seconds(600))
        return context.create_callback("late", config).result()

    return handler


@twin(a_callback_times_out)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(timeout=sdk.seconds(60), heartbeat_timeout=sdk.seconds(600))
        return await (await context.create_callback("late", config)).result()

    return handler


@case(
    result=["CallbackTimeoutError", "Callback timed out on heartbeat"],
    script={"slow": [Beat(8), Beat(8)]},
    rests=3,
)
def a_callback_times_out_when_its_heart_stops(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(timeout=sdk.seconds(60), heartbeat_timeout=sdk.seconds(10))
        try:
            return context.create_callback("slow", config).result()
        except sdk.errors.CallbackTimeoutError as error:
            return [type(error).__name__, str(error)]

    return handler


@twin(a_callback_times_out_when_its_heart_stops)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.CallbackConfig(timeout=sdk.seconds(60), heartbeat_timeout=sdk.seconds(10))
        try:
            return await (await context.create_callback("slow", config)).result()
        except sdk.errors.CallbackTimeoutError as error:
            return [type(error).__name__, str(error)]

    return handler


@case(result=["held", "early"], early={"approval": Answer("early")})
def an_early_answer_is_there_when_it_is_asked_for(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        callback = context.create_callback("approval")
        held = context.step(lambda _: sdk.gate.wait(20) and "held", name="hold", config=sdk.step_config(step_semantics=sdk.at_most_once))
        return [held, callback.result()]

    return handler


@twin(an_early_answer_is_there_when_it_is_asked_for)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        callback = await context.create_callback("approval")
        config = sdk.step_config(step_semantics=sdk.at_most_once)
        held = await context.step(lambda _: sdk.gate.wait(20) and "held", name="hold", config=config)
        return [held, await callback.result()]

    return handler


@case(result=["first", "second"], script={"b": [Answer("second")], "a": [Answer("first")]}, rests=2)
def callbacks_are_answered_in_any_order(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        first, second = context.create_callback("a"), context.create_callback("b")
        return [first.result(), second.result()]

    return handler


# --- wait_for_callback -------------------------------------------------------------------------------------------------------
_section = "wait_for_callback"


@case(
    result=["done", "named"],
    script={"review create callback id": [Answer("done")], "submit create callback id": [Answer("named")]},
    rests=2,
)
def wait_for_callback_submits_and_waits(sdk: Sdk) -> Any:
    @sdk.durable_wait_for_callback
    def submit(callback_id: str, context: Any, word: str) -> None:
        assert callback_id
        assert word == "please"

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return [context.wait_for_callback(lambda _, __: None, name="review"), context.wait_for_callback(submit("please"))]

    return handler


@twin(wait_for_callback_submits_and_waits)
def _(sdk: Sdk) -> Any:
    @sdk.durable_wait_for_callback
    async def submit(callback_id: str, context: Any, word: str) -> None:
        assert callback_id
        assert word == "please"

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        first = await context.wait_for_callback(lambda _, __: None, name="review")
        return [first, await context.wait_for_callback(submit("please"))]

    return handler


@case(result="ok", script={"create callback id": [Answer("ok")]}, rests=1)
def wait_for_callback_needs_no_name(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.wait_for_callback(lambda _, __: None)

    return handler


def _refuse(callback_id: str, context: Any) -> None:
    raise ConnectionError("no server there")


@case(result=["CallbackSubmitterError", "no server there", None, "after"], rests=2)
def a_submitter_that_fails_is_told_apart(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.WaitForCallbackConfig(retry_strategy=sdk.retry(2))
        try:
            return context.wait_for_callback(_refuse, name="call", config=config)
        except sdk.errors.CallbackSubmitterError as error:
            context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error), error.data, context.step(lambda _: "after")]

    return handler


@twin(a_submitter_that_fails_is_told_apart)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.WaitForCallbackConfig(retry_strategy=sdk.retry(2))
        try:
            return await context.wait_for_callback(_refuse, name="call", config=config)
        except sdk.errors.CallbackSubmitterError as error:
            await context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error), error.data, await context.step(lambda _: "after")]

    return handler


def _confused(error: Exception, attempt: int) -> Any:
    raise KeyError("strategy")


@case(result=["ChildContextError", "'strategy'", "after"], rests=1)
def an_error_of_the_submitters_retry_strategy_is_one_of_the_context(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        try:
            return context.wait_for_callback(_refuse, name="call", config=sdk.config.WaitForCallbackConfig(retry_strategy=_confused))
        except sdk.errors.ChildContextError as error:
            context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error), context.step(lambda _: "after")]

    return handler


@twin(an_error_of_the_submitters_retry_strategy_is_one_of_the_context)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        try:
            return await context.wait_for_callback(_refuse, name="call", config=sdk.config.WaitForCallbackConfig(retry_strategy=_confused))
        except sdk.errors.ChildContextError as error:
            await context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error), await context.step(lambda _: "after")]

    return handler


@case(error=(f"{OFFICIAL}.exceptions.CallbackExternalError", "not today"), script={"ask create callback id": [_NO]}, rests=1)
def an_external_failure_passes_through_wait_for_callback(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.wait_for_callback(lambda _, __: None, name="ask")

    return handler


@twin(an_external_failure_passes_through_wait_for_callback)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return await context.wait_for_callback(lambda _, __: None, name="ask")

    return handler


@case(result=["CallbackTimeoutError", "Callback timed out"], rests=2)
def a_timeout_passes_through_wait_for_callback(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.WaitForCallbackConfig(timeout=sdk.seconds(30))
        try:
            return context.wait_for_callback(lambda _, __: None, name="ask", config=config)
        except sdk.errors.CallbackTimeoutError as error:
            context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error)]

    return handler


@twin(a_timeout_passes_through_wait_for_callback)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.WaitForCallbackConfig(timeout=sdk.seconds(30))
        try:
            return await context.wait_for_callback(lambda _, __: None, name="ask", config=config)
        except sdk.errors.CallbackTimeoutError as error:
            await context.wait(sdk.seconds(1))
            return [type(error).__name__, str(error)]

    return handler


# --- child contexts ----------------------------------------------------------------------------------------------------------
_section = "child contexts"


@case(result=[{"deep": ["leaf", 2]}, "again"], rests=2)
def child_contexts_nest(sdk: Sdk) -> Any:
    @sdk.durable_with_child_context
    def inner(child: Any, word: str) -> Any:
        child.wait(sdk.seconds(1))
        return [child.step(lambda _: word, name="leaf"), 2]

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        def outer(child: Any) -> Any:
            child.step(lambda _: "first")
            return {"deep": child.run_in_child_context(inner("leaf"))}

        done = context.run_in_child_context(outer, name="outer")
        context.wait(sdk.seconds(1))
        return [done, context.step(lambda _: "again")]

    return handler


@twin(child_contexts_nest)
def _(sdk: Sdk) -> Any:
    @sdk.durable_with_child_context
    async def inner(child: Any, word: str) -> Any:
        await child.wait(sdk.seconds(1))
        return [await child.step(lambda _: word, name="leaf"), 2]

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        async def outer(child: Any) -> Any:
            await child.step(lambda _: "first")
            return {"deep": await child.run_in_child_context(inner("leaf"))}

        done = await context.run_in_child_context(outer, name="outer")
        await context.wait(sdk.seconds(1))
        return [done, await context.step(lambda _: "again")]

    return handler


@case(
    result=["ChildContextError", "broken inside", "tests.flow.cases.Broken", f"{OFFICIAL}.exceptions.StepError", "no luck"],
    rests=1,
)
def a_child_context_that_fails_can_be_caught(sdk: Sdk) -> Any:
    def broken(child: Any) -> Any:
        child.step(lambda _: 1)
        raise Broken("broken inside")

    def step_fails(child: Any) -> Any:
        return child.step(_always, config=sdk.step_config(1))

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        try:
            context.run_in_child_context(broken, name="broken")
        except sdk.errors.ChildContextError as error:
            seen += [type(error).__name__, str(error), error.error_type]
        context.wait(sdk.seconds(1))
        try:
            context.run_in_child_context(step_fails, name="step fails")
        except sdk.errors.ChildContextError as error:
            seen += [error.error_type, error.message]
        return seen

    return handler


@twin(a_child_context_that_fails_can_be_caught)
def _(sdk: Sdk) -> Any:
    async def broken(child: Any) -> Any:
        await child.step(lambda _: 1)
        raise Broken("broken inside")

    async def step_fails(child: Any) -> Any:
        return await child.step(_always, config=sdk.step_config(1))

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        try:
            await context.run_in_child_context(broken, name="broken")
        except sdk.errors.ChildContextError as error:
            seen += [type(error).__name__, str(error), error.error_type]
        await context.wait(sdk.seconds(1))
        try:
            await context.run_in_child_context(step_fails, name="step fails")
        except sdk.errors.ChildContextError as error:
            seen += [error.error_type, error.message]
        return seen

    return handler


_LARGE = 256 * 1024 + 1


@case(result=[_LARGE * 2, _LARGE, _LARGE - 3], rests=1)
def a_large_result_of_a_child_is_made_again_from_its_children(sdk: Sdk) -> Any:
    def large(child: Any) -> Any:
        half = child.step(lambda _: "x" * _LARGE, name="half")
        return half + child.run_in_child_context(lambda inner: inner.step(lambda _: "y" * _LARGE), name="rest")

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        first = context.run_in_child_context(large, name="large")
        config = sdk.config.ChildConfig(summary_generator=lambda value: f"{len(value)} characters")
        second = context.run_in_child_context(lambda _: "z" * _LARGE, config=config)
        fits = context.run_in_child_context(lambda _: "w" * (_LARGE - 3), name="just fits")
        context.wait(sdk.seconds(1))
        return [len(first), len(second), len(fits)]

    return handler


@twin(a_large_result_of_a_child_is_made_again_from_its_children)
def _(sdk: Sdk) -> Any:
    async def rest(inner: Any) -> Any:
        return await inner.step(lambda _: "y" * _LARGE)

    async def large(child: Any) -> Any:
        half = await child.step(lambda _: "x" * _LARGE, name="half")
        return half + await child.run_in_child_context(rest, name="rest")

    async def summed(_: Any) -> str:
        return "z" * _LARGE

    async def fitting(_: Any) -> str:
        return "w" * (_LARGE - 3)

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        first = await context.run_in_child_context(large, name="large")
        config = sdk.config.ChildConfig(summary_generator=lambda value: f"{len(value)} characters")
        second = await context.run_in_child_context(summed, config=config)
        fits = await context.run_in_child_context(fitting, name="just fits")
        await context.wait(sdk.seconds(1))
        return [len(first), len(second), len(fits)]

    return handler


@case(result=[[1, 2], 3], rests=1)
def a_virtual_child_leaves_no_operation(sdk: Sdk) -> Any:
    def both(child: Any) -> Any:
        one = child.step(lambda _: 1, name="one")
        child.wait(sdk.seconds(1))
        return [one, child.step(lambda _: 2, name="two")]

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.ChildConfig(is_virtual=True)
        return [context.run_in_child_context(both, name="virtual", config=config), context.step(lambda _: 3)]

    return handler


# --- parallel ----------------------------------------------------------------------------------------------------------------
_section = "parallel"


@case(result=[["a", {"b": 2}], "ALL_COMPLETED", 2], rests=1)
def branches_one_at_a_time_keep_the_order_of_events(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.ParallelConfig(max_concurrency=1)
        branches = [lambda b: b.step(lambda _: "a", name="a"), lambda b: b.step(lambda _: {"b": 2})]
        batch = context.parallel(branches, name="both", config=config)
        context.wait(sdk.seconds(1))
        return [batch.get_results(), batch.completion_reason.value, batch.total_count]

    return handler


@twin(branches_one_at_a_time_keep_the_order_of_events)
def _(sdk: Sdk) -> Any:
    async def a(branch: Any) -> Any:
        return await branch.step(lambda _: "a", name="a")

    async def b(branch: Any) -> Any:
        return await branch.step(lambda _: {"b": 2})

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        batch = await context.parallel([a, b], name="both", config=sdk.config.ParallelConfig(max_concurrency=1))
        await context.wait(sdk.seconds(1))
        return [batch.get_results(), batch.completion_reason.value, batch.total_count]

    return handler


@case(result=[["a", "b"], ["left", "right"]], side_by_side=True)
def branches_side_by_side(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [
            sdk.config.ParallelBranch(lambda b: b.step(lambda _: "a"), name="left"),
            sdk.config.ParallelBranch(lambda b: b.step(lambda _: "b"), name="right"),
        ]
        return [context.parallel(branches).get_results(), ["left", "right"]]

    return handler


@twin(branches_side_by_side)
def _(sdk: Sdk) -> Any:
    async def a(branch: Any) -> Any:
        return await branch.step(lambda _: "a")

    async def b(branch: Any) -> Any:
        return await branch.step(lambda _: "b")

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        branches = [sdk.config.ParallelBranch(a, name="left"), sdk.config.ParallelBranch(b, name="right")]
        return [(await context.parallel(branches)).get_results(), ["left", "right"]]

    return handler


@case(result=[["yes"], "FAILURE_TOLERANCE_EXCEEDED", ["StepError"]], side_by_side=True)
def a_branch_that_fails_ends_the_batch(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [lambda b: b.step(lambda _: "yes"), lambda b: b.step(_always, config=sdk.step_config(1))]
        batch = context.parallel(branches, config=sdk.config.ParallelConfig(max_concurrency=1))
        kinds = [(error.type or "").rsplit(".", 1)[-1] for error in batch.get_errors()]
        return [batch.get_results(), batch.completion_reason.value, kinds]

    return handler


@case(
    result=[["left", "right"], "ALL_COMPLETED"],
    script={"r create callback id": [Answer("right")], "l create callback id": [Answer("left")]},
    rests=2,
    side_by_side=True,
)
def branches_wait_for_callbacks(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [
            lambda b: b.wait_for_callback(lambda _, __: None, name="l"),
            lambda b: b.wait_for_callback(lambda _, __: None, name="r"),
        ]
        batch = context.parallel(branches, name="two")
        return [batch.get_results(), batch.completion_reason.value]

    return handler


@twin(branches_wait_for_callbacks)
def _(sdk: Sdk) -> Any:
    async def left(branch: Any) -> Any:
        return await branch.wait_for_callback(lambda _, __: None, name="l")

    async def right(branch: Any) -> Any:
        return await branch.wait_for_callback(lambda _, __: None, name="r")

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        batch = await context.parallel([left, right], name="two")
        return [batch.get_results(), batch.completion_reason.value]

    return handler


@case(result=[[1, 2], "ALL_COMPLETED"])
def flat_branches_leave_no_operations(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.ParallelConfig(max_concurrency=1, nesting_type=sdk.config.NestingType.FLAT)
        batch = context.parallel([lambda b: b.step(lambda _: 1), lambda b: b.step(lambda _: 2)], config=config)
        return [batch.get_results(), batch.completion_reason.value]

    return handler


# --- endings -----------------------------------------------------------------------------------------------------------------
_section = "endings"


@case(error=("tests.flow.cases.Broken", "all is lost"), rests=1)
def a_handler_that_raises_fails_the_execution(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.wait(sdk.seconds(1))
        raise Broken("all is lost")

    return handler


@twin(a_handler_that_raises_fails_the_execution)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        await context.wait(sdk.seconds(1))
        raise Broken("all is lost")

    return handler


@case(error=("TypeError", "Object of type set is not JSON serializable"))
def a_handler_whose_result_is_not_json_fails_the_execution(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.step(lambda _: 1)
        return {"a", "b"} and {1}

    return handler


@twin(a_handler_whose_result_is_not_json_fails_the_execution)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        await context.step(lambda _: 1)
        return {1}

    return handler


@case(result=None)
def a_handler_may_return_nothing_and_do_nothing(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return None

    return handler


_JUST_OVER = 6 * 1024 * 1024 - 40


@case(result="r" * _JUST_OVER)
def a_result_too_large_for_an_answer_is_kept(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.step(lambda _: "r") * _JUST_OVER

    return handler


@case(error=(f"{OFFICIAL}.exceptions.ValidationError", "duration must be at least 1 second"))
def a_wait_too_short_is_refused(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.step(lambda _: 1)
        context.wait(sdk.seconds(0))

    return handler


# --- corners -----------------------------------------------------------------------------------------------------------------
_section = "corners"


@case(result=[["left", "NOT_ALL"], "FAILURE_TOLERANCE_EXCEEDED", "after"], rests=1)
def a_batch_that_ends_early_leaves_its_other_branches_open(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [
            lambda b: b.step(lambda _: "left"),
            lambda b: b.step(_always, config=sdk.step_config(1)),
            lambda b: b.step(lambda _: "never"),
        ]
        batch = context.parallel(branches, config=sdk.config.ParallelConfig(max_concurrency=1))
        context.wait(sdk.seconds(1))
        return [[*batch.get_results(), "NOT_ALL"], batch.completion_reason.value, context.step(lambda _: "after")]

    return handler


@case(result=[["fast"], 1, 1, "MIN_SUCCESSFUL_REACHED", "after"], rests=1, side_by_side=True)
def the_first_branch_to_succeed_is_enough(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [lambda b: b.create_callback("never").result(), lambda b: b.step(lambda _: sdk.gate.wait(0.2) or "fast")]
        config = sdk.config.ParallelConfig(completion_config=sdk.config.CompletionConfig.first_successful())
        batch = context.parallel(branches, config=config)
        context.wait(sdk.seconds(1))
        after = context.step(lambda _: "after")
        return [batch.get_results(), batch.success_count, batch.started_count, batch.completion_reason.value, after]

    return handler


@case(result=[[], "ALL_COMPLETED", "max_concurrency must be at least 1"])
def parallel_of_nothing_and_parallel_of_nobody(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        batch = context.parallel([])
        try:
            context.parallel([lambda b: 1], config=sdk.config.ParallelConfig(max_concurrency=0))
        except sdk.errors.ValidationError:
            return [batch.get_results(), batch.completion_reason.value, "max_concurrency must be at least 1"]

    return handler


@case(result=[[_LARGE, 1], "ALL_COMPLETED", 2], rests=1)
def a_large_batch_is_made_again_from_its_branches(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [lambda b: b.step(lambda _: "x" * _LARGE), lambda b: b.step(lambda _: "y")]
        batch = context.parallel(branches, config=sdk.config.ParallelConfig(max_concurrency=1))
        context.wait(sdk.seconds(1))
        return [[len(text) for text in batch.get_results()], batch.completion_reason.value, batch.success_count]

    return handler


@case(result=[[[1, 2], [3, 4]]], side_by_side=True)
def parallel_nests(sdk: Sdk) -> Any:
    def pair(first: int) -> Any:
        def branch(context: Any) -> Any:
            return context.parallel([lambda b: b.step(lambda _: first), lambda b: b.step(lambda _: first + 1)]).get_results()

        return branch

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return [context.parallel([pair(1), pair(3)]).get_results()]

    return handler


@case(result=[True, True, False, False], rests=2)
def the_end_of_the_replay_is_seen_at_the_same_place(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen = [context.is_replaying()]
        context.step(lambda _: 1)
        context.wait(sdk.seconds(1))
        seen.append(context.is_replaying())
        context.wait(sdk.seconds(1))
        seen.append(context.is_replaying())
        context.step(lambda _: 2)
        return [*seen, context.is_replaying()]

    return handler


@case(result=["x", 1], script={"inside": [Answer("x")]}, rests=2)
def a_callback_outlives_the_child_that_made_it(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        kept: list[Any] = []

        def child(inner: Any) -> Any:
            kept.append(inner.create_callback("inside"))
            return kept[0].callback_id is not None

        def asking(inner: Any) -> Any:
            inner.wait(sdk.seconds(1))
            return kept[0].result()

        context.run_in_child_context(child, config=sdk.config.ChildConfig(is_virtual=True))
        return [context.run_in_child_context(asking), context.step(lambda _: 1)]

    return handler


@case(result=["x", "x"], script={"asked": [Answer("x")]}, rests=1)
def a_callback_can_be_asked_twice(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        callback = context.create_callback("asked")
        return [callback.result(), callback.result()]

    return handler


@case(result="left open")
def a_handler_may_leave_a_callback_open(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.create_callback("never asked")
        return "left open"

    return handler


@case(result=[["SerDesError", None], ["ChildContextError", "Broken"]], rests=1)
def children_that_fail_at_once(sdk: Sdk) -> Any:
    def broken(_: Any) -> Any:
        raise Broken("at once")

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        for body in (lambda _: {1}, broken):
            try:
                context.run_in_child_context(body)
            except Exception as error:
                kind = getattr(error, "error_type", "") or ""
                seen.append([type(error).__name__, "Broken" if kind.endswith("Broken") else None])
        context.wait(sdk.seconds(1))
        return seen

    return handler


@case(result=["ChildContextError", f"{OFFICIAL}.exceptions.CallbackTimeoutError", "CallbackTimeoutError"], rests=1)
def a_timeout_inside_a_child_is_known_outside(sdk: Sdk) -> Any:
    def waiting(child: Any) -> Any:
        return child.create_callback("late", sdk.config.CallbackConfig(timeout=sdk.seconds(5))).result()

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        try:
            context.run_in_child_context(waiting, name="waiting")
        except sdk.errors.ChildContextError as error:
            return [type(error).__name__, error.error_type, type(error.__cause__).__name__]

    return handler


@case(result=[f"{OFFICIAL}.exceptions.InvokeError", "d", ["s"], "StepError"])
def a_durable_error_raised_by_hand_keeps_its_fields(sdk: Sdk) -> Any:
    def body(_: Any) -> Any:
        raise sdk.errors.InvokeError("by hand", error_type="T", data="d", stack_trace=["s"])

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        try:
            context.step(body, config=sdk.step_config(1))
        except sdk.errors.StepError as error:
            return [error.error_type, error.data, error.stack_trace, type(error).__name__]

    return handler


@case(error=(f"{OFFICIAL}.exceptions.ExecutionError", "give up"), cut_off=True)
def an_execution_error_in_a_step_ends_everything(sdk: Sdk) -> Any:
    def body(_: Any) -> Any:
        raise sdk.errors.ExecutionError("give up")

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.run_in_child_context(lambda child: child.step(body, config=sdk.step_config(3)))

    return handler


@case(error=(f"{OFFICIAL}.exceptions.InvocationError", "again"), rests=8)
def an_invocation_error_is_tried_again_and_again(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.step(lambda _: 1)
        raise sdk.errors.InvocationError("again")

    return handler


@twin(an_invocation_error_is_tried_again_and_again)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        await context.step(lambda _: 1)
        raise sdk.errors.InvocationError("again")

    return handler


@case(error=("SystemExit", "3"), rests=8)
def leaving_the_process_is_a_crash(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        context.step(lambda _: 1)
        raise SystemExit(3)

    return handler


@case(error=("SystemExit", "3"), rests=8, cut_off=True)
def leaving_the_process_in_a_step_is_a_crash(sdk: Sdk) -> Any:
    def leave(_: Any) -> Any:
        raise SystemExit(3)

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.step(leave, name="leave")

    return handler


@case(error=("ZeroDivisionError", "integer division or modulo by zero"), cut_off=True)
def a_strategy_that_raises_fails_the_execution(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.config.StepConfig(retry_strategy=lambda error, attempt: 1 // 0)
        return context.step(_always, name="doomed", config=config)

    return handler


@case(result=[3, "<txet>"], script={"ask create callback id": [Answer("text")]}, rests=3)
def a_delay_below_a_second_is_a_second(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        again = sdk.retries.RetryDecision(should_retry=True, delay=sdk.config.Duration(0))
        third = context.step(_third_time, config=sdk.config.StepConfig(retry_strategy=lambda error, attempt: again))
        config = sdk.config.WaitForCallbackConfig(serdes=_reversing(sdk))
        return [third, context.wait_for_callback(lambda _, __: None, name="ask", config=config)]

    return handler


@case(result="SerDesError", script={"json": [Answer("not json")]}, rests=1)
def an_answer_that_cannot_be_read_is_the_handlers_problem(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        try:
            return context.create_callback("json", sdk.config.CallbackConfig(serdes=sdk.serdes.JsonSerDes())).result()
        except Exception as error:
            return type(error).__name__

    return handler


@case(result=[1, 2], rests=1)
def an_empty_name_is_no_name(sdk: Sdk) -> Any:
    @sdk.durable_step
    def named(_: Any) -> int:
        return 2

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        one = context.step(lambda _: 1, name="")
        context.wait(sdk.seconds(1), name="")
        return [one, context.step(named(), name="")]

    return handler


@case(result=["early", "held"], early={"approval": Answer("early")}, side_by_side=True, sooner=True)
def a_branch_is_answered_while_another_one_works(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        config = sdk.step_config(step_semantics=sdk.at_most_once)

        def held(branch: Any) -> Any:
            return branch.step(lambda _: sdk.gate.wait(20) and "held", name="hold", config=config)

        return context.parallel([lambda branch: branch.create_callback("approval").result(), held]).get_results()

    return handler


@twin(a_branch_is_answered_while_another_one_works)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.step_config(step_semantics=sdk.at_most_once)

        async def asking(branch: Any) -> Any:
            return await (await branch.create_callback("approval")).result()

        async def held(branch: Any) -> Any:
            return await branch.step(lambda _: sdk.gate.wait(20) and "held", name="hold", config=config)

        return (await context.parallel([asking, held])).get_results()

    return handler


@case(result=[3, "x"], rests=2)
def a_branch_retries_its_step(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        branches = [lambda b: b.step(_third_time, config=sdk.step_config(5)), lambda b: b.step(lambda _: "x")]
        return context.parallel(branches, config=sdk.config.ParallelConfig(max_concurrency=1)).get_results()

    return handler


@case(result=["x", None, "y"], rests=2, side_by_side=True)
def branches_wait_for_the_clock(sdk: Sdk) -> Any:
    def later(branch: Any) -> Any:
        branch.wait(sdk.seconds(20))
        return branch.step(lambda _: "y")

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.parallel([lambda b: b.step(lambda _: "x"), lambda b: b.wait(sdk.seconds(10)), later]).get_results()

    return handler


@twin(branches_wait_for_the_clock)
def _(sdk: Sdk) -> Any:
    async def now(branch: Any) -> Any:
        return await branch.step(lambda _: "x")

    async def soon(branch: Any) -> Any:
        return await branch.wait(sdk.seconds(10))

    async def later(branch: Any) -> Any:
        await branch.wait(sdk.seconds(20))
        return await branch.step(lambda _: "y")

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return (await context.parallel([now, soon, later])).get_results()

    return handler


# --- conditions --------------------------------------------------------------------------------------------------------------
_section = "conditions"


def _count(state: Any, context: Any) -> Any:
    return {"seen": state["seen"] + 1, "attempts": (*state["attempts"], context.attempt)}


_NONE_YET = {"seen": 0, "attempts": ()}
_EMPTY: list[Any] = [None, 0, "", []]


@case(result=["before", {"seen": 3, "attempts": [1, 2, 3]}, True, "after"], rests=3)
def a_condition_is_polled_until_it_is_met(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        before = context.step(lambda _: "before")
        config = sdk.condition(lambda state: state["seen"] < 3, _NONE_YET)
        state = context.wait_for_condition(_count, config, name="three seen")
        context.wait(sdk.seconds(1))
        return [before, state, state["attempts"] == (1, 2, 3), context.step(lambda _: "after")]

    return handler


@twin(a_condition_is_polled_until_it_is_met)
def _(sdk: Sdk) -> Any:
    async def count(state: Any, context: Any) -> Any:
        return _count(state, context)

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        before = await context.step(lambda _: "before")
        config = sdk.condition(lambda state: state["seen"] < 3, _NONE_YET)
        state = await context.wait_for_condition(count, config, name="three seen")
        await context.wait(sdk.seconds(1))
        return [before, state, state["attempts"] == (1, 2, 3), await context.step(lambda _: "after")]

    return handler


@case(result=[{"seen": 1, "attempts": [1]}, None, 0, "", []])
def a_condition_may_be_met_at_once(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        first = context.wait_for_condition(_count, sdk.condition(lambda _: False, _NONE_YET))
        states = [context.wait_for_condition(lambda state, _: state, sdk.condition(bool, empty)) for empty in _EMPTY]
        return [first, *states]

    return handler


@twin(a_condition_may_be_met_at_once)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        first = await context.wait_for_condition(_count, sdk.condition(lambda _: False, _NONE_YET))
        states = [await context.wait_for_condition(lambda state, _: state, sdk.condition(bool, empty)) for empty in _EMPTY]
        return [first, *states]

    return handler


@case(
    result=[
        ["WaitForConditionError", "no third look", "tests.flow.cases.Broken", "DurableOperationError"],
        [
            "WaitForConditionError",
            "wait_for_condition exhausted 2 attempts before the condition was met",
            f"{OFFICIAL}.exceptions.WaitForConditionError",
            "WaitForConditionError",
        ],
        ["WaitForConditionError", "integer division or modulo by zero", "ZeroDivisionError", "DurableOperationError"],
        ["WaitForConditionError", "give up", f"{OFFICIAL}.exceptions.ExecutionError", "DurableOperationError"],
    ],
    rests=4,
)
def a_condition_that_fails_is_final(sdk: Sdk) -> Any:
    def third(state: int, context: Any) -> int:
        if context.attempt == 3:
            raise Broken("no third look")
        return state + 1

    def give_up(state: Any, _: Any) -> Any:
        raise sdk.errors.ExecutionError("give up")

    asked: list[Any] = [
        ("check", third, sdk.condition(lambda _: True, 0)),
        ("patience", lambda state, _: state, sdk.condition(lambda _: True, 0, attempts=2)),
        ("strategy", lambda state, _: state, sdk.waits.WaitForConditionConfig(wait_strategy=lambda *_: 1 // 0, initial_state=0)),
        ("execution", give_up, sdk.condition(lambda _: True, 0)),
    ]

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        seen = []
        for name, check, config in asked:
            try:
                context.wait_for_condition(check, config, name)
            except sdk.errors.WaitForConditionError as error:
                seen.append([type(error).__name__, str(error), error.error_type, type(error.__cause__).__name__])
        context.wait(sdk.seconds(1))
        return seen

    return handler


@twin(a_condition_that_fails_is_final)
def _(sdk: Sdk) -> Any:
    async def third(state: int, context: Any) -> int:
        if context.attempt == 3:
            raise Broken("no third look")
        return state + 1

    async def give_up(state: Any, _: Any) -> Any:
        raise sdk.errors.ExecutionError("give up")

    asked: list[Any] = [
        ("check", third, sdk.condition(lambda _: True, 0)),
        ("patience", lambda state, _: state, sdk.condition(lambda _: True, 0, attempts=2)),
        ("strategy", lambda state, _: state, sdk.waits.WaitForConditionConfig(wait_strategy=lambda *_: 1 // 0, initial_state=0)),
        ("execution", give_up, sdk.condition(lambda _: True, 0)),
    ]

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        seen = []
        for name, check, config in asked:
            try:
                await context.wait_for_condition(check, config, name)
            except sdk.errors.WaitForConditionError as error:
                seen.append([type(error).__name__, str(error), error.error_type, type(error.__cause__).__name__])
        await context.wait(sdk.seconds(1))
        return seen

    return handler


@case(error=(f"{OFFICIAL}.exceptions.WaitForConditionError", "wait_for_condition exhausted 1 attempts before the condition was met"))
def a_condition_never_met_fails_the_execution(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.wait_for_condition(lambda state, _: state, sdk.condition(lambda _: True, 0, attempts=1), name="never")

    return handler


@twin(a_condition_never_met_fails_the_execution)
def _(sdk: Sdk) -> Any:
    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return await context.wait_for_condition(lambda state, _: state, sdk.condition(lambda _: True, 0, attempts=1), name="never")

    return handler


@case(result=["<<<a>b1>b2>", "SerDesError", {"looks": 2}], rests=3)
def a_conditions_state_goes_through_its_serdes(sdk: Sdk) -> Any:
    def meddling(state: Any, attempt: int) -> Any:
        more = state["looks"] < 2
        state["looks"] = 100
        decision = sdk.waits.WaitForConditionDecision
        return decision.continue_waiting(sdk.config.Duration(0)) if more else decision.stop_polling()

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        longer = sdk.condition(lambda state: len(state) < 8, "a", serdes=_reversing(sdk))
        kind = None
        text = context.wait_for_condition(lambda state, looking: f"{state}b{looking.attempt}", longer, name="text")
        try:
            context.wait_for_condition(lambda state, _: {1}, sdk.condition(lambda _: False, 0))
        except Exception as error:
            kind = type(error).__name__
        config = sdk.waits.WaitForConditionConfig(wait_strategy=meddling, initial_state={"looks": 0})
        looks = context.wait_for_condition(lambda state, _: {"looks": state["looks"] + 1}, config)
        context.wait(sdk.seconds(1))
        return [text, kind, looks]

    return handler


@twin(a_conditions_state_goes_through_its_serdes)
def _(sdk: Sdk) -> Any:
    def meddling(state: Any, attempt: int) -> Any:
        more = state["looks"] < 2
        state["looks"] = 100
        decision = sdk.waits.WaitForConditionDecision
        return decision.continue_waiting(sdk.config.Duration(0)) if more else decision.stop_polling()

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        longer = sdk.condition(lambda state: len(state) < 8, "a", serdes=_reversing(sdk))
        kind = None
        text = await context.wait_for_condition(lambda state, looking: f"{state}b{looking.attempt}", longer, name="text")
        try:
            await context.wait_for_condition(lambda state, _: {1}, sdk.condition(lambda _: False, 0))
        except Exception as error:
            kind = type(error).__name__
        config = sdk.waits.WaitForConditionConfig(wait_strategy=meddling, initial_state={"looks": 0})
        looks = await context.wait_for_condition(lambda state, _: {"looks": state["looks"] + 1}, config)
        await context.wait(sdk.seconds(1))
        return [text, kind, looks]

    return handler


@case(result=[["`check` is required for wait_for_condition", "`config` is required for wait_for_condition"], 1])
def a_condition_without_check_or_config_takes_no_place(sdk: Sdk) -> Any:
    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        said = []
        for check, config in ((None, sdk.condition(bool, 0)), (lambda state, _: state, None)):
            try:
                context.wait_for_condition(check, config)
            except sdk.errors.ValidationError as error:
                said.append(str(error))
        return [said, context.step(lambda _: 1)]

    return handler


@case(result=[3, 2], rests=2, side_by_side=True)
def branches_poll_beside_each_other(sdk: Sdk) -> Any:
    def polling(up_to: int) -> Any:
        return lambda branch: branch.wait_for_condition(lambda state, _: state + 1, sdk.condition(lambda state: state < up_to, 0))

    @sdk.durable_execution
    def handler(event: Any, context: Any) -> Any:
        return context.parallel([polling(3), polling(2)]).get_results()

    return handler


@twin(branches_poll_beside_each_other)
def _(sdk: Sdk) -> Any:
    def polling(up_to: int) -> Any:
        async def branch(context: Any) -> Any:
            return await context.wait_for_condition(lambda state, _: state + 1, sdk.condition(lambda state: state < up_to, 0))

        return branch

    @sdk.durable_execution
    async def handler(event: Any, context: Any) -> Any:
        return (await context.parallel([polling(3), polling(2)])).get_results()

    return handler


# --- map, and what it shares with parallel -----------------------------------------------------------------------------------
_section = "map, and what it shares with parallel"


def _told(batch: Any) -> Any:
    """A batch result in words."""
    items = [[item.index, item.status.value, item.result, item.error and (item.error.type or "").rsplit(".", 1)[-1]] for item in batch.all]
    return [items, batch.completion_reason.value, batch.status.value]


def _odd_fails(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def item(context: Any, item: Any, index: int, items: Any) -> Any:
        if item % 2:
            raise Broken(f"odd: {item}")
        return await now(context.step(lambda _: item * 10, name=f"times ten {index}"))

    return item


_S, _F, _T = "SUCCEEDED", "FAILED", "STARTED"


@both(result=[[["a", 0, 2], ["b", 1, 2]], "ALL_COMPLETED", 2, {"x": [1]}], rests=1)
def map_runs_a_function_for_every_item(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: str, index: int, items: Any) -> Any:
        return await now(context.step(lambda _: [item, index, len(items)]))

    @coloured
    async def rich(context: Any, item: Any, index: int, items: Any) -> Any:
        return {"x": [1]}

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        one = sdk.config.MapConfig(max_concurrency=1)
        batch = await now(context.map(["a", "b"], each, "letters", one))
        other = await now(context.map((None,), rich))
        await now(context.wait(sdk.seconds(1)))
        return [batch.get_results(), batch.completion_reason.value, batch.total_count, other.get_results()[0]]

    return handler


@both(result=[[10, 20, 30], [0, 10, 20]], rests=1, side_by_side=True)
def items_side_by_side(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        await now(context.wait(sdk.seconds(5)))
        return await now(context.step(lambda _: item * 10))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        first = await now(context.map([1, 2, 3], each, name="numbers"))
        return [first.get_results(), (await now(context.map(range(3), _odd_fails_not(coloured)))).get_results()]

    return handler


def _odd_fails_not(coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        return item * 10

    return each


@both(result=[1, 2, "ChildContextError", "Broken"], rests=1)
def items_are_named_by_their_namer(sdk: Sdk, coloured: Decorator) -> Any:
    def refuse(item: Any, index: int) -> str:
        raise Broken("no name")

    @coloured
    async def each(context: Any, item: str, index: int, items: Any) -> Any:
        return await now(context.step(lambda _: 1 if item else 2))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.MapConfig(max_concurrency=1, item_namer=lambda item, index: item and f"{item} {index}")
        batch = await now(context.map(["cheese", ""], each, config=config))
        await now(context.wait(sdk.seconds(1)))
        try:
            await now(context.map(["x"], each, config=sdk.config.MapConfig(item_namer=refuse)))
        except sdk.errors.ChildContextError as error:
            return [*batch.get_results(), type(error).__name__, error.error_type.rsplit(".", 1)[-1]]

    return handler


@both(result=[[0, 1, 2, 3, 4], ["item 0", "item 1", "item 2", "item 3", "item 4"]], rests=3, side_by_side=True)
def an_item_that_waits_keeps_its_place(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        await now(context.wait(sdk.seconds(5)))
        return item

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.MapConfig(max_concurrency=2, item_namer=lambda item, index: f"item {index}")
        batch = await now(context.map(range(5), each, config=config))
        return [batch.get_results(), [f"item {item.index}" for item in batch.all]]

    return handler


@both(
    result=[
        [[[0, _S, 0, None], [1, _F, None, "Broken"]], "FAILURE_TOLERANCE_EXCEEDED", _F],
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None], [3, _F, None, "Broken"]], "FAILURE_TOLERANCE_EXCEEDED", _F],
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None], [3, _F, None, "Broken"]], "ALL_COMPLETED", _F],
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None], [3, _F, None, "Broken"]], "FAILURE_TOLERANCE_EXCEEDED", _F],
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None]], "MIN_SUCCESSFUL_REACHED", _F],
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None], [3, _F, None, "Broken"]], "ALL_COMPLETED", _F],
        "odd: 1",
    ],
    rests=1,
)
def a_batch_has_seen_enough(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        enough = sdk.config.CompletionConfig
        tried = [
            enough(),
            enough(tolerated_failure_count=1),
            enough(tolerated_failure_percentage=50),
            enough(tolerated_failure_percentage=49.9),
            enough(min_successful=2, tolerated_failure_count=3),
            enough.all_completed(),
        ]
        told = []
        batch: Any = None
        for completion in tried:
            config = sdk.config.MapConfig(max_concurrency=1, completion_config=completion)
            batch = await now(context.map(range(4), _odd_fails(sdk, coloured), config=config))
            told.append(_told(batch))
        await now(context.wait(sdk.seconds(1)))
        try:
            batch.throw_if_error()
        except sdk.errors.ChildContextError as error:
            return [*told, error.message]

    return handler


@both(
    result=[
        [
            [["", None], ["", None], ["", None]],
            [["", _S], ["", None], ["", None]],
            [["", _S], ["", _F], ["", None]],
        ],
        [[[0, _S, 0, None], [1, _F, None, "Broken"]], "CUSTOM_COMPLETION_SUCCEEDED", _S],
        [[[0, _S, 0, None]], "CUSTOM_COMPLETION_FAILED", _F],
        "BatchCompletionError",
        [[["only", None]], [["only", _S]]],
        [[], "CUSTOM_COMPLETION_SUCCEEDED", _S],
    ]
)
def a_batch_ends_when_its_author_says(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def fine(context: Any) -> Any:
        return await now(context.step(lambda _: "fine"))

    def ending(at: int, outcome: str, seen: list[Any]) -> Any:
        def should_complete(status: Any) -> Any:
            seen.append([[item.name or "", item.status and item.status.value] for item in status.items])
            if status.completed_count < at:
                return sdk.config.continue_batch()
            return sdk.config.complete_batch(sdk.config.CompletionOutcome(outcome))

        return sdk.config.CompletionConfig(should_complete=should_complete)

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        seen: list[Any] = []
        two = sdk.config.MapConfig(max_concurrency=1, completion_config=ending(2, _S, seen))
        first = await now(context.map(range(3), _odd_fails(sdk, coloured), config=two))
        one = sdk.config.MapConfig(max_concurrency=1, completion_config=ending(1, _F, []))
        second = await now(context.map(range(3), _odd_fails(sdk, coloured), config=one))
        try:
            second.throw_if_error()
        except Exception as error:
            kind = type(error).__name__
            named: list[Any] = []
            only = sdk.config.ParallelConfig(completion_config=ending(5, _S, named))
            await now(context.parallel([sdk.config.ParallelBranch(fine, name="only")], config=only))
            nothing = sdk.config.MapConfig(completion_config=ending(0, _S, []))
            empty = await now(context.map([], _odd_fails(sdk, coloured), config=nothing))
            return [seen, _told(first), _told(second), kind, named, _told(empty)]

    return handler


@both(
    result=[
        [[], "ALL_COMPLETED", _S],
        ["min_successful cannot be greater than total items: 3 > 1"] * 2,
        "taken",
    ],
    rests=1,
)
def a_batch_of_nothing_and_a_batch_that_cannot_be(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        empty = await now(context.map([], _odd_fails(sdk, coloured), name="nothing"))
        completion = sdk.config.CompletionConfig(min_successful=3)
        said = []
        calls: list[Callable[[], Any]] = [
            lambda: context.map([0], _odd_fails(sdk, coloured), config=sdk.config.MapConfig(completion_config=completion)),
            lambda: context.parallel([None], config=sdk.config.ParallelConfig(completion_config=completion)),
        ]
        for call in calls:
            try:
                await now(call())
            except sdk.errors.ValidationError as error:
                said.append(str(error))
        await now(context.wait(sdk.seconds(1)))
        return [_told(empty), said, await now(context.step(lambda _: "taken"))]

    return handler


@both(
    result=[
        [[[0, _S, 0, None], [1, _F, None, "Broken"], [2, _S, 20, None]], "ALL_COMPLETED", _F],
        [[[0, _S, [1], None], [1, _S, [1], None]], "ALL_COMPLETED", _S],
    ],
    rests=2,
)
def flat_items_leave_no_operations(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def waiting(context: Any) -> Any:
        await now(context.wait(sdk.seconds(2), name="inside"))
        return (await now(context.map([1], _odd_fails_not(coloured), config=sdk.flat(sdk.config.MapConfig)))).success_count * [1]

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.flat(sdk.config.MapConfig, completion_config=sdk.config.CompletionConfig.all_completed())
        items = await now(context.map(range(3), _odd_fails(sdk, coloured), name="items", config=config))
        branches = await now(context.parallel([waiting, waiting], name="branches", config=sdk.flat(sdk.config.ParallelConfig)))
        return [_told(items), _told(branches)]

    return handler


def _whole(sdk: Sdk) -> Any:
    class Whole(sdk.serdes.SerDes):  # type: ignore[misc, name-defined]
        def serialize(self, value: Any, _: Any) -> str:
            return "whole " + json.dumps(value.to_dict())

        def deserialize(self, data: str, _: Any) -> Any:
            return sdk.models.BatchResult.from_dict(json.loads(data.removeprefix("whole ")))

    return Whole()


@both(
    result=[
        [[[0, _S, "<0>", None]], "ALL_COMPLETED", _S],
        [[[0, _S, "<fine>", None]], "ALL_COMPLETED", _S],
        [[[0, _S, "<fine>", None]], "ALL_COMPLETED", _S],
        "<BatchResult(all=[BatchItem(index=0, status=<BatchItemStatus.SUCCEEDED: 'SUCCEEDED'>, result='<0>', error=None)], "
        "completion_reason=<CompletionReason.ALL_COMPLETED: 'ALL_COMPLETED'>)>",
    ],
    rests=1,
)
def a_batch_and_its_branches_have_a_serdes_each(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def fine(context: Any) -> Any:
        return "fine"

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        each = {"item_serdes": _reversing(sdk), "serdes": _whole(sdk)}
        items = await now(context.map([0], _odd_fails(sdk, coloured), config=sdk.config.MapConfig(**each)))
        branches = await now(context.parallel([fine], config=sdk.config.ParallelConfig(**each)))
        flat = await now(context.parallel([fine], config=sdk.flat(sdk.config.ParallelConfig, **each)))
        one = await now(context.map([0], _odd_fails(sdk, coloured), config=sdk.config.MapConfig(serdes=_reversing(sdk))))
        await now(context.wait(sdk.seconds(1)))
        return [_told(items), _told(branches), _told(flat), one]

    return handler


@both(
    result=[
        [[[0, _S, _LARGE, None], [1, _F, None, "StepError"], [2, _S, 1, None]], "ALL_COMPLETED", _F],
        [[[0, _S, _LARGE, None], [1, _F, None, "StepError"], [2, _S, 1, None]], "ALL_COMPLETED", _F],
        [[[0, _S, _LARGE, None], [1, _F, None, "StepError"], [2, _S, 1, None]], "ALL_COMPLETED", _F],
    ],
    rests=2,
)
def a_large_batch_is_made_again_from_its_items(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, size: int, index: int, items: Any) -> Any:
        if not size:
            await now(context.step(_always, config=sdk.step_config(1)))
        return await now(context.step(lambda _: "x" * size))

    def branch(size: int) -> Any:
        @coloured
        async def sized(context: Any) -> Any:
            return await now(each(context, size, 0, ()))

        return sized

    def told(batch: Any) -> Any:
        items, *rest = _told(batch)
        return [[[index, status, result and len(result), error] for index, status, result, error in items], *rest]

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        sizes = [_LARGE, 0, 1]
        settled = {"max_concurrency": 1, "completion_config": sdk.config.CompletionConfig.all_completed()}
        summing = sdk.config.MapConfig(summary_generator=lambda batch: f"{batch.success_count} of {len(sizes)}", **settled)
        summed = await now(context.map(sizes, each, name="summed", config=summing))
        await now(context.wait(sdk.seconds(1)))
        plain = await now(context.parallel([branch(size) for size in sizes], name="plain", config=sdk.config.ParallelConfig(**settled)))
        flat = await now(context.map(sizes, each, name="flat", config=sdk.flat(sdk.config.MapConfig, **settled)))
        await now(context.wait(sdk.seconds(1)))
        return [told(summed), told(plain), told(flat)]

    return handler


@both(result=[[[0, _T, 0], [1, _S, _LARGE]], "MIN_SUCCESSFUL_REACHED", [0, 1], 2], rests=2, side_by_side=True)
def a_large_batch_remembers_who_had_not_finished(sdk: Sdk, coloured: Decorator) -> Any:
    runs: list[int] = []

    @coloured
    async def each(context: Any, size: int, index: int, items: Any) -> Any:
        runs.append(index)
        if not size:
            return await now((await now(context.create_callback("never"))).result())
        await now(context.wait(sdk.seconds(3)))
        return "x" * size

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        completion = sdk.config.CompletionConfig(min_successful=1)
        config = sdk.config.MapConfig(max_concurrency=2, completion_config=completion)
        batch = await now(context.map([0, _LARGE, 0], each, config=config))
        await now(context.wait(sdk.seconds(1)))
        items = [[item.index, item.status.value, len(item.result or "")] for item in batch.all]
        return [items, batch.completion_reason.value, sorted(set(runs) & {0, 1, 2} | {0, 1}), batch.total_count]

    return handler


@both(result=[[[0, 1], [10, 11]], [["a", "b"], ["c"]]], rests=1, side_by_side=True)
def batches_nest(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def inner(context: Any, item: int, index: int, items: Any) -> Any:
        await now(context.wait(sdk.seconds(1)))
        return item

    @coloured
    async def outer(context: Any, item: int, index: int, items: Any) -> Any:
        return (await now(context.map([item, item + 1], inner))).get_results()

    @coloured
    async def letters(context: Any, item: str, index: int, items: Any) -> Any:
        def said(letter: str) -> Any:
            @coloured
            async def branch(context: Any) -> Any:
                return await now(context.step(lambda _: letter))

            return branch

        return (await now(context.parallel([said(letter) for letter in item]))).get_results()

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        numbers = await now(context.map([0, 10], outer))
        return [numbers.get_results(), (await now(context.map(["ab", "c"], letters))).get_results()]

    return handler


@both(result=["Jane 1", "orders", "bare"], rests=1)
def a_parallel_branch_binds_its_arguments(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_parallel_branch(name="fetch user")
    @coloured
    async def user(context: Any, first: str, number: int) -> Any:
        return await now(context.step(lambda _: f"{first} {number}"))

    @sdk.durable_parallel_branch()
    @coloured
    async def orders(context: Any) -> Any:
        return "orders"

    @sdk.durable_parallel_branch("")
    @coloured
    async def bare(context: Any) -> Any:
        return "bare"

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.ParallelConfig(max_concurrency=1)
        batch = await now(context.parallel([user("Jane", 1), orders(), bare()], config=config))
        await now(context.wait(sdk.seconds(1)))
        return batch.get_results()

    return handler


@both(result=[False, False, False, False])
def a_new_item_of_an_old_batch_is_no_replay(sdk: Sdk, coloured: Decorator) -> Any:
    seen: dict[int, bool] = {}

    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        seen.setdefault(item, context.is_replaying())
        await now(context.wait(sdk.seconds(1)))
        return context.is_replaying()

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        batch = await now(context.map([0, 1], each, config=sdk.config.MapConfig(max_concurrency=1)))
        return [seen[0], seen[1], *batch.get_results()]

    return handler


# --- with_retry --------------------------------------------------------------------------------------------------------------
_section = "with_retry"


def _block(sdk: Sdk, coloured: Decorator, succeeds: int = 2) -> Any:
    @coloured
    async def block(context: Any, attempt: int) -> Any:
        first = await now(context.step(lambda _: f"first of {attempt}"))
        if attempt < succeeds:
            raise Broken(f"attempt {attempt}")
        await now(context.wait(sdk.seconds(4), name="inside"))
        return [first, attempt]

    return block


@both(result=[["first of 2", 2], ["first of 2", 2], ["first of 2", 2], "after"], rests=7)
def a_block_is_run_again_until_it_succeeds(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        block, made = _block(sdk, coloured), sdk.retries.WithRetryConfig
        named = await now(sdk.with_retry(context, block, made(sdk.retry(5)), name="block"))
        unnamed = await now(sdk.with_retry(context, block, made(sdk.retry(5)), ""))
        bare = await now(sdk.with_retry(context, block, made(sdk.retry(5), wrap_with_run_in_child_context=False), name="bare"))
        await now(context.wait(sdk.seconds(1)))
        return [named, unnamed, bare, await now(context.step(lambda _: "after"))]

    return handler


@both(
    result=[
        ["ChildContextError", "attempt 2", "tests.flow.cases.Broken"],
        ["Broken", "attempt 2", None],
        ["StepError", "no luck", "tests.flow.cases.Outer.Inner"],
        ["ChildContextError", "duration must be at least 1 second", f"{OFFICIAL}.exceptions.ValidationError"],
    ],
    rests=3,
)
def a_block_that_never_succeeds_raises_its_last_error(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def stubborn(context: Any, attempt: int) -> Any:
        await now(context.step(_always, config=sdk.step_config(1)))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        block, made = _block(sdk, coloured, succeeds=3), sdk.retries.WithRetryConfig
        at_once = sdk.retries.RetryDecision(should_retry=True, delay=sdk.config.Duration(0))
        tried = [
            (block, made(sdk.retry(2))),
            (block, made(sdk.retry(2), wrap_with_run_in_child_context=False)),
            (stubborn, made(sdk.retry(1), wrap_with_run_in_child_context=False)),
            (stubborn, made(lambda error, attempt: at_once)),
        ]
        said = []
        for body, config in tried:
            try:
                await now(sdk.with_retry(context, body, config))
            except Exception as error:
                said.append([type(error).__name__, str(error), getattr(error, "error_type", None)])
        await now(context.wait(sdk.seconds(1)))
        return said

    return handler


@both(result=["<['first of 2', 2]>", ["first of 2", 2], [["first of 2", 2]] * 2], rests=6, side_by_side=True)
def a_block_has_the_childs_config_and_may_be_a_branch(sdk: Sdk, coloured: Decorator) -> Any:
    made = sdk.retries.WithRetryConfig

    @coloured
    async def branch(context: Any) -> Any:
        return await now(sdk.with_retry(context, _block(sdk, coloured), made(sdk.retry(3)), name="in a branch"))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        block = _block(sdk, coloured)
        odd = sdk.config.ChildConfig(serdes=_reversing(sdk), sub_type="Odd")
        virtual = sdk.config.ChildConfig(is_virtual=True)
        first = await now(sdk.with_retry(context, block, made(sdk.retry(3), child_context_config=odd), name="odd"))
        second = await now(sdk.with_retry(context, block, made(sdk.retry(3), child_context_config=virtual)))
        return [first, second, (await now(context.parallel([branch, branch]))).get_results()]

    return handler


@both(
    result=[
        [[[0, _F, None, "SerDesError"]], "FAILURE_TOLERANCE_EXCEEDED", _F],
        [[[0, _F, None, "SerDesError"]], "FAILURE_TOLERANCE_EXCEEDED", _F],
        ["SerDesError", f"{OFFICIAL}.exceptions.SerDesError"],
        ["ChildContextError", "tests.flow.cases.Broken"],
    ],
    rests=1,
)
def a_batch_that_cannot_be_written_or_decided_fails(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def a_set(context: Any, item: int, index: int, items: Any) -> Any:
        return {item}

    def undecided(status: Any) -> Any:
        raise Broken("undecided")

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        made = sdk.config.MapConfig
        nested = await now(context.map([0], a_set))
        flat = await now(context.map([0], a_set, config=sdk.flat(made)))
        said = []
        completion = sdk.config.CompletionConfig(should_complete=undecided)
        for config in (made(serdes=sdk.serdes.JsonSerDes()), made(completion_config=completion)):
            try:
                await now(context.map([0], _odd_fails_not(coloured), config=config))
            except Exception as error:
                said.append([type(error).__name__, getattr(error, "error_type", None)])
        await now(context.wait(sdk.seconds(1)))
        return [_told(nested), _told(flat), *said]

    return handler


@both(result=[[200_000, 200_000], [200_001, 200_001]], rests=1)
def a_large_batch_may_hold_large_batches(sdk: Sdk, coloured: Decorator) -> Any:
    one = sdk.config.MapConfig(max_concurrency=1)

    @coloured
    async def inner(context: Any, size: int, index: int, items: Any) -> Any:
        return await now(context.step(lambda _: "x" * size))

    @coloured
    async def outer(context: Any, size: int, index: int, items: Any) -> Any:
        return (await now(context.map([size, size], inner, config=one))).get_results()

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        batch = await now(context.map([200_000, 200_001], outer, config=one))
        await now(context.wait(sdk.seconds(1)))
        return [[len(text) for text in texts] for texts in batch.get_results()]

    return handler


@both(error=(f"{OFFICIAL}.exceptions.ExecutionError", "over"))
def an_execution_error_in_an_item_ends_everything(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        await now(context.step(lambda _: item))
        raise sdk.errors.ExecutionError("over")

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        completion = sdk.config.CompletionConfig.all_completed()
        await now(context.map([0, 1], each, config=sdk.config.MapConfig(max_concurrency=1, completion_config=completion)))

    return handler


# --- invoke ------------------------------------------------------------------------------------------------------------------
_section = "invoke"

#
# What is invoked is always ours; a child that waits first cannot end before its parent's invocation has.


def _others(sdk: Sdk) -> dict[str, Any]:
    ours = Sdk(OURS)

    def made(name: str, work: Callable[[Any], Any]) -> Any:
        def child(event: Any, context: Any) -> Any:
            context.wait(ours.seconds(1))
            return context.step(lambda _: work(event), name="work", config=ours.step_config(1))

        child.__name__ = name
        return ours.durable_execution(child)

    def broken(event: Any) -> Any:
        raise Broken(f"no {event}")

    def twice(event: Any, context: Any) -> Any:
        return [event, event]

    def plainly_broken(event: Any, context: Any) -> Any:
        raise Broken(f"never {event}")

    functions = [made("echo", lambda event: {"got": event}), made("broken", broken), plain_function(twice), plain_function(plainly_broken)]
    return {function.name: function for function in functions}


@both(result=[{"got": {"a": [1, None]}}, {"got": None}, {"got": "text"}], rests=3, others=_others)
def an_invoked_functions_result_comes_back(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        one = await now(context.invoke("echo", {"a": [1, None]}, name="first"))
        two = await now(context.invoke("echo:$LATEST", None))
        three = await now(context.invoke("arn:aws:lambda:local:000000000000:function:echo:$LATEST", "text"))
        return [one, two, three]

    return handler


@both(
    result=[
        ["InvokeError", "no x", "aws_durable_execution_sdk_python.exceptions.StepError"],
        ["InvokeError", "never y", "tests.flow.cases.Broken"],
    ],
    rests=1,
    side_by_side=True,
    stays=True,
    others=_others,
)
def an_invoked_functions_failure_is_an_invoke_error(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        said = []
        for name, payload in (("broken", "x"), ("plainly_broken", "y")):
            try:
                await now(context.invoke(name, payload, name=name))
            except sdk.errors.InvokeError as error:
                said.append([type(error).__name__, str(error), error.error_type])
        return said

    return handler


@both(
    result=[
        ["InvokeError", "Function not found: unknown", "ResourceNotFoundException"],
        ["InvokeError", "Function not found: echo:7", "ResourceNotFoundException"],
    ],
    others=_others,
)
def what_nobody_hosts_cannot_be_invoked(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        said = []
        for name in ("unknown", "echo:7"):
            try:
                await now(context.invoke(name, {}))
            except sdk.errors.InvokeError as error:
                said.append([type(error).__name__, str(error), error.error_type])
        return said

    return handler


@both(result=[[1, 1], ["a", "a"]], side_by_side=True, stays=True, others=_others)
def a_plain_function_is_invoked_like_a_durable_one(sdk: Sdk, coloured: Decorator) -> Any:
    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        return [await now(context.invoke("twice", 1)), await now(context.invoke("twice", "a", name="again"))]

    return handler


@both(result=[{"got": 0}, {"got": 1}, {"got": 2}], rests=1, side_by_side=True, luck=True, others=_others)
def branches_invoke_side_by_side(sdk: Sdk, coloured: Decorator) -> Any:
    @coloured
    async def each(context: Any, item: int, index: int, items: Any) -> Any:
        return await now(context.invoke("echo", item, name=f"echo {item}"))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        return (await now(context.map([0, 1, 2], each))).get_results()

    return handler


@both(result=["<payload>", {"got": ">tluser<"}], rests=1, others=_others)
def an_invoke_has_serdes_for_both_ways(sdk: Sdk, coloured: Decorator) -> Any:
    class Ways(sdk.serdes.SerDes):  # type: ignore[misc, name-defined]
        def serialize(self, value: Any, serdes_context: Any) -> str:
            return json.dumps(">tluser<")

        def deserialize(self, data: str, serdes_context: Any) -> Any:
            return ["<payload>", json.loads(data)]

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        config = sdk.config.InvokeConfig(serdes_payload=Ways(), serdes_result=Ways(), tenant_id="tenant-1")
        return await now(context.invoke("echo", object(), config=config))

    return handler
