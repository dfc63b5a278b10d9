"""The code that runs inside the sandbox and calls one step: a pure function of the pipeline's file. The function gets JSON and returns
JSON. It has no tools. If the isolation is `inline`, the runner uses `called` in its own process."""

from __future__ import annotations

import importlib
import inspect
import socket
from types import ModuleType
from typing import Any

from holdfast.workers.body.errors import WorkerError, as_frame
from holdfast.workers.body.main import done
from holdfast.workers.body.runner_connection import SocketLink


def enter(fd: int, module: str) -> None:
    """The function that a jail calls, inside the sandbox: import the author's module, and serve one call. `fd` is the socket to the
    runner."""
    loaded = importlib.import_module(module)
    link = SocketLink(socket.socket(fileno=fd))
    link.send({"op": "ready"})
    order, _ = link.receive()
    link.send(called(loaded, order["function"], order["inputs"]))


def called(module: ModuleType, function: str, inputs: Any) -> dict[str, Any]:
    """Call the function of this name in the author's module. Returns the frame for the runner: the function's outputs, or the error."""
    try:
        step = getattr(module, function, None)
        if not inspect.isfunction(step) or inspect.iscoroutinefunction(step):
            raise WorkerError(
                "worker_crashed", f"The file has no function {function}. A step needs a plain `def` at the top level of the file."
            )
        return done(step(inputs))
    except BaseException as error:  # the author's code may raise anything, also SystemExit
        frame = as_frame(error)
        if frame["error_code"] == "artifact_too_large":
            frame["message"] = f"The step {function} returned more than a megabyte. Pass large data by reference, without a step."
        return {"op": "failed", "error": frame}
