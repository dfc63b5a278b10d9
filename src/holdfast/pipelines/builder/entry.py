"""Inside the sandbox: import the author's file, which makes its pipelines, and send their nodes to the runner as one frame.

The runner does not trust the frame, and checks it like a text from outside.
"""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

from msgspec import to_builtins

from holdfast.hosts.sandbox.inside.launch import passed_limit
from holdfast.model import codec
from holdfast.model.errors import HoldfastError, PayloadTooLarge
from holdfast.pipelines.builder.pipeline import Pipeline
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.workers.body.runner_connection import SocketLink

MAX_DRAFT_BYTES: Final = 1024 * 1024
MAX_FRAME_BYTES: Final = 4 * MAX_DRAFT_BYTES
"""The most bytes of the frame with all pipelines of a file."""
_MOST_MESSAGE: Final = 2_000


def enter(fd: int, module: str, file: str) -> None:
    """The function that a jail calls. It waits for the runner's message, which has the names of the pipelines, before it imports the
    author's code. `fd` is the socket to the runner; `module` is the name of the author's module; `file` is its path in the package."""
    link = SocketLink(socket.socket(fileno=fd), MAX_FRAME_BYTES)
    link.send({"op": "ready"})
    order, _ = link.receive()
    root = next((folder for folder in sys.path if (Path(folder) / file).is_file()), "")
    try:
        link.send(drafted(lambda: importlib.import_module(module), order["variables"], root))
    except PayloadTooLarge:
        message = (
            f"The pipelines of this file have together more than {MAX_FRAME_BYTES} bytes as JSON. Pass large data as an input of the run."
        )
        link.send({"op": "failed", "file": file, "line": 0, "message": message})


def drafted(load: Callable[[], ModuleType], variables: Sequence[str], root: str) -> dict[str, Any]:
    """Call `load`, which imports the author's module, and return the frame for the runner: the module's pipelines, or the error.
    `variables` are the names of the pipelines in the module. `root` is the folder of the author's files. If the code exceeded a limit of
    the jail, the code's own error is raised, so that the jail reports the limit."""
    try:
        module = load()
        return {"op": "drafted", "drafts": [_draft(module, variable, root) for variable in variables]}
    except (Exception, SystemExit) as error:
        if passed_limit(error) is not None:
            raise  # the jail names the limit
        file, line = _place(error, root)
        message = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {_message(error)}"
        return {"op": "failed", "file": file, "line": line, "message": _shown(message)}


def _draft(module: ModuleType, variable: str, root: str) -> str:
    pipeline = getattr(module, variable, None)
    if not isinstance(pipeline, Pipeline):
        raise PipelineInvalid(f"{variable} is not a Pipeline any more after the file has run. Keep this name for the Pipeline.")
    written: Mapping[str, Any] = to_builtins(pipeline.draft())
    lines = {name: {"file": _relative(line["file"], root), "line": line["line"]} for name, line in written["lines"].items()}
    text = codec.dumps({**written, "lines": lines})
    if len(text.encode()) > MAX_DRAFT_BYTES:
        raise PipelineInvalid(
            f"The pipeline {variable} has more than {MAX_DRAFT_BYTES} bytes as JSON. Pass large data as an input of the run."
        )
    return text


def _place(error: BaseException, root: str) -> tuple[str, int]:
    """Where an error happened in the author's files: the file and the line of the innermost frame of these files in the traceback; for a
    syntax error in them, its own place. An empty text and 0 if the traceback has no frame of these files."""
    if isinstance(error, SyntaxError) and error.filename and root and error.filename.startswith(root):
        return _relative(error.filename, root), error.lineno or 0
    found, at = ("", 0), error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        if root and file.startswith(root):
            found = (_relative(file, root), at.tb_lineno)
        at = at.tb_next
    return found


def _relative(file: str, root: str) -> str:
    return file[len(root) :].lstrip("/") if root and file.startswith(root) else Path(file).name


def _message(error: BaseException) -> str:
    return str(error.msg if isinstance(error, SyntaxError) else error)


def _shown(message: str) -> str:
    return message[:_MOST_MESSAGE].encode(errors="backslashreplace").decode()


class LocalPipeline(NamedTuple):
    """What the testing kit needs of a pipeline object besides its draft, if the test's own process made the pipeline."""

    given: Mapping[str, Any]
    """The arguments of `Pipeline(…)`."""
    gates: Literal["advised", "required"]
    functions: Mapping[str, Callable[..., Any]]
    """The functions of its steps, by name."""


def written(pipeline: Pipeline) -> LocalPipeline:
    """The arguments and the step functions of a pipeline object. Only the testing kit calls this; the runner reads the source instead."""
    return LocalPipeline(pipeline._given, pipeline._gates, pipeline._functions)
