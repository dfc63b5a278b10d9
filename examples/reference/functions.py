"""Durable functions.

A durable function is a handler with a context. Each call on the context is an operation: it is recorded once, and a replay gets its
result from the record. `DurableContext` is the context of a `def` handler. `AsyncDurableContext` is the context of an `async def`
handler; it has the same calls with the same arguments, and each call that waits is awaited.
"""

import asyncio
from typing import Any

from holdfast import (
    AsyncDurableContext,
    CallbackConfig,
    DurableContext,
    Duration,
    MapConfig,
    RunResponse,
    StepContext,
    WorkerError,
    durable_execution,
    durable_parallel_branch,
    durable_step,
    durable_wait_for_callback,
    durable_with_child_context,
    plain_function,
    with_retry,
)
from holdfast.durable import ParallelBranch, WithRetryConfig, types
from holdfast.durable.config import CompletionConfig
from holdfast.durable.context import AsyncCallback, AsyncTimer, Callback, Invocable, Timer
from holdfast.durable.execution import DurableFunction
from holdfast.durable.retries import RetryPresets
from holdfast.durable.types import OperationContext, WaitForCallbackContext, WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig, WaitStrategyConfig, create_wait_strategy
from holdfast.testing import Runner


def run(function: DurableFunction, event: Any = None, **more: Any) -> Any:
    """Run a function on an engine in memory, where no wait takes time."""
    with Runner(function, **more) as runner:
        return runner.run(event).result


# --- durable_execution, DurableFunction
@durable_execution(name="hello", execution_timeout=3600, retention_days=7)
def say_hello(event: Any, context: DurableContext) -> str:
    return f"hello {event['to']}"


assert isinstance(say_hello, DurableFunction)
assert say_hello.name == "hello"
assert run(say_hello, {"to": "Ada"}) == "hello Ada"


# --- DurableContext
@durable_execution
def order(event: Any, context: DurableContext) -> str:
    receipt = context.step(lambda step: f"receipt-{event['id']}", name="charge")
    context.wait(Duration.from_days(14), name="return period")
    context.logger.info("the return period of %s is over", event["id"])
    return receipt


assert run(order, {"id": 42}) == "receipt-42"


# --- AsyncDurableContext
@durable_execution
async def orders(event: Any, context: AsyncDurableContext) -> list[str]:
    async def charge(step: StepContext) -> str:
        await asyncio.sleep(0)
        return f"receipt-{event['id']}"

    async def pack(child: AsyncDurableContext, item: str, index: int, items: Any) -> str:
        return await child.step(lambda step: f"packed {item}", name="pack")

    receipt = await context.step(charge, name="charge")
    await context.wait(Duration.from_days(14), name="return period")
    packed = await context.map(["tea", "cups"], pack, name="items")
    return [receipt, *packed.get_results()]


assert run(orders, {"id": 42}) == ["receipt-42", "packed tea", "packed cups"]


# --- DurableContext.step, StepContext, OperationContext
def charge_card(step: StepContext) -> str:
    assert isinstance(step, OperationContext)
    step.logger.info("attempt %s", step.attempt)
    return "receipt-1"


@durable_execution
def charging(event: Any, context: DurableContext) -> str:
    return context.step(charge_card, name="charge")


assert run(charging) == "receipt-1"


# --- durable_step
@durable_step
def add(step: StepContext, left: int, right: int) -> int:
    return left + right


@durable_execution
def adding(event: Any, context: DurableContext) -> int:
    return context.step(add(2, 3))


assert run(adding) == 5


# --- DurableContext.wait
@durable_execution
def reminder(event: Any, context: DurableContext) -> str:
    context.wait(Duration.from_days(30), name="a month")
    return "time to pay"


assert run(reminder) == "time to pay"


# --- DurableContext.create_callback, Callback
@durable_execution
def approval(event: Any, context: DurableContext) -> Any:
    callback: Callback[Any] = context.create_callback(name="approval", config=CallbackConfig(timeout=Duration.from_days(2)))
    context.step(lambda step: f"mail with {callback.callback_id}", name="ask")
    return callback.result()


with Runner(approval) as runner:
    arn = runner.run_async()
    runner.send_callback_success(runner.wait_for_callback(arn, "approval"), "yes")
    assert runner.wait_for_result(arn).result == "yes"


# --- AsyncCallback, AsyncTimer
@durable_execution
async def approval_or_not(event: Any, context: AsyncDurableContext) -> str:
    callback: AsyncCallback[Any] = await context.create_callback(name="approval")
    timer: AsyncTimer = await context.create_timer(Duration.from_days(2), name="patience")
    if await context.first_of([callback, timer]) == 1:
        return "no answer"
    await timer.cancel()
    return f"the answer is {await callback.result()}"


assert run(approval_or_not) == "no answer"


# --- DurableContext.wait_for_callback, WaitForCallbackContext
def send_mail(callback_id: str, context: WaitForCallbackContext) -> None:
    context.logger.info("please answer %s", callback_id)


@durable_execution
def asking(event: Any, context: DurableContext) -> Any:
    return context.wait_for_callback(send_mail, name="approval")


with Runner(asking) as runner:
    arn = runner.run_async()
    runner.send_callback_success(runner.wait_for_callback(arn), "yes")
    assert runner.wait_for_result(arn).result == "yes"


# --- durable_wait_for_callback
@durable_wait_for_callback
def send_mail_to(callback_id: str, context: WaitForCallbackContext, address: str) -> None:
    context.logger.info("to %s: please answer %s", address, callback_id)


@durable_execution
def asking_ada(event: Any, context: DurableContext) -> Any:
    return context.wait_for_callback(send_mail_to("ada@example.com"), name="approval")


with Runner(asking_ada) as runner:
    arn = runner.run_async()
    runner.send_callback_success(runner.wait_for_callback(arn), "yes")
    assert runner.wait_for_result(arn).result == "yes"


# --- DurableContext.wait_for_condition, WaitForConditionCheckContext
def look(state: dict[str, int], check: WaitForConditionCheckContext) -> dict[str, int]:
    return {"looked": check.attempt}  # ask the other side here


@durable_execution
def polling(event: Any, context: DurableContext) -> dict[str, int]:
    strategy = create_wait_strategy(WaitStrategyConfig[dict[str, int]](lambda state: state["looked"] < 3))
    return context.wait_for_condition(look, WaitForConditionConfig(strategy, initial_state={"looked": 0}), name="shipped")


assert run(polling) == {"looked": 3}


# --- DurableContext.run_in_child_context
@durable_execution
def packing(event: Any, context: DurableContext) -> str:
    def warehouse(child: DurableContext) -> str:
        box = child.step(lambda step: "box 7", name="box")
        return child.step(lambda step: f"{box}, labelled", name="label")

    return context.run_in_child_context(warehouse, name="warehouse")


assert run(packing) == "box 7, labelled"


# --- durable_with_child_context
@durable_with_child_context
def pack(child: DurableContext, item: str) -> str:
    return child.step(lambda step: f"{item} in a box", name="box")


@durable_execution
def packing_tea(event: Any, context: DurableContext) -> str:
    return context.run_in_child_context(pack("tea"))


assert run(packing_tea) == "tea in a box"


# --- DurableContext.invoke, plain_function, Invocable
@plain_function
def tax(event: Any, context: Any) -> int:
    return int(event["cents"]) // 5


called: Invocable = tax  # a durable function is one, too; or give a name


@durable_execution
def billing(event: Any, context: DurableContext) -> int:
    taxes: int = context.invoke(called, {"cents": 500}, name="tax")
    return 500 + taxes


assert run(billing, functions=[tax]) == 600


# --- DurableContext.enqueue
@plain_function
def welcome(event: Any, context: Any) -> str:
    return f"welcome {event['name']}"


@durable_execution
def signing_up(event: Any, context: DurableContext) -> str:
    context.step(lambda step: "saved", name="save user")
    return context.enqueue(welcome, {"name": "Ada"}, queue="emails", key="customer-7", name="welcome later")  # it does not wait


assert len(run(signing_up, functions=[welcome])) > 20  # the id of the execution that waits in the queue


# --- DurableContext.run, RunResponse
@durable_execution
def publishing(event: Any, context: DurableContext) -> list[Any]:
    page: RunResponse = context.run("web-scrape-worker", {"url": event["url"]}, name="scrape")
    draft = context.run("writer@2.0", {"page": page.outputs}, constraints={"timeout_seconds": 30}, check=False)
    return [page.outputs, page.usage.tool_calls, draft.status]


stubs = {"web-scrape-worker": {"title": "Skerry"}, "writer@2.0": WorkerError("too_short", "Nothing to write about.")}
assert run(publishing, {"url": "https://lighthouse.example"}, workers=stubs) == [{"title": "Skerry"}, 0, "permanent_error"]


# --- DurableContext.create_timer, DurableContext.first_of, Timer
@durable_execution
def patience(event: Any, context: DurableContext) -> str:
    answer = context.create_callback(name="answer")
    timer: Timer = context.create_timer(Duration.from_hours(1), name="patience")
    if context.first_of([answer, timer]) == 0:
        timer.cancel()
        return "answered"
    return "too late"


assert run(patience) == "too late"


# --- DurableContext.parallel, ParallelBranch
@durable_execution
def both(event: Any, context: DurableContext) -> list[str]:
    def left(branch: DurableContext) -> str:
        return branch.step(lambda step: "left", name="work")

    def right(branch: DurableContext) -> str:
        return branch.step(lambda step: "right", name="work")

    return context.parallel([ParallelBranch(left, "left"), ParallelBranch(right, "right")], name="both").get_results()


assert run(both) == ["left", "right"]


# --- durable_parallel_branch
@durable_parallel_branch(name="greet")
def greet(branch: DurableContext, who: str) -> str:
    return branch.step(lambda step: f"hello {who}", name="say")


@durable_execution
def greetings(event: Any, context: DurableContext) -> list[str]:
    return context.parallel([greet("Ada"), greet("Alan")]).get_results()


assert run(greetings) == ["hello Ada", "hello Alan"]


# --- DurableContext.map
def double(branch: DurableContext, item: int, index: int, items: Any) -> int:
    return branch.step(lambda step: item * 2, name="double")


@durable_execution
def doubling(event: Any, context: DurableContext) -> list[int]:
    config = MapConfig[int](max_concurrency=2, completion_config=CompletionConfig.all_completed())
    return context.map([1, 2, 3], double, name="all", config=config).get_results()


assert run(doubling) == [2, 4, 6]


# --- with_retry, WithRetryConfig
@durable_execution
def trying(event: Any, context: DurableContext) -> str:
    def block(inside: DurableContext, attempt: int) -> str:
        seat = inside.step(lambda step: f"seat {attempt}", name="reserve")
        if attempt < 2:
            raise ValueError(f"{seat} is taken")
        return seat

    return with_retry(context, block, WithRetryConfig(RetryPresets.fixed()), name="seat")


assert run(trying) == "seat 2"


# --- DurableContext.now, DurableContext.uuid, DurableContext.random, DurableContext.remaining
@durable_execution(execution_timeout=60)
def facts(event: Any, context: DurableContext) -> bool:
    same = (str(context.uuid()), context.random(), context.now().isoformat())
    context.wait(Duration.from_seconds(10))  # the handler is called again after the wait, and gets the same values
    return same == context.step(lambda step: same, name="seen") and context.remaining().total_seconds() <= 50


assert run(facts) is True


# --- DurableContext.is_replaying, DurableContext.set_logger
@durable_execution
def quiet(event: Any, context: DurableContext) -> list[bool]:
    context.set_logger(context.logger)  # or a logger of your own
    before = context.is_replaying()
    context.wait(Duration.from_seconds(1))
    return [before, context.is_replaying()]


assert run(quiet) == [True, False]


# --- DurableContext.patched
@durable_execution
def changed(event: Any, context: DurableContext) -> str:
    if context.patched("weigh-parcels"):  # executions that began before this line was written get False
        return context.step(lambda step: "weighed", name="weigh")
    return "not weighed"


assert run(changed) == "weighed"


# --- DurableContext.continue_as_new
@durable_execution
def counter(event: Any, context: DurableContext) -> int:
    count: int = context.step(lambda step: event["count"] + 1, name="count")
    if count < 3:
        context.continue_as_new({"count": count})
    return count


assert run(counter, {"count": 0}) == 3


# --- types.DurableContext, types.Callback, types.BatchResult
def charge(context: types.DurableContext, card: str) -> str:
    """Protocols, for annotations: any context that has these methods fits, the official SDK's too."""
    return context.step(lambda step: f"charged {card}", name="charge")


def first(batch: types.BatchResult[str]) -> str:
    return batch.get_results()[0]


def answer(callback: types.Callback[str]) -> str | None:
    return callback.result()


@durable_execution
def card(event: Any, context: DurableContext) -> str:
    return charge(context, "one")


assert run(card) == "charged one"
