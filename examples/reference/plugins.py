"""Plugins and logging.

A plugin is told what a function does: invocations, operations, and the functions inside them. A logger adds the execution and the
operation to each line, and is silent while its context replays.
"""

import logging
from types import SimpleNamespace
from typing import Any

from holdfast import DurableContext, durable_execution
from holdfast.durable.lambda_service import OperationAction, OperationStatus, OperationSubType
from holdfast.durable.logger import Logger, LogInfo
from holdfast.durable.plugin import (
    DurableInstrumentationPlugin,
    DurableInstrumentationPluginFactory,
    InvocationEndInfo,
    InvocationInfo,
    InvocationStartInfo,
    InvocationStatus,
    OperationChangeInfo,
    OperationEndInfo,
    OperationInfo,
    OperationStartInfo,
    OperationType,
    PropagationInput,
    PropagationMetadata,
    UserFunctionEndInfo,
    UserFunctionOutcome,
    UserFunctionStartInfo,
)
from holdfast.durable.plugin_discovery import load_configured_plugins
from holdfast.durable.types import LambdaContext, LoggerInterface
from holdfast.testing import Runner

seen: list[str] = []


# --- DurableInstrumentationPlugin, DurableInstrumentationPluginFactory
class Counting(DurableInstrumentationPlugin):
    def on_operation_end(self, info: OperationEndInfo) -> None:
        seen.append(f"{info.name} {info.status.value}")


class CountingFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return Counting()


factory: DurableInstrumentationPluginFactory = CountingFactory()


@durable_execution(plugins=[factory])
def counted(event: Any, context: DurableContext) -> int:
    return context.step(lambda step: 1, name="charge")


with Runner(counted) as runner:
    assert runner.run().result == 1
assert "charge SUCCEEDED" in seen


# --- InvocationInfo, InvocationStartInfo, InvocationEndInfo, InvocationStatus
class Invocations(DurableInstrumentationPlugin):
    def on_invocation_start(self, info: InvocationStartInfo) -> None:
        assert isinstance(info, InvocationInfo)
        seen.append(f"first: {info.is_first_invocation}")

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        if info.status is InvocationStatus.SUCCEEDED:
            seen.append(f"result: {info.execution_result}")


class InvocationsFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return Invocations()


@durable_execution(plugins=[InvocationsFactory()])
def invoked(event: Any, context: DurableContext) -> int:
    return 7


with Runner(invoked) as runner:
    runner.run()
assert seen[-2:] == ["first: True", "result: 7"]


# --- OperationInfo, OperationStartInfo, OperationEndInfo, OperationChangeInfo, OperationType, OperationStatus
class Operations(DurableInstrumentationPlugin):
    def on_operation_start(self, info: OperationStartInfo) -> None:
        if info.operation_type is OperationType.STEP:
            seen.append(f"{info.name} begins")

    def on_operation_end(self, info: OperationEndInfo) -> None:
        if info.status is OperationStatus.SUCCEEDED:
            seen.append(f"{info.name} ends")

    def on_operation_change(self, info: OperationChangeInfo) -> None:
        changed: dict[str, OperationInfo] = info.updated_operations
        seen.append(f"{len(changed)} changed")


class OperationsFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return Operations()


@durable_execution(plugins=[OperationsFactory()])
def operated(event: Any, context: DurableContext) -> int:
    return context.step(lambda step: 1, name="pay")


with Runner(operated) as runner:
    runner.run()
assert {"pay begins", "pay ends"} <= set(seen)


# --- UserFunctionStartInfo, UserFunctionEndInfo, UserFunctionOutcome
class Bodies(DurableInstrumentationPlugin):
    def on_user_function_start(self, info: UserFunctionStartInfo) -> None:
        seen.append(f"the body of {info.name} runs")

    def on_user_function_end(self, info: UserFunctionEndInfo) -> None:
        if info.outcome is UserFunctionOutcome.SUCCEEDED:
            seen.append(f"the body of {info.name} returned")


class BodiesFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return Bodies()


@durable_execution(plugins=[BodiesFactory()])
def embodied(event: Any, context: DurableContext) -> int:
    return context.step(lambda step: 1, name="ship")


with Runner(embodied) as runner:
    runner.run()
assert "the body of ship returned" in seen


# --- PropagationInput, PropagationMetadata
class Tracing(DurableInstrumentationPlugin):
    def provide_propagation_metadata(self, info: PropagationInput) -> PropagationMetadata | None:
        seen.append(f"invokes {info.target_function_name}")
        return PropagationMetadata(x_amzn_trace_id="Root=1-5759e988-bd862e3fe1be46a994272793")


class TracingFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return Tracing()


@durable_execution(plugins=[TracingFactory()])
def traced(event: Any, context: DurableContext) -> Any:
    return context.invoke("tax", {})


with Runner(traced, stubs={"tax": 5}) as runner:
    assert runner.run().result == 5
assert seen[-1] == "invokes tax"


# --- load_configured_plugins
class QuietFactory:
    def create_plugin(self, info: InvocationStartInfo, /) -> DurableInstrumentationPlugin:
        return DurableInstrumentationPlugin()


given = QuietFactory()
assert load_configured_plugins([given], environment={}) == [given]  # and those that DURABLE_EXECUTION_PLUGINS names


# --- OperationAction, OperationSubType
assert OperationAction("SUCCEED") is OperationAction.SUCCEED
assert OperationSubType.WAIT_FOR_CALLBACK.value == "WaitForCallback"


# --- Logger, LogInfo, LoggerInterface
to: LoggerInterface = logging.getLogger("orders")  # any logger with these five methods
where = LogInfo(SimpleNamespace(durable_execution_arn="arn"), operation_id="operation-1", name="charge", attempt=2)
assert where.to_extra() == {"executionArn": "arn", "operationName": "charge", "attempt": 2, "operationId": "operation-1"}
log = Logger.from_log_info(to, where)
log.info("the card was charged")


# --- LambdaContext
def time_left(context: LambdaContext) -> int:
    """The context that a Lambda runtime gives to a handler, for annotations."""
    return context.get_remaining_time_in_millis() // 1000
