"""What a function version needs to run in a process, and how far processes may go."""

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
"""What a function's own environment cannot set, as on AWS. There region and credentials are reserved too; here they are the operator's to
give, since nobody else gives any."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one function, as a process runs it."""

    function: str
    version: str = LATEST
    folder: str
    """Where its code is; the process begins there."""
    handler: str
    runtime: str = "python3"
    """Lambda's name of the runtime: `python3.13`, `nodejs22.x`. Without a version it is what this machine has."""
    command: tuple[str, ...] = ()
    """What to start instead of a known runtime: anything that speaks the Runtime API."""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    timeout_seconds: float = 3
    memory_mb: int = 128
    durable: bool = True
    log_format: Literal["Text", "JSON"] = "Text"
    application_log_level: str | None = None
    """With JSON, what of the function's own records is kept: this level and graver ones. INFO if not given."""
    system_log_level: str | None = None
    """The same for what the platform says of it."""
    region: str = REGION

    @property
    def arn(self) -> str:
        """The function's ARN, with its version."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}:{self.version}"

    def checked(self) -> Runtime:
        """This description, if a process could be started by it."""
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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes, and how long they are kept."""

    processes: int = 16
    """At most, over all functions. One that waits for a function that it invoked itself gives its place to others meanwhile."""
    per_function: int = 8
    nested: int = 16
    """How many may wait so at a time; whoever invokes beyond that is refused at once."""
    waiting: int = 1000
    """Invocations that wait for a process, over all functions; more are refused."""
    invocations: int = 10_000
    """After so many a process makes room for a fresh one."""
    idle_seconds: float = 600
    init_seconds: float = 30
    kill_seconds: float = 5
    """How long the guard of a process may take to end it before it is ended itself."""
