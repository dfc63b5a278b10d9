"""The whole server behind its gate: boto3 with keys of two tenants and several roles, and the stream of what they do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import holdfast
from holdfast import AsyncDurableContext, durable_execution
from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.app import make_app
from holdfast.model.clock import SystemClock
from holdfast.server.events import Events
from holdfast.signals.broadcast import Broadcaster
from holdfast.store.backends import open_store
from holdfast.web.auth.gate import open_gate
from holdfast.web.listener import bound, listening
from tests.surface.auth_server import access_key, bearer, token

T = TypeVar("T")


@durable_execution(execution_timeout=900)
async def order(event: Any, context: AsyncDurableContext) -> Any:
    return event


@durable_execution
async def approval(event: Any, context: AsyncDurableContext) -> Any:
    return await (await context.create_callback(name="approve")).result()


class Whole:
    """A server, and clients of it."""

    def __init__(self, where: str, url: str) -> None:
        self.url = url
        self._where = where
        self._clients = contextlib.ExitStack()

    def client(self, *roles: str, tenant: str | None = None) -> Any:
        """boto3 with a new key."""
        with contextlib.closing(open_store(self._where, "keys")) as store:
            key = access_key(store, *roles, tenant=tenant)
        made = boto3.client(
            "lambda",
            endpoint_url=self.url,
            region_name="eu-north-1",
            aws_access_key_id=key.credential.id,
            aws_secret_access_key=key.secret,
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )
        return self._clients.enter_context(contextlib.closing(made))

    def listener(self, *roles: str, tenant: str | None = None) -> dict[str, str]:
        """The headers of a caller with a new token."""
        with contextlib.closing(open_store(self._where, "keys")) as store:
            return bearer(token(store, *roles, tenant=tenant))

    def close(self) -> None:
        self._clients.close()


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Whole]:
    monkeypatch.setattr("holdfast.web.auth.keys._FRESH_SECONDS", 0.0)  # every new key is known at once
    where = str(tmp_path / "test.db")
    with contextlib.closing(open_store(where, "first")) as store:
        token(store, "admin")
    broadcaster = Broadcaster()
    async with holdfast.open(where, functions=[order, approval], subscribers={"events": broadcaster}) as engine:
        store = engine._store
        gate = open_gate(store, host="127.0.0.1", clock=SystemClock())
        app = make_app(LambdaApi(engine._engine), more=Events(broadcaster, store).routes(), gate=gate)
        listener = bound("127.0.0.1", 0)
        async with listening(app, listener):
            found = Whole(where, f"http://127.0.0.1:{listener.getsockname()[1]}")
            yield found
            await asyncio.to_thread(found.close)
            broadcaster.close()


async def asked(verb: Callable[..., T], **options: Any) -> T:
    """boto3 blocks, and this loop is the server's."""
    return await asyncio.to_thread(verb, **options)


async def invoked(client: Any, **options: Any) -> tuple[Any, bytes]:
    """The answer and its whole payload; a payload that is not closed keeps its connection open after its client."""
    answer = await asked(client.invoke, **options)
    with contextlib.closing(answer["Payload"]) as stream:
        return answer, await asked(stream.read)


async def refused(verb: Callable[..., object], **options: Any) -> str:
    with pytest.raises(ClientError) as error:
        await asked(verb, **options)
    return str(error.value.response["Error"]["Code"])


async def test_tenants_share_functions_and_see_nothing_of_each_other(whole: Whole) -> None:
    north, south, root = (whole.client("operator", tenant="north"), whole.client("operator", tenant="south"), whole.client("admin"))
    arns = {}
    for name, client in (("north", north), ("south", south), ("root", root)):
        answer, payload = await invoked(client, FunctionName="order", Qualifier="$LATEST", Payload=b"1", DurableExecutionName=name)
        assert (answer["StatusCode"], payload) == (200, b"1")
        arns[name] = answer["DurableExecutionArn"]

    def names(client: Any) -> list[str]:
        found = client.list_durable_executions_by_function(FunctionName="order")["DurableExecutions"]
        return sorted(one["DurableExecutionName"] for one in found)

    assert await asked(names, client=north) == ["north"]
    assert await asked(names, client=south) == ["south"]
    assert await asked(names, client=root) == ["north", "root", "south"]
    assert (await asked(north.get_durable_execution, DurableExecutionArn=arns["north"]))["Status"] == "SUCCEEDED"
    for other in (arns["south"], arns["root"]):
        for verb in (north.get_durable_execution, north.get_durable_execution_history, north.stop_durable_execution):
            assert await refused(verb, DurableExecutionArn=other) == "ResourceNotFoundException"
    assert [one["FunctionName"] for one in (await asked(north.list_functions))["Functions"]] == ["approval", "order"]


async def test_who_starts_need_not_be_who_approves(whole: Whole) -> None:
    operator, approver = whole.client("operator"), whole.client("approver")
    begun, _ = await invoked(operator, FunctionName="approval", Qualifier="$LATEST", InvocationType="Event", Payload=b"null")
    arn = begun["DurableExecutionArn"]

    def callback() -> str:
        while True:
            for event in approver.get_durable_execution_history(DurableExecutionArn=arn, IncludeExecutionData=True)["Events"]:
                if event["EventType"] == "CallbackStarted":
                    return str(event["CallbackStartedDetails"]["CallbackId"])

    callback_id = await asked(callback)
    answer = {"CallbackId": callback_id, "Result": b'"yes"'}
    assert await refused(operator.send_durable_execution_callback_success, **answer) == "AccessDeniedException"
    assert await refused(approver.stop_durable_execution, DurableExecutionArn=arn) == "AccessDeniedException"
    await asked(approver.send_durable_execution_callback_success, **answer)
    while (await asked(approver.get_durable_execution, DurableExecutionArn=arn))["Status"] == "RUNNING":
        pass
    assert json.loads((await asked(approver.get_durable_execution, DurableExecutionArn=arn))["Result"]) == '"yes"'
    assert await refused(approver.send_durable_execution_callback_success, **answer) == "CallbackTimeoutException", "once"


async def test_a_listener_of_a_tenant_hears_what_its_tenant_does(whole: Whole) -> None:
    north, south = whole.client("operator", tenant="north"), whole.client("operator", tenant="south")
    headers = whole.listener("viewer", tenant="north")
    heard = list[tuple[str, str]]()
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(trust_env=False, headers=headers) as client,
        client.stream("GET", f"{whole.url}/events") as stream,
    ):
        assert stream.status_code == 200
        for name, who in (("a", south), ("b", north), ("c", south), ("d", north)):
            verb = {"FunctionName": "order", "Qualifier": "$LATEST", "DurableExecutionName": name, "InvocationType": "Event"}
            await invoked(who, **verb, Payload=b"1")
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                detail = json.loads(line.removeprefix("data:"))["detail"]
                heard.append((detail["durableExecutionName"], detail["status"]))
            if len(heard) == 4:
                break
    assert sorted(heard) == [("b", "RUNNING"), ("b", "SUCCEEDED"), ("d", "RUNNING"), ("d", "SUCCEEDED")]


async def test_the_tenant_default_hears_and_lists_executions_without_a_tenant(whole: Whole) -> None:
    root, north, default = whole.client("operator"), whole.client("operator", tenant="north"), whole.client("operator", tenant="default")
    heard = list[str]()
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(trust_env=False, headers=whole.listener("viewer", tenant="default")) as client,
        client.stream("GET", f"{whole.url}/events") as stream,
    ):
        for name, who in (("north", north), ("root", root), ("default", default)):
            verb = {"FunctionName": "order", "Qualifier": "$LATEST", "DurableExecutionName": name, "InvocationType": "Event"}
            await invoked(who, **verb, Payload=b"1")
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                heard.append(json.loads(line.removeprefix("data:"))["detail"]["durableExecutionName"])
            if len(heard) == 4:
                break
    assert sorted(heard) == ["default", "default", "root", "root"]
    listed = (await asked(default.list_durable_executions_by_function, FunctionName="order"))["DurableExecutions"]
    assert sorted(one["DurableExecutionName"] for one in listed) == ["default", "root"]
