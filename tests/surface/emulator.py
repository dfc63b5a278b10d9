"""The official emulator's web server as the service, and this process as the Lambda endpoint that it invokes handlers at.

Everything between the three goes over HTTP: the emulator invokes handlers with boto3, they write checkpoints with boto3, and a test
starts, answers and reads executions with boto3. Its clock and timers are held, as tests/flow/official/runner.py says; all else of it is
its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from unittest import mock

import boto3
import msgspec
from aws_durable_execution_sdk_python.lambda_service import Operation as OfficialOperation
from aws_durable_execution_sdk_python_testing import runner as runners
from aws_durable_execution_sdk_python_testing.child_dispatcher import FunctionConfigs
from aws_durable_execution_sdk_python_testing.web.server import WebServiceConfig

from holdfast.durable.exceptions import wire_name
from holdfast.durable.execution import DurableFunction
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, ExecutionStatus
from tests.flow.official.runner import ACCOUNT, REGION, HeldClock, HeldTimers, Runner
from tests.flow.official.running import Answer, Deed, Ending, Fail
from tests.surface.http_server import client
from tests.surface.serve_program import until

Handler = Callable[[Any, Any], Any]
_INVOKE = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations")


class Endpoint:
    """Lambda's Invoke, and nothing else of it: each request runs one handler once."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, functions: Mapping[str, DurableFunction]) -> dict[str, Any]:
        """Run these; what the emulator must be told about them."""
        configs: dict[str, Any] = {}
        for name, function in functions.items():
            plain = getattr(function.handler, "__wrapped__", None)
            configs[name] = {"DurableConfig": {"ExecutionTimeout": MAX_TIMEOUT_SECONDS}} if plain is None else {}
            self.handlers[name] = plain or function
        return configs

    def _invoke(self, path: str, payload: bytes) -> tuple[int, Any, dict[str, str]]:
        found = _INVOKE.fullmatch(urllib.parse.unquote(path))
        assert found is not None, path
        handler = self.handlers.get(found["name"].partition(":")[0])
        if handler is None:
            return 404, {"message": f"no function {found['name']}"}, {"x-amzn-errortype": "ResourceNotFoundException"}
        try:
            return 200, handler(json.loads(payload), SimpleNamespace(aws_request_id="a request")), {}
        except Exception as error:
            told = {"errorMessage": str(error), "errorType": wire_name(error)}
            return 200, told, {"X-Amz-Function-Error": "Unhandled"}

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # noqa: N805 (its own `self` is the request's)
        class Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                payload = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer, headers = endpoint._invoke(self.path, payload)
                body = json.dumps(answer).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Request

    @contextlib.contextmanager
    def running(self) -> Iterator[Endpoint]:
        """Answer until the block ends."""
        with _served(self._server):
            yield self


@contextlib.contextmanager
def _served(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=functools.partial(server.serve_forever, 0.005))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Emulated(Runner):
    """One execution on the emulator, reached with boto3 alone; only its rest is looked at from inside."""

    def __init__(self, runner: Any, timers: HeldTimers, clock: HeldClock, url: str, lambda_: Any) -> None:
        super().__init__(runner, timers, clock)
        self._url = url
        self.lambda_ = lambda_

    def start(self, event: object) -> None:
        """Start it by SAM's hook, which is the emulator's only way."""
        self.arn = started(self._url, msgspec.json.encode(event).decode())

    def do(self, deed: Deed, callback: OfficialOperation) -> None:
        """Do what the script says to a callback."""
        assert callback.callback_details is not None
        callback_id = callback.callback_details.callback_id
        if isinstance(deed, Answer):
            answer = {} if deed.text is None else {"Result": deed.text.encode()}
            self.lambda_.send_durable_execution_callback_success(CallbackId=callback_id, **answer)
        elif isinstance(deed, Fail):
            told = deed.error
            members = {"ErrorMessage": told.message, "ErrorType": told.type, "ErrorData": told.data, "StackTrace": told.stack_trace}
            error = {name: value for name, value in members.items() if value is not None}
            self.lambda_.send_durable_execution_callback_failure(CallbackId=callback_id, Error=error)
        else:
            self._clock.move_to(self._clock.now() + timedelta(seconds=deed.after_seconds))
            self.lambda_.send_durable_execution_callback_heartbeat(CallbackId=callback_id)

    def ending(self) -> Ending:
        """What it came to."""
        found = self.lambda_.get_durable_execution(DurableExecutionArn=self.arn)
        payload = msgspec.json.encode(found["Error"]).decode() if "Error" in found else found.get("Result")
        pages = self.lambda_.get_paginator("get_durable_execution_history")
        told = pages.paginate(DurableExecutionArn=self.arn, IncludeExecutionData=True)
        history = [self._plain(event) for page in told for event in page["Events"]]
        return Ending(ExecutionStatus(found["Status"]), payload, history)


def started(url: str, payload: str, function_name: str = "handler") -> str:
    """Start an execution of a function on an emulator; its ARN."""
    terms = {"ExecutionTimeoutSeconds": MAX_TIMEOUT_SECONDS, "ExecutionRetentionPeriodDays": 1}
    function = {"AccountId": ACCOUNT, "FunctionName": function_name, "FunctionQualifier": "$LATEST"}
    body = json.dumps({**function, **terms, "ExecutionName": "case", "Input": payload}).encode()
    asked = urllib.request.Request(f"{url}/start-durable-execution", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        arn: str = json.loads(answer.read())["ExecutionArn"]
        return arn


@functools.cache
def _session() -> boto3.Session:
    """The emulator's own clients need credentials, whatever they are."""
    return boto3.Session(aws_access_key_id="nobody", aws_secret_access_key="nothing", region_name=REGION)


@contextlib.contextmanager
def emulator(functions: Mapping[str, DurableFunction]) -> Iterator[Emulated]:
    """The emulator's web server in this process, with a held clock, and these functions of ours; plain ones among them stay plain."""
    endpoint, clock = Endpoint(), HeldClock()
    timers = HeldTimers(clock)
    configs = endpoint.take(functions)
    config = runners.WebRunnerConfig(
        web_service=WebServiceConfig(host="127.0.0.1", port=0, log_level=logging.CRITICAL),
        lambda_endpoint=endpoint.url,
        local_runner_region=REGION,
        skip_time=True,
        function_configs=FunctionConfigs.from_dict(configs),
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(runners, Scheduler=lambda: timers, SkipClock=lambda: clock))
        stack.enter_context(mock.patch.object(boto3, "DEFAULT_SESSION", _session()))
        stack.enter_context(endpoint.running())
        runner = stack.enter_context(runners.WebRunner(config))
        assert runner._server is not None
        url = f"http://127.0.0.1:{runner._server.server_port}"
        stack.enter_context(_served(runner._server))
        lambda_ = stack.enter_context(contextlib.closing(client(url)))
        for function in functions.values():
            function.boto3_client = lambda_
        yield Emulated(runner, timers, clock, url, lambda_)


class Started:
    """The emulator as its users start it: a program of its own, in real time."""

    def __init__(self, url: str, lambda_: Any, endpoint: Endpoint) -> None:
        self._url = url
        self._lambda = lambda_
        self._endpoint = endpoint

    def run(self, name: str, function: DurableFunction, event: object, script: dict[str, list[Deed]]) -> Ending:
        """An execution of a function of this name from its start to its end, with the answers that the script has."""
        self.take({name: function})
        arn = started(self._url, msgspec.json.encode(event).decode(), name)

        def over() -> Any:
            for told in self._history(arn):
                if told["EventType"] == "CallbackStarted" and script.get(told["Name"]):
                    self._answer(told["CallbackStartedDetails"]["CallbackId"], script[told["Name"]].pop(0))
            found = self._lambda.get_durable_execution(DurableExecutionArn=arn)
            return None if found["Status"] == "RUNNING" else found

        found = until(over, f"the end of {arn}", every=0.2)
        return Ending(ExecutionStatus(found["Status"]), found.get("Result"), self._history(arn))

    def take(self, functions: Mapping[str, DurableFunction]) -> dict[str, Any]:
        """Have these functions too; what the emulator must know of them if they are to be invoked."""
        for function in functions.values():
            function.boto3_client = self._lambda
        return self._endpoint.take(functions)

    def _answer(self, callback: str, deed: Deed) -> None:
        assert isinstance(deed, Answer)
        assert deed.text is not None
        self._lambda.send_durable_execution_callback_success(CallbackId=callback, Result=deed.text.encode())

    def _history(self, arn: str) -> list[dict[str, Any]]:
        pages = self._lambda.get_paginator("get_durable_execution_history")
        return [event for page in pages.paginate(DurableExecutionArn=arn, IncludeExecutionData=True) for event in page["Events"]]


@contextlib.contextmanager
def emulator_program(invoked: Mapping[str, DurableFunction]) -> Iterator[Started]:
    """The emulator in a process of its own, which knows what may be invoked; the functions run in this one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with Endpoint().running() as endpoint, contextlib.closing(client(url)) as lambda_:
        command = [sys.executable, "-m", "aws_durable_execution_sdk_python_testing.cli", "start-server"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--lambda-endpoint", endpoint.url]
        program = Started(url, lambda_, endpoint)
        command += ["--function-configs", json.dumps(program.take(invoked)), "--log-level", "ERROR"]
        keys = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
        process = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(lambda: process.poll() is not None or _answers(url), "the emulator")
            assert process.poll() is None
            yield program
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
