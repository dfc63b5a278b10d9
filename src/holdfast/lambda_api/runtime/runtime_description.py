"""Runtime: what a function version needs to run in a process. PoolLimits: how many processes there may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.ids import ACCOUNT, LATEST, REGION

NOTHING: Final[Mapping[str, str]] = {}
MAX_TIMEOUT_SECONDS: Final = 900
APPLICATION_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
SYSTEM_LEVELS: Final = ("DEBUG", "INFO", "WARN")
RESERVED: Final = frozenset({
    "_HANDLER", "_X_AMZN_TRACE_ID", "AWS_EXECUTION_ENV", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_LAMBDA_RUNTIME_API", "LAMBDA_RUNTIME_DIR", "LAMBDA_TASK_ROOT",
})  # fmt: skip
"""Variables that a function's own environment cannot set, as on AWS. AWS also reserves region and credentials; here the operator sets
them, because this server provides none."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one function, as a process runs it."""

    function: str
    version: str = LATEST
    folder: str
    """The folder of its code, which is the working directory of the process."""
    handler: str
    runtime: str = "python3"
    """Lambda's name of the runtime: `python3.13`, `nodejs22.x`. Without a version: any version that this machine has."""
    command: tuple[str, ...] = ()
    """The command to start instead of a known runtime: any program that uses the Runtime API."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    timeout_seconds: float = 3
    memory_mb: int = 128
    durable: bool = True
    log_format: Literal["Text", "JSON"] = "Text"
    application_log_level: str | None = None
    """With LogFormat JSON: the lowest level of the function's own records that is kept. None means INFO."""
    system_log_level: str | None = None
    """With LogFormat JSON: the lowest level of the platform's records about the function that is kept. None means INFO."""
    region: str = REGION

    @property
    def arn(self) -> str:
        """The function's ARN, with its version."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}:{self.version}"

    def checked(self) -> Runtime:
        """Return this description, or raise when no process could be started with it."""
        if not self.handler and not self.command:
            raise InvalidParameter(f"Function {self.function!r} has no handler; name it as `module.function`.")
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT_SECONDS:
            raise InvalidParameter(f"Function {self.function!r}: its timeout is {self.timeout_seconds}; use up to {MAX_TIMEOUT_SECONDS} s.")
        for name, level, known in (
            ("ApplicationLogLevel", self.application_log_level, APPLICATION_LEVELS),
            ("SystemLogLevel", self.system_log_level, SYSTEM_LEVELS),
        ):
            if level is not None and level not in known:
                raise InvalidParameter(f"LoggingConfig: its {name} is {level!r:.50}; it must be one of {', '.join(known)}.")
            if level is not None and self.log_format != "JSON":
                raise InvalidParameter(f"LoggingConfig: {name} needs LogFormat JSON; with Text every record is kept.")
        for name, value in self.environment.items():
            if not name or "=" in name or "\0" in name + value:
                raise InvalidParameter(f"Function {self.function!r}: {name!r} cannot be an environment variable.")
        return self


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes, and how long they are kept."""

    processes: int = 16
    """The most processes of all functions. A process that waits for a function that it invoked does not count."""
    per_function: int = 8
    nested: int = 16
    """The most processes that may wait like this at one time. One more invocation from inside a function is refused at once."""
    waiting: int = 1000
    """The most invocations that may wait for a process, over all functions. More are refused."""
    invocations: int = 10_000
    """After this many invocations a process is replaced by a new one."""
    idle_seconds: float = 600
    init_seconds: float = 30
    kill_seconds: float = 5
    """How long a guard may take to end its process. After that the guard itself is killed."""
