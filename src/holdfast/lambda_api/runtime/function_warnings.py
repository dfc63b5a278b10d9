"""Warnings about a function, before its first invocation: its interpreter, and the parts of its description that have no effect here."""

from __future__ import annotations

import logging

import msgspec

from holdfast.lambda_api.runtime.environment import WRAPPER, kind_of, wrapper_of
from holdfast.lambda_api.runtime.interpreters import ChosenInterpreter, Interpreters
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model.errors import FunctionNotLoadable


class FunctionWarning(msgspec.Struct, frozen=True):
    """One warning about a function, for the log of the server."""

    about: str
    """What the warning is about. A server logs only the first warning about the same thing."""
    text: str
    level: int = logging.WARNING


def warnings_of(runtime: Runtime, interpreters: Interpreters) -> list[FunctionWarning]:
    """All warnings about a function. Blocks while an interpreter is tried (started once)."""
    return [*_of_interpreter(runtime, interpreters), *_of_endpoints(runtime), *_of_wrapper(runtime)]


def _of_wrapper(runtime: Runtime) -> list[FunctionWarning]:
    """A warning if the function's AWS_LAMBDA_EXEC_WRAPPER cannot be run. Most wrappers are in layers, and this server has no layers."""
    named = runtime.environment.get(WRAPPER)
    if not named or wrapper_of(runtime) is not None:
        return []
    why = "there is no such file that can be executed, neither in its code nor on this machine"
    return [
        FunctionWarning(f"{runtime.function} {WRAPPER}", f"warning: {runtime.function}: its {WRAPPER} {named!r:.200} is ignored: {why}.")
    ]


def _of_endpoints(runtime: Runtime) -> list[FunctionWarning]:
    """Warnings about variables that would send the function's requests to Lambda, such as checkpoints, to another server. Here they do not
    change where these requests go."""
    said = []
    if "AWS_ENDPOINT_URL_LAMBDA" in runtime.environment:
        said.append(("AWS_ENDPOINT_URL_LAMBDA", "is not used: this server gets the checkpoints and all other requests to Lambda"))
    if "AWS_ENDPOINT_URL" in runtime.environment:
        said.append(("AWS_ENDPOINT_URL", "is used for every service but Lambda: this server gets the function's requests to Lambda"))
    if runtime.environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false").lower() != "false":
        said.append(("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "is not used: with it, checkpoints would go to AWS instead of this server"))
    return [
        FunctionWarning(f"{runtime.function} {name}", f"warning: {runtime.function}: its variable {name} {what}.") for name, what in said
    ]


def _of_interpreter(runtime: Runtime, interpreters: Interpreters) -> list[FunctionWarning]:
    """A warning about the interpreter, if there is a reason for one. A server logs it only for the first function of each runtime, and the
    text names that function."""
    if runtime.command:
        return []
    about, who = f"runtime {runtime.runtime}", f"{runtime.runtime} (wanted by {runtime.function})"
    try:
        caution = _chosen(runtime, interpreters).caution
    except FunctionNotLoadable as error:
        return [FunctionWarning(about, f"error[{error.code}]: {who} cannot run: {error}.", logging.ERROR)]
    return [FunctionWarning(about, f"warning: {who}: {caution}.")] if caution else []


def runs_on(runtime: str, interpreters: Interpreters) -> str:
    """The interpreter that runs functions of this runtime here, such as `Python 3.13`, if its version differs from the one in the runtime's
    name. Empty if it does not differ; `nothing` if the runtime is not known here or no interpreter can run it. Blocks while an interpreter
    is tried."""
    described = Runtime(function="", folder="", handler="", runtime=runtime)
    try:
        kind, version = kind_of(described)
        chosen = _chosen(described, interpreters)
    except FunctionNotLoadable:
        return "nothing"
    parts = version.split(".") if version else []
    if chosen.version.split(".")[: len(parts)] == parts:
        return ""
    return f"{'Python' if kind == 'python' else 'Node'} {chosen.version}"


def _chosen(runtime: Runtime, interpreters: Interpreters) -> ChosenInterpreter:
    kind, version = kind_of(runtime)
    return interpreters.python(version) if kind == "python" else interpreters.node(version)
