"""boto3 as it comes, against a real server behind the gate: headers, encodings and presigned addresses are those of its own wire."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import httpx
import pytest
import uvicorn
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.auth.keys import Issued
from tests.surface.auth_server import access_key, gate

ARN = "arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/o-1/0190a1b2-0000-7000-8000-000000000000"


@pytest.fixture
def store() -> Iterator[Store]:
    with contextlib.closing(open_store(":memory:", "here")) as store:
        yield store


@pytest.fixture
def key(store: Store) -> Issued:
    return access_key(store, "admin")


@pytest.fixture
def endpoint(store: Store, key: Issued) -> Iterator[str]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = uvicorn.Server(uvicorn.Config(gate(store), log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=lambda: server.run([listening]), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def aws(service: str, endpoint: str, key_id: str, secret: str, session: str | None = None) -> Iterator[Any]:
    made = boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="eu-north-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        aws_session_token=session,
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )
    with contextlib.closing(made):
        yield made


def test_what_boto3_sends_is_let_in(endpoint: str, key: Issued) -> None:
    with aws("lambda", endpoint, key.credential.id, key.secret) as lambda_:
        said = json.loads(
            lambda_.invoke(FunctionName="order", Qualifier="$LATEST", Payload=b'{"a": 1}', DurableExecutionName="n", TenantId="t 1")[
                "Payload"
            ].read()
        )
        assert said == {"who": key.credential.id, "tenant": None, "body": '{"a": 1}', "for": "t 1"}
        lambda_.get_durable_execution_history(DurableExecutionArn=ARN, IncludeExecutionData=True, ReverseOrder=True)
        lambda_.list_durable_executions_by_function(FunctionName="order", Statuses=["RUNNING", "FAILED"], DurableExecutionName="a")
        lambda_.send_durable_execution_callback_success(CallbackId="AaHh+/x==", Result=b'"yes"')
        lambda_.checkpoint_durable_execution(DurableExecutionArn=ARN, CheckpointToken="AAAA", Updates=[])
        lambda_.create_function(FunctionName="f", Role="arn:aws:iam::000000000000:role/x", Code={"ZipFile": bytes(200_000)})
    with aws("logs", endpoint, key.credential.id, key.secret) as logs:
        logs.filter_log_events(logGroupName="/aws/lambda/order")


def test_a_presigned_address_works_without_boto3(endpoint: str, key: Issued) -> None:
    with aws("lambda", endpoint, key.credential.id, key.secret) as lambda_:
        address = lambda_.generate_presigned_url("get_durable_execution", Params={"DurableExecutionArn": ARN}, ExpiresIn=60)
    with httpx.Client(trust_env=False) as client:
        assert client.get(address).json()["who"] == key.credential.id
        assert client.get(address.replace("order", "other")).status_code == 403


@pytest.mark.parametrize(
    "code, secret, session",
    [("InvalidSignatureException", "wrong", None), ("UnrecognizedClientException", None, "a session of AWS")],
)
def test_boto3_reads_why_it_was_refused(endpoint: str, key: Issued, code: str, secret: str | None, session: str | None) -> None:
    asking = aws("lambda", endpoint, key.credential.id, secret or key.secret, session)
    with asking as lambda_, pytest.raises(ClientError) as refused:
        lambda_.list_functions()
    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert len(refused.value.response["ResponseMetadata"]["RequestId"]) == 36
