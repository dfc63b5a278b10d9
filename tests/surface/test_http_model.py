"""botocore's own model of the API, walked: no member of these operations is forgotten.

One long life on a real server sends every input member and gets back every output member, except for those that docs/reference/http.md
says are ignored or never there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.operations import Failure
from holdfast.service.settings import Settings
from tests.surface.http_functions import ALL
from tests.surface.http_server import Live, Served, SilentHost, client, served

OPERATIONS = [
    "Invoke",
    "CheckpointDurableExecution",
    "GetDurableExecutionState",
    "GetDurableExecution",
    "GetDurableExecutionHistory",
    "ListDurableExecutionsByFunction",
    "StopDurableExecution",
    "SendDurableExecutionCallbackSuccess",
    "SendDurableExecutionCallbackFailure",
    "SendDurableExecutionCallbackHeartbeat",
    "GetFunction",
    "GetFunctionConfiguration",
    "ListFunctions",
]
IGNORED = {("InvocationRequest", "ClientContext"), ("ListFunctionsRequest", "MasterRegion")}
"""Accepted and without an effect on a durable function."""
NEVER: dict[str, set[tuple[str, str]]] = {
    "GetDurableExecution": {("DurableConfig", "KMSKeyArn")},
    "ListDurableExecutionsByFunction": {("Execution", "KMSKeyArn")},
    "CheckpointDurableExecution": {("Operation", "ExecutionDetails"), ("ExecutionDetails", "InputPayload")},
}
"""Never there: there is no KMS, and what a checkpoint changes is never the execution's input."""
SHOWN = {
    "FunctionName", "FunctionArn", "Version", "Handler", "Role", "CodeSize", "CodeSha256", "Description", "Timeout", "MemorySize",
    "LastModified", "RevisionId", "State", "LastUpdateStatus", "PackageType", "DurableConfig",
}  # fmt: skip
"""What is shown of a function that runs inline: everything else speaks of packages and networks it does not have."""

Member = tuple[str, str]
FULL_ERROR = {"ErrorMessage": "no", "ErrorType": "Mine", "ErrorData": "{}", "StackTrace": ["a", "b"]}


def members(shape: Any, found: set[Member] | None = None) -> set[Member]:
    """Every member of every structure in a shape."""
    found = set() if found is None else found
    if shape is None:
        return found
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            if (shape.name, name) not in found:
                found.add((shape.name, name))
                members(member, found)
    elif shape.type_name == "list":
        members(shape.member, found)
    return found


def present(shape: Any, value: Any) -> Iterator[Member]:
    """The members that a value has."""
    if shape is None or value is None:
        return
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            if name in value:
                yield shape.name, name
                yield from present(member, value[name])
    elif shape.type_name == "list":
        for item in value:
            yield from present(shape.member, item)


class Witness:
    """A client that remembers which members went over the wire."""

    def __init__(self, server: Served) -> None:
        self.client = client(server.url)
        self.sent: dict[str, set[Member]] = defaultdict(set)
        self.got: dict[str, set[Member]] = defaultdict(set)
        self.client.meta.events.register("provide-client-params.lambda.*", self._sends)
        self.client.meta.events.register("after-call.lambda.*", self._gets)

    def _sends(self, params: Any, model: Any, **_: Any) -> None:
        self.sent[model.name] |= set(present(model.input_shape, params))

    def _gets(self, parsed: Any, model: Any, **_: Any) -> None:
        self.got[model.name] |= set(present(model.output_shape, parsed))


class Life:
    """What happens on the server, with the test for every handler."""

    def __init__(self, server: Served, host: SilentHost, clock: VirtualClock, witness: Witness) -> None:
        self.server = server
        self.host = host
        self.clock = clock
        self.client = witness.client
        self.token = ""
        self.arn = ""

    def checkpoint(self, *updates: dict[str, Any]) -> list[Any]:
        """Write as the handler; the operations that changed."""
        answer = self.client.checkpoint_durable_execution(
            DurableExecutionArn=self.arn, CheckpointToken=self.token, Updates=list(updates), ClientToken="a-token"
        )
        self.token = answer["CheckpointToken"]
        return list(answer["NewExecutionState"]["Operations"])

    def start(self, function: str, **asked: Any) -> Live:
        """Start an execution and take its handler's place."""
        self.client.invoke(FunctionName=function, InvocationType="Event", **asked)["Payload"].close()
        live = self.host.next()
        self.arn, self.token = live.arn, self.server.token(live)
        return live

    def pass_seconds(self, seconds: int) -> None:
        """Let time pass."""
        self.clock.move_to(self.clock.now() + seconds * 1000)


def update(kind: str, action: str, identity: str, **more: Any) -> dict[str, Any]:
    return {"Id": identity, "Type": kind, "Action": action, "Name": identity, "SubType": "Mine"} | more


def a_whole_life(life: Life) -> None:
    """One execution with every kind of operation in every ending."""
    asked = {"Qualifier": "$LATEST", "LogType": "None", "ClientContext": "e30=", "DurableExecutionName": "all", "TenantId": "blue"}
    main = life.start("endless", Payload=b"{}", **asked)
    life.checkpoint(
        update("CONTEXT", "START", "context"),
        update("CONTEXT", "START", "broken"),
        update("STEP", "START", "step", ParentId="context"),
        update("STEP", "RETRY", "retried", Error=FULL_ERROR, StepOptions={"NextAttemptDelaySeconds": 5}),
        update("WAIT", "START", "wait", WaitOptions={"WaitSeconds": 5}),
        update("WAIT", "START", "cancelled", WaitOptions={"WaitSeconds": 900}),
    )
    life.checkpoint(
        update("STEP", "SUCCEED", "step", Payload="1"),
        update("STEP", "FAIL", "failed", Error=FULL_ERROR),
        update("CONTEXT", "SUCCEED", "context", Payload="2", ContextOptions={"ReplayChildren": True}),
        update("CONTEXT", "FAIL", "broken", Error=FULL_ERROR),
        update("WAIT", "CANCEL", "cancelled", Error=FULL_ERROR),
    )
    a_state_in_pages(life)
    children_of_every_ending(life)
    callbacks_of_every_ending(life)
    a_state_in_pages(life)
    main.end(life.server, Outcome(OutcomeStatus.CRASHED, error=Failure("the process died", "Runtime.ExitError")))
    life.client.stop_durable_execution(DurableExecutionArn=main.arn, Error=FULL_ERROR)
    histories(life, main.arn)


def a_state_in_pages(life: Life) -> None:
    asked: dict[str, Any] = {"DurableExecutionArn": life.arn, "CheckpointToken": life.token, "MaxItems": 2}
    page = life.client.get_durable_execution_state(**asked)
    while page["NextMarker"]:
        page = life.client.get_durable_execution_state(**asked, Marker=page["NextMarker"])


def children_of_every_ending(life: Life) -> None:
    options = {"FunctionName": "steps:$LATEST", "TenantId": "blue", "XAmznTraceId": "Root=1"}
    names = ["ok", "bad", "stopped", "late"]
    life.checkpoint(*(update("CHAINED_INVOKE", "START", name, Payload="{}", ChainedInvokeOptions=options) for name in names))
    children = {life.host.next() for _ in names}
    for child in children:
        assert life.client.get_durable_execution(DurableExecutionArn=child.arn)["TraceHeader"] == {"XAmznTraceId": "Root=1"}
    endings = iter([Outcome(OutcomeStatus.SUCCEEDED, "1"), Outcome(OutcomeStatus.FAILED, error=Failure("no"))])
    for outcome in endings:
        children.pop().end(life.server, outcome)
    life.client.stop_durable_execution(DurableExecutionArn=children.pop().arn)
    life.pass_seconds(901)
    life.server.do(lambda: life.server.api.engine.invocations.fire(children.pop().arn.rpartition("/")[2]))
    assert {op["Status"] for op in life.checkpoint() if op["Type"] == "CHAINED_INVOKE"} == {"SUCCEEDED", "FAILED", "STOPPED", "TIMED_OUT"}


def callbacks_of_every_ending(life: Life) -> None:
    names = ["answered", "refused", "late-callback", *(f"large-{number}" for number in range(6))]
    options = {"TimeoutSeconds": 60, "HeartbeatTimeoutSeconds": 30}
    started = life.checkpoint(*(update("CALLBACK", "START", name, CallbackOptions=options) for name in names))
    ids = {operation["Name"]: operation["CallbackDetails"]["CallbackId"] for operation in started}
    life.client.send_durable_execution_callback_heartbeat(CallbackId=ids["answered"])
    for name in names[3:]:
        life.client.send_durable_execution_callback_success(CallbackId=ids[name], Result=b"x" * 1_000_000)
    life.client.send_durable_execution_callback_success(CallbackId=ids["answered"], Result=b"1")
    life.client.send_durable_execution_callback_failure(CallbackId=ids["refused"], Error=FULL_ERROR)
    life.pass_seconds(61)
    life.checkpoint()


def histories(life: Life, arn: str) -> None:
    pages = life.client.get_paginator("get_durable_execution_history")
    for asked in ({"IncludeExecutionData": True}, {"IncludeExecutionData": False, "ReverseOrder": True}):
        for _ in pages.paginate(DurableExecutionArn=arn, **asked, PaginationConfig={"PageSize": 7}):
            pass
    life.client.get_durable_execution(DurableExecutionArn=arn, IncludeExecutionData=True)


def endings_of_executions(life: Life) -> None:
    """The other ends an execution can have, and a caller that waits for one."""
    for outcome in (Outcome(OutcomeStatus.SUCCEEDED, "1"), Outcome(OutcomeStatus.FAILED, error=Failure("no", "Mine", "{}", ("a",)))):
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(life.client.invoke, FunctionName="echo:$LATEST", LogType="Tail")
            live = life.host.next()
            live.end(life.server, outcome)
            waiting.result(30)["Payload"].close()
        histories(life, live.arn)
    late = life.start("echo:$LATEST")
    life.pass_seconds(901)
    life.server.do(lambda: life.server.api.engine.invocations.fire(late.arn.rpartition("/")[2]))
    histories(life, late.arn)


def lists(life: Life) -> None:
    first = life.client.list_durable_executions_by_function(FunctionName="echo", MaxItems=1)
    times = first["DurableExecutions"][0]["StartTimestamp"]
    life.client.list_durable_executions_by_function(
        FunctionName="echo",
        Qualifier="$LATEST",
        DurableExecutionName="x",
        Statuses=["FAILED"],
        StartedAfter=times,
        StartedBefore=times,
        ReverseOrder=True,
        Marker=first["NextMarker"],
        MaxItems=1,
    )
    life.client.get_function(FunctionName="echo", Qualifier="$LATEST")
    life.client.get_function_configuration(FunctionName="echo", Qualifier="$LATEST")
    page = life.client.list_functions(FunctionVersion="ALL", MasterRegion="ALL", MaxItems=1)
    life.client.list_functions(Marker=page["NextMarker"])


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    host, clock = SilentHost(), VirtualClock(skipping=False)
    with served(tmp_path_factory.mktemp("model") / "store.db", ALL, host=host, settings=Settings(clock=clock)) as server:
        seen = Witness(server)
        with closing(seen.client):
            life = Life(server, host, clock, seen)
            a_whole_life(life)
            endings_of_executions(life)
            lists(life)
        yield seen


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_input_member_of_the_model_is_accepted(witness: Witness, operation: str) -> None:
    model = witness.client.meta.service_model.operation_model(operation)
    assert members(model.input_shape) - witness.sent[operation] == set()


@pytest.mark.parametrize("operation", [operation for operation in OPERATIONS if "Function" not in operation or "By" in operation])
def test_every_output_member_of_the_model_appears(witness: Witness, operation: str) -> None:
    model = witness.client.meta.service_model.operation_model(operation)
    missing = members(model.output_shape) - witness.got[operation]
    assert missing == NEVER.get(operation, set())


def test_every_kind_of_event_was_told(witness: Witness) -> None:
    model = witness.client.meta.service_model
    kinds = {name for shape, name in witness.got["GetDurableExecutionHistory"] if shape == "Event" and name.endswith("Details")}
    assert kinds == {f"{kind}Details" for kind in model.shape_for("EventType").enum}


@pytest.mark.parametrize("operation", ["GetFunction", "GetFunctionConfiguration", "ListFunctions"])
def test_of_a_function_is_shown_what_it_has(witness: Witness, operation: str) -> None:
    assert {name for shape, name in witness.got[operation] if shape == "FunctionConfiguration"} == SHOWN


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_documented_where_it_is(witness: Witness, operation: str, root: Path) -> None:
    at = witness.client.meta.service_model.operation_model(operation).http
    assert f"| {operation} | {at['method']} `{at['requestUri']}` |" in (root / "docs/reference/http.md").read_text()


def test_what_is_ignored_or_never_there_is_documented(root: Path) -> None:
    page = (root / "docs/reference/http.md").read_text()
    (table,) = re.findall(r"^## Members without an effect\n(.*?)(?=^## )", page, re.M | re.S)
    assert [member for _, member in IGNORED.union(*NEVER.values()) if f"`{member}`" not in table] == []
