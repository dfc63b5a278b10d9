"""A Lambda runtime client in plain Python: it asks for invocations, calls the handler, and answers.

It is used if awslambdaric is not installed, or if the function runs on another Python than the server. Run as `python -u python_client.py
module.function` in the function's folder. It imports nothing of Holdfast: the function's interpreter may not have Holdfast installed.
"""

from __future__ import annotations

import http.client
import importlib
import json
import logging
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

_API = "/2018-06-01/runtime/"
_IS_JSON = os.environ.get("AWS_LAMBDA_LOG_FORMAT") == "JSON"


class Fault(Exception):
    """An error that the runtime client itself found. `kind` is Lambda's name for it, such as `Runtime.HandlerNotFound`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Context:
    """The context object that a handler gets. `headers` are those of its invocation."""

    def __init__(self, headers: http.client.HTTPMessage) -> None:
        environment = os.environ.get
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.tenant_id = headers["Lambda-Runtime-Aws-Tenant-Id"]
        self.client_context = _client_context(headers["Lambda-Runtime-Client-Context"])
        self.identity = None
        self.function_name = environment("AWS_LAMBDA_FUNCTION_NAME")
        self.function_version = environment("AWS_LAMBDA_FUNCTION_VERSION")
        self.memory_limit_in_mb = environment("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
        self.log_group_name = environment("AWS_LAMBDA_LOG_GROUP_NAME")
        self.log_stream_name = environment("AWS_LAMBDA_LOG_STREAM_NAME")
        self._deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self) -> int:
        """The milliseconds until the invocation reaches its timeout; 0 after that."""
        # This runs in the function's process, where the machine's clock is the only one.
        return max(self._deadline_ms - round(time.clock_gettime(time.CLOCK_REALTIME) * 1000), 0)

    def log(self, message: object) -> None:
        """Write a message to the standard output, without a line end."""
        os.write(1, str(message).encode())


class ClientContext:
    """The data that the caller sent about its client: Lambda's client context."""

    def __init__(self, sent: dict[str, Any]) -> None:
        self.client = sent.get("client")
        self.custom = sent.get("custom")
        self.env = sent.get("env")


def _client_context(text: str | None) -> ClientContext | None:
    return ClientContext(json.loads(text)) if text else None


class _Requests(logging.Filter):
    """Adds the id of the current request to every log record."""

    request = ""

    def filter(self, record: logging.LogRecord) -> bool:
        record.aws_request_id = self.request
        return True


class _Sink:
    """Writes log records. With the descriptor that the server names, each record is a telemetry frame, so a record of several lines stays
    whole. Without it, each record is a line of the standard output."""

    def __init__(self) -> None:
        frames = os.environ.pop("_LAMBDA_TELEMETRY_LOG_FD", None)
        self._frames = None if frames is None else int(frames)
        self._writing = threading.Lock()

    def write(self, text: str, level: int) -> None:
        """Write one record. `level` is a level of Python's logging."""
        if self._frames is None:
            return self._written(1, text.replace("\n", "\r").encode(errors="replace") + b"\n")
        record = text.encode(errors="replace")
        kind = 0xA55A0002 | (0 if _IS_JSON else 1) | _bits(level)
        head = struct.pack(">IIQ", kind, len(record), time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000)
        return self._written(self._frames, head + record)

    def _written(self, descriptor: int, data: bytes) -> None:
        with self._writing:
            while data:
                data = data[os.write(descriptor, data) :]


def _bits(level: int) -> int:
    """The bits of a frame's type for a level of Python's logging: from 2 for DEBUG to 6 for FATAL, shifted left by two bits; 0 for lower
    levels."""
    return 0 if level < logging.DEBUG else (min(level, logging.CRITICAL) // 10 + 1) << 2


class _Records(logging.Handler):
    def __init__(self, sink: _Sink) -> None:
        super().__init__()
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of Python's logging."""
        try:
            self._sink.write(self.format(record), record.levelno)
        except Exception:
            self.handleError(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = {
            "timestamp": self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ"),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
            "requestId": getattr(record, "aws_request_id", ""),
        }
        known = logging.LogRecord("", 0, "", 0, "", (), None).__dict__
        told.update({key: value for key, value in record.__dict__.items() if key not in known and key != "aws_request_id"})
        if record.exc_info and record.exc_info[0] is not None:
            told["stackTrace"] = traceback.format_tb(record.exc_info[2])
            told["errorType"] = record.exc_info[0].__name__
            told["errorMessage"] = str(record.exc_info[1])
            told["location"] = f"{record.pathname}:{record.funcName}:{record.lineno}"
        return json.dumps(told, default=str)


def _set_up_logging(sink: _Sink) -> _Requests:
    handler = _Records(sink)
    level = os.environ.get("AWS_LAMBDA_LOG_LEVEL", "").upper()
    if isinstance(logging.getLevelName("DEBUG" if level == "TRACE" else level), int):
        logging.getLogger().setLevel("DEBUG" if level == "TRACE" else level)
    if _IS_JSON:
        handler.setFormatter(_Json())
    else:
        form = "[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t%(aws_request_id)s\t%(message)s"
        handler.setFormatter(logging.Formatter(form, "%Y-%m-%dT%H:%M:%S"))
    requests = _Requests()
    handler.addFilter(requests)
    logging.getLogger().addHandler(handler)
    return requests


def _load(name: str) -> Callable[[Any, Any], Any]:
    module_name, dot, function = name.rpartition(".")
    if not dot:
        raise Fault("Runtime.MalformedHandlerName", f"Bad handler '{name}': it must be module.function")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        raise Fault("Runtime.ImportModuleError", f"Unable to import module '{module_name}': {error}") from error
    except SyntaxError as error:
        raise Fault("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module_name}': {error}") from error
    try:
        found: Callable[[Any, Any], Any] = getattr(module, function)
    except AttributeError:
        raise Fault("Runtime.HandlerNotFound", f"Handler '{function}' missing on module '{module_name}'") from None
    return found


def _described(error: BaseException) -> dict[str, Any]:
    kind = error.kind if isinstance(error, Fault) else type(error).__name__
    frames = [] if isinstance(error, Fault) else traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and not frame.filename.startswith("<frozen")]
    return {"errorMessage": str(error), "errorType": kind, "stackTrace": traceback.format_list(own)}


class RuntimeClient:
    """Sends requests to the Runtime API at `address`."""

    def __init__(self, address: str, sink: _Sink) -> None:
        self._sink = sink
        self._connection = http.client.HTTPConnection(address)

    def next(self) -> tuple[http.client.HTTPMessage, bytes]:
        """Wait for the next invocation, and return its headers and its body. Raises SystemExit if the Runtime API refuses."""
        self._connection.request("GET", f"{_API}invocation/next")
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"The runtime API refused the next invocation: {answer.status}")
        return answer.headers, body

    def post(self, path: str, body: bytes, kind: str | None = None) -> None:
        """Post a result or an error to a path of the Runtime API. `kind` is the type of an error."""
        headers = {"Content-Type": "application/json"}
        if kind:
            headers["Lambda-Runtime-Function-Error-Type"] = kind.encode("ascii", "replace").decode()
        self._connection.request("POST", _API + path, body, headers)
        self._connection.getresponse().read()

    def post_error(self, path: str, error: BaseException, request: str = "") -> None:
        """Write an error to the log, and post it to a path of the Runtime API. `request` is the request id for the log."""
        told = _described(error)
        if _IS_JSON:
            now = logging.Formatter().formatTime(logging.makeLogRecord({}), "%Y-%m-%dT%H:%M:%SZ")
            text = json.dumps({"timestamp": now, "level": "ERROR", **told, "requestId": request})
        else:
            trace = "".join(told["stackTrace"]).rstrip("\n")
            text = f"[ERROR] {told['errorType']}: {told['errorMessage']}\nTraceback (most recent call last):\n{trace}"
        self._sink.write(text, logging.ERROR)
        self.post(path, json.dumps(told).encode(), told["errorType"])


def _handle(client: RuntimeClient, handler: Callable[[Any, Any], Any], headers: http.client.HTTPMessage, body: bytes) -> None:
    request = headers["Lambda-Runtime-Aws-Request-Id"]
    os.environ.pop("_X_AMZN_TRACE_ID", None)
    if headers["Lambda-Runtime-Trace-Id"]:
        os.environ["_X_AMZN_TRACE_ID"] = headers["Lambda-Runtime-Trace-Id"]
    try:
        result = handler(json.loads(body), Context(headers))
        try:
            answer = json.dumps(result).encode()
        except (TypeError, ValueError) as error:
            raise Fault("Runtime.MarshalError", f"Unable to marshal response: {error}") from error
    except Exception as error:
        client.post_error(f"invocation/{request}/error", error, request)
    else:
        client.post(f"invocation/{request}/response", answer)


def main() -> None:
    """Load the handler that the command line names, and answer invocations until the process is ended. If the handler cannot be loaded,
    report the error to the Runtime API and exit."""
    sys.path[0] = os.environ.get("LAMBDA_TASK_ROOT", os.getcwd())
    sink = _Sink()
    client = RuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"], sink)
    requests = _set_up_logging(sink)
    try:
        handler = _load(sys.argv[1])
    except Exception as error:
        client.post_error("init/error", error)
        raise SystemExit(1) from None
    while True:
        headers, body = client.next()
        requests.request = headers["Lambda-Runtime-Aws-Request-Id"]
        _handle(client, handler, headers, body)


if __name__ == "__main__":
    main()
