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
"""Environment variables that a function's configuration cannot set, as on AWS. AWS also reserves the region and the credentials. Here a
function may set those, because this server has no real ones to give."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one function, as a process runs it."""

    function: str
    version: str = LATEST
    folder: str
    """The folder of the function's code. It is the working directory of the process."""
    handler: str
    runtime: str = "python3"
    """Lambda's name of the runtime, such as `python3.13` or `nodejs22.x`. Without a version (`python3`, `nodejs`): the Python of this
    server, or any Node on the path."""
    command: tuple[str, ...] = ()
    """A command to start instead of the runtime: any program that uses the Runtime API. Empty: `runtime` and `handler` decide."""
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
        """Return this description. Raises InvalidParameter if it has neither a handler nor a command, or if the timeout, a log level or an
        environment variable is not allowed."""
        if not self.handler and not self.command:
            raise InvalidParameter(f"Function {self.function!r} has no handler; name it as `module.function`.")
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT_SECONDS:
            raise InvalidParameter(
                f"Function {self.function!r}: its timeout is {self.timeout_seconds} s; use more than 0 and at most {MAX_TIMEOUT_SECONDS} s."
            )
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
                raise InvalidParameter(
                    f"Function {self.function!r}: variable {name!r:.100}: its name is empty or has `=`, or name or value has a NUL byte."
                )
        return self


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes a host may have, how many invocations may wait for them, and how long processes are kept."""

    processes: int = 16
    """The most processes of all functions together. A process that waits for a function that it invoked is not counted."""
    per_function: int = 8
    """The most processes of one function version. A process that waits for a function that it invoked is not counted."""
    nested: int = 16
    """The most processes that may wait for functions that they invoked. If one more process invokes a function, its request is refused."""
    waiting: int = 1000
    """If this many invocations of all functions wait for a process, a further synchronous call of a plain function is refused. Invocations
    of executions are never refused for this."""
    invocations: int = 10_000
    """After this many invocations a process is ended. A new one is started when a job needs it."""
    idle_seconds: float = 600
    """A process that is idle for this time is ended."""
    init_seconds: float = 30
    """How long a process may take from its start until it asks for its first job. If it takes longer, it is killed."""
    kill_seconds: float = 5
    """How long a guard may take to kill its processes. If it takes longer, the guard itself is killed."""
