"""The command and the environment variables of a new process. The process inherits no variable of the server, because a variable may
contain a secret of the server."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from holdfast.lambda_api.runtime.home_folders import TEMPORARY
from holdfast.lambda_api.runtime.interpreters import HERE, ChosenInterpreter, Interpreters
from holdfast.lambda_api.runtime.runtime_description import RESERVED, Runtime
from holdfast.model.errors import FunctionNotLoadable

_CLIENTS: Final = Path(__file__).parent / "clients"
_KNOWN: Final = re.compile(r"(?P<kind>python|nodejs)(?P<version>[0-9.]*?)(\.x)?")
_PLACES: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_ANY_PYTHON: Final = ("python", "python3")
WRAPPER: Final = "AWS_LAMBDA_EXEC_WRAPPER"
_PROXIES: Final = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def command_of(runtime: Runtime, interpreters: Interpreters) -> tuple[str, ...]:
    """The command that runs a function: its own command, or an interpreter with a runtime client and the handler. Blocks while an
    interpreter is tried. Raises FunctionNotLoadable if the runtime is not known, or if there is no interpreter for it."""
    if runtime.command:
        return runtime.command
    kind, version = kind_of(runtime)
    return _python(runtime, interpreters.python(version)) if kind == "python" else _node(runtime, _node_of(runtime, interpreters, version))


def kind_of(runtime: Runtime) -> tuple[str, str]:
    """The language in a runtime's name, `python` or `nodejs`, and its version, which may be empty. Raises FunctionNotLoadable for any other
    name."""
    known = _KNOWN.fullmatch(runtime.runtime)
    if known is None:
        raise FunctionNotLoadable(
            f"Function {runtime.function!r} wants the runtime {runtime.runtime!r}, which is not known here. "
            "Use Python or Node, such as python3.13 or nodejs22.x."
        )
    return known["kind"], known["version"]


def is_tried(runtime: Runtime, interpreters: Interpreters) -> bool:
    """Whether `command_of` does not block. False if it would first have to try an interpreter."""
    known = _KNOWN.fullmatch(runtime.runtime)
    return bool(runtime.command) or known is None or interpreters.knows(known["kind"], known["version"])


def _python(runtime: Runtime, chosen: ChosenInterpreter) -> tuple[str, ...]:
    if chosen.is_ours and _has_official_client():
        return sys.executable, "-s", "-m", "awslambdaric", runtime.handler
    return chosen.program, "-s", "-u", str(_CLIENTS / "python_client.py"), runtime.handler


@functools.cache
def _has_official_client() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("awslambdaric", "runtime_client"))


def _node_of(runtime: Runtime, interpreters: Interpreters, version: str) -> str:
    try:
        return interpreters.node(version).program
    except FunctionNotLoadable as error:
        raise FunctionNotLoadable(f"Function {runtime.function!r} wants the runtime {runtime.runtime!r}: {error}.") from None


def _node(runtime: Runtime, node: str) -> tuple[str, ...]:
    official = Path(runtime.folder, "node_modules", "aws-lambda-ric")
    built = (official / "bin" / "index.mjs").exists() and any(official.glob("**/rapid-client.node"))
    client = official / "bin" / "index.mjs" if built else _CLIENTS / "node_client.mjs"
    return node, *_heap(runtime), str(client), runtime.handler


def _heap(runtime: Runtime) -> Iterator[str]:
    """Node's options for its heap, with the sizes that Lambda sets: a tenth of the function's memory for young objects, in two halves, and
    the rest for old objects. Without them Node would let garbage grow to the memory of the machine, and would be killed for it. A size that
    the function's NODE_OPTIONS sets is left out here."""
    young = runtime.memory_mb // 10
    own = runtime.environment.get("NODE_OPTIONS", "").replace("_", "-")
    for option, size in (("--max-semi-space-size", young // 2), ("--max-old-space-size", runtime.memory_mb - young)):
        if option not in own:
            yield f"{option}={size}"


def wrapped(runtime: Runtime, command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, preceded by the program in the function's AWS_LAMBDA_EXEC_WRAPPER if that program can be run."""
    wrapper = wrapper_of(runtime)
    return command if wrapper is None else (wrapper, *command)


def wrapper_of(runtime: Runtime) -> str | None:
    """The program in the function's AWS_LAMBDA_EXEC_WRAPPER: a file of the function's code (on Lambda below /var/task), or a file of this
    machine. None if the variable is not set, if no such file can be run, or if the function has a command of its own."""
    named = runtime.environment.get(WRAPPER)
    if not named or runtime.command:
        return None
    inside = named.removeprefix("/var/task/")
    file = os.path.abspath(os.path.join(runtime.folder, inside))
    return file if os.path.isfile(file) and os.access(file, os.X_OK) else None


def environment_of(runtime: Runtime, command: tuple[str, ...], address: str, stream: str, home: str) -> dict[str, str]:
    """All environment variables of a new process: the standard ones of a Lambda function, and the function's own. The listener at `address`
    is its Runtime API and its Lambda service; `stream` is the name of its log stream. Unless the function sets PATH itself, the PATH begins
    with the folder of the program in `command`.

    `home` is a folder of this process alone, so interpreters and tools of different functions share no files in a home folder.
    """
    program = str(Path(shutil.which(command[0]) or command[0]).parent)
    standard = {
        "AWS_LAMBDA_FUNCTION_NAME": runtime.function,
        "AWS_LAMBDA_FUNCTION_VERSION": runtime.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(runtime.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": group_of(runtime.function),
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "AWS_LAMBDA_LOG_FORMAT": runtime.log_format,
        **({"AWS_LAMBDA_LOG_LEVEL": runtime.application_log_level or "INFO"} if runtime.log_format == "JSON" else {}),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{f'python{HERE}' if runtime.runtime in _ANY_PYTHON else runtime.runtime}",
        "AWS_REGION": runtime.region,
        "AWS_DEFAULT_REGION": runtime.region,
        "AWS_ACCESS_KEY_ID": "holdfast",
        "AWS_SECRET_ACCESS_KEY": "holdfast",
        "AWS_SESSION_TOKEN": "holdfast",
        # Without these, the SDKs would read the operator's home folder and ask the cloud's metadata service.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAMBDA_TASK_ROOT": runtime.folder,
        "LAMBDA_RUNTIME_DIR": str(_CLIENTS),
        "HOME": home,
        "TMPDIR": os.path.join(home, TEMPORARY),
        "PYTHONNOUSERSITE": "1",
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(dict.fromkeys((program, *_PLACES))),
        "TZ": ":UTC",
    }
    own = {name: value for name, value in runtime.environment.items() if name not in RESERVED}
    return standard | own | _ways_to_us(own, address) | {"_HANDLER": runtime.handler}


def _ways_to_us(own: Mapping[str, str], address: str) -> dict[str, str]:
    """The variables that send requests to the listener of a process. A function's own variables (`own`) cannot override them: else its
    checkpoints would go to another server."""
    found = {"AWS_LAMBDA_RUNTIME_API": address, "AWS_ENDPOINT_URL_LAMBDA": f"http://{address}"}
    # The SDKs prefer this variable to the setting of the same name in a config file.
    found["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "false"
    if any(name in own for name in _PROXIES):
        given = own.get("no_proxy") or own.get("NO_PROXY") or ""
        direct = given if given == "*" else ",".join(filter(None, (given, address.partition(":")[0])))
        found |= {"NO_PROXY": direct, "no_proxy": direct}
    return found


def group_of(function: str) -> str:
    """The log group of a function."""
    return f"/aws/lambda/{function}"
