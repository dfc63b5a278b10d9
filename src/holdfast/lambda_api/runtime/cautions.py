"""What a person should know of a function before it is first invoked: what it runs on, and what of its description is not as it asks."""

from __future__ import annotations

import logging

import msgspec

from holdfast.lambda_api.runtime.description import Runtime
from holdfast.lambda_api.runtime.environment import WRAPPER, kind_of, wrapper_of
from holdfast.lambda_api.runtime.interpreters import Chosen, Interpreters
from holdfast.model.errors import FunctionNotLoadable


class Caution(msgspec.Struct, frozen=True):
    """One thing to say."""

    about: str
    """What it is about: a server says one thing once."""
    text: str
    level: int = logging.WARNING


def cautions_of(runtime: Runtime, interpreters: Interpreters) -> list[Caution]:
    """Everything to say of a function. Blocks while an interpreter is tried."""
    return [*_of_interpreter(runtime, interpreters), *_of_endpoints(runtime), *_of_wrapper(runtime)]


def _of_wrapper(runtime: Runtime) -> list[Caution]:
    """A wrapper is mostly in a layer, and there are no layers here."""
    named = runtime.environment.get(WRAPPER)
    if not named or wrapper_of(runtime) is not None:
        return []
    why = "there is no such file that can be executed, neither in its code nor on this machine"
    return [Caution(f"{runtime.function} {WRAPPER}", f"warning: {runtime.function}: its {WRAPPER} {named!r:.200} is ignored: {why}.")]


def _of_endpoints(runtime: Runtime) -> list[Caution]:
    """A variable that would send checkpoints to another place is not obeyed."""
    said = []
    if "AWS_ENDPOINT_URL_LAMBDA" in runtime.environment:
        said.append(
            ("AWS_ENDPOINT_URL_LAMBDA", "is not used: checkpoints, and whatever else the function asks of Lambda, come to this server")
        )
    if "AWS_ENDPOINT_URL" in runtime.environment:
        said.append(("AWS_ENDPOINT_URL", "is used for every service but Lambda: what the function asks of Lambda comes to this server"))
    if runtime.environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false").lower() != "false":
        said.append(("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "is not used: with it, checkpoints would go to AWS instead of this server"))
    return [Caution(f"{runtime.function} {name}", f"warning: {runtime.function}: its variable {name} {what}.") for name, what in said]


def _of_interpreter(runtime: Runtime, interpreters: Interpreters) -> list[Caution]:
    """One for all functions of a runtime: it names the first."""
    if runtime.command:
        return []
    about, who = f"runtime {runtime.runtime}", f"{runtime.runtime} (wanted by {runtime.function})"
    try:
        caution = _chosen(runtime, interpreters).caution
    except FunctionNotLoadable as error:
        return [Caution(about, f"error[{error.code}]: {who} cannot run: {error}.", logging.ERROR)]
    return [Caution(about, f"warning: {who}: {caution}.")] if caution else []


def runs_on(runtime: str, interpreters: Interpreters) -> str:
    """What functions of this runtime run on, in a few words, where that is not what its name says. Blocks as a try does."""
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


def _chosen(runtime: Runtime, interpreters: Interpreters) -> Chosen:
    kind, version = kind_of(runtime)
    return interpreters.python(version) if kind == "python" else interpreters.node(version)
