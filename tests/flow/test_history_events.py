"""What an engine answers is an object with attributes; a history can also be had in AWS's form."""

from holdfast.descriptions.executions import Description
from holdfast.descriptions.history import HistoryEvent, wire_history
from holdfast.durable import DurableContext, durable_execution
from holdfast.model.execution import Execution
from tests.flow.harness import Harness


@durable_execution
def order(event: object, context: DurableContext) -> str:
    def inside(child: DurableContext) -> str:
        return child.step(lambda step: "packed", name="pack")

    return context.run_in_child_context(inside, name="warehouse")


async def test_lists_descriptions_and_histories_are_objects(harness: Harness) -> None:
    async with harness.engine(order) as engine:
        execution = await engine.start(order, name="order-1")
        assert await execution.result() == "packed"
        (listed,) = [x async for x in engine.list()]
        assert (type(listed), type(await execution.describe())) == (Execution, Description)
        history = await execution.history()
    assert {type(event) for event in history} == {HistoryEvent}
    assert [event.number for event in history] == list(range(1, len(history) + 1))
    (packed,) = [event for event in history if event.type == "StepSucceeded"]
    (began,) = [event for event in history if event.type == "ContextStarted"]
    assert (packed.name, packed.sub_type, packed.parent, began.name) == ("pack", "Step", began.operation, "warehouse")
    assert "packed" in packed.details["Result"]["Payload"]


async def test_the_wire_form_of_an_event_is_what_the_history_api_shows(harness: Harness) -> None:
    async with harness.engine(order) as engine:
        execution = await engine.start(order)
        await execution.result()
        (header,) = [x async for x in engine.list()]
        shown = wire_history(engine._store, header)
        assert [event.wire() for event in await execution.history()] == shown
        bare = [event.wire() for event in await execution.history(include_data=False)]
        assert bare == wire_history(engine._store, header, include_data=False) != shown
