"""What a process is started with: its command and its environment. Nothing of ours is inherited, so that no secret of ours is."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from holdfast.hosts.runtime.description import Runtime
from holdfast.model.errors import FunctionNotLoadable

log = logging.getLogger("holdfast.hosts")

_CLIENTS: Final = Path(__file__).parent / "clients"
_KNOWN: Final = re.compile(r"(?P<kind>python|nodejs)(?P<version>[0-9.]*?)(\.x)?")
_PLACES: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_HERE: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ANY_PYTHON: Final = ("python", "python3")
RESERVED: Final = ("AWS_LAMBDA_RUNTIME_API", "_HANDLER")
"""What a function's own environment cannot set: without it the process could not be reached."""


def command_of(runtime: Runtime) -> tuple[str, ...]:
    """The command that runs a function: its own, or the client of its language's runtime."""
    if runtime.command:
        return runtime.command
    known = _KNOWN.fullmatch(runtime.runtime)
    if known is None:
        raise FunctionNotLoadable(
            f"Function {runtime.function!r} wants the runtime {runtime.runtime!r}, which is not known here. Known are python and nodejs."
        )
    return _python(runtime, known["version"]) if known["kind"] == "python" else _node(runtime)


def _python(runtime: Runtime, version: str) -> tuple[str, ...]:
    if version in ("", "3", _HERE):
        if _has_official_client():
            return sys.executable, "-m", "awslambdaric", runtime.handler
        return sys.executable, "-u", str(_CLIENTS / "python_client.py"), runtime.handler
    found = shutil.which(f"python{version}")
    if found is None:
        log.warning("%s wants Python %s, which is not here; it runs on %s", runtime.function, version, _HERE)
    return found or sys.executable, "-u", str(_CLIENTS / "python_client.py"), runtime.handler


@functools.cache
def _has_official_client() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("awslambdaric", "runtime_client"))


def _node(runtime: Runtime) -> tuple[str, ...]:
    node = shutil.which("node")
    if node is None:
        raise FunctionNotLoadable(f"Function {runtime.function!r} wants the runtime {runtime.runtime!r}, and there is no `node` here.")
    official = Path(runtime.folder, "node_modules", "aws-lambda-ric")
    if (official / "bin" / "index.mjs").exists() and any(official.glob("**/rapid-client.node")):
        return node, str(official / "bin" / "index.mjs"), runtime.handler
    return node, str(_CLIENTS / "node_client.mjs"), runtime.handler


def environment_of(runtime: Runtime, command: tuple[str, ...], address: str, stream: str) -> dict[str, str]:
    """The standard variables of a Lambda function, then its own; the listener at `address` is its Runtime API and its Lambda service."""
    program = str(Path(shutil.which(command[0]) or command[0]).parent)
    standard = {
        "AWS_LAMBDA_FUNCTION_NAME": runtime.function,
        "AWS_LAMBDA_FUNCTION_VERSION": runtime.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(runtime.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": group_of(runtime.function),
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "AWS_LAMBDA_LOG_FORMAT": runtime.log_format,
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{f'python{_HERE}' if runtime.runtime in _ANY_PYTHON else runtime.runtime}",
        "AWS_REGION": runtime.region,
        "AWS_DEFAULT_REGION": runtime.region,
        "AWS_ACCESS_KEY_ID": "holdfast",
        "AWS_SECRET_ACCESS_KEY": "holdfast",
        "AWS_SESSION_TOKEN": "holdfast",
        # Else the SDKs look into the operator's home, and ask the machine's cloud.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL_LAMBDA": f"http://{address}",
        "LAMBDA_TASK_ROOT": runtime.folder,
        "LAMBDA_RUNTIME_DIR": str(_CLIENTS),
        "HOME": tempfile.gettempdir(),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(dict.fromkeys((program, *_PLACES))),
        "TZ": ":UTC",
    }
    own = {name: value for name, value in runtime.environment.items() if name not in RESERVED}
    return standard | own | {"AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": runtime.handler}


def group_of(function: str) -> str:
    """The log group of a function."""
    return f"/aws/lambda/{function}"
