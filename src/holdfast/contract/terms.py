"""The frozen Contract, its parts, and the problems of a page."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import msgspec

from holdfast.contract.checking import Checker, checker_of
from holdfast.contract.codes import Named

DEFAULT_TIMEOUT_SECONDS = 60
BUILT_IN_TOOLS = frozenset(
    {
        "fetch_url",
        "json_schema_validate",
        "language_model",
        "merge_rules",
        "parameter_store",
        "parse_html",
        "read_repo",
        "redact_pii",
        "rules_engine",
    }
)


class Field(msgspec.Struct, frozen=True):
    """One input or output, as a line of the Worker spec names it."""

    name: str
    type: str
    optional: bool = False
    enum: tuple[str, ...] = ()


class ToolGrant(msgspec.Struct, frozen=True):
    """A tool the worker may use. An optional one may be missing where the worker runs."""

    name: str
    optional: bool = False


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run. None: this contract has no such limit."""

    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    """The time limit of one attempt, which includes the start of the sandbox."""
    run_timeout_seconds: float | None = None
    idle_timeout_seconds: float | None = None
    max_tokens: int | None = None
    max_cost_usd: Decimal | None = None
    max_tool_calls: int | None = None
    tool_quotas: dict[str, int] = {}
    max_cpu_seconds: float | None = None
    max_memory_mb: int | None = None
    allow_subprocess: bool = False
    tools: tuple[ToolGrant, ...] = ()
    """The allow-list: any other tool is refused."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often a passing failure is tried again, and how long it waits; waits are jittered."""

    max_attempts: int = 1
    backoff: Literal["exponential", "linear", "fixed", "none"] = "exponential"
    initial_delay_seconds: float = 1
    max_delay_seconds: float = 60


class RateLimit(msgspec.Struct, frozen=True):
    """A number of runs in a number of seconds, for each tenant or each user."""

    count: int
    per_seconds: float
    per: Literal["tenant", "user"] = "tenant"
    was_example: bool = False


class Contract(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One worker.md page, read: what the worker takes, gives, may do and promises."""

    worker_id: str
    version: str
    title: str = ""
    problem: str = ""
    purpose: str = ""
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    defs: dict[str, Any] = {}
    """The `$defs` of both schemas; where both have a name, the input's."""
    limits: Limits = Limits()
    egress: tuple[str, ...] | None = None
    """The domains it may reach. None: any public address."""
    approvals_required: tuple[str, ...] = ()
    retries: Retries = Retries()
    rate_limit: RateLimit | None = None
    schedule: str | None = None
    """When it is started without inputs: a cron expression and perhaps a zone, or `every` and an interval."""
    errors: dict[str, Named] = {}
    log_fields: tuple[str, ...] = ("worker_id", "attempt", "duration_ms", "status", "error_code")
    sha256: str = ""
    """The hash of the page's text."""

    @property
    def tools(self) -> tuple[ToolGrant, ...]:
        """The tools it may use."""
        return self.limits.tools

    @cached_property
    def takes(self) -> Checker:
        """The input schema, compiled."""
        return checker_of(self.input_schema)

    @cached_property
    def gives(self) -> Checker:
        """The output schema, compiled."""
        return checker_of(self.output_schema)


class Level(StrEnum):
    """Whether a page can be used in spite of a problem."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a page, where, and what to do."""

    level: Level
    code: str
    section: str
    """The heading it stands under; empty above the first one."""
    line: int
    """The number of the line, from 1."""
    message: str

    def __str__(self) -> str:
        where = f"{self.section}, line {self.line}" if self.section else f"line {self.line}"
        return f"{self.level.value}[{self.code}] {where}: {self.message}"


class PageReading(msgspec.Struct, frozen=True):
    """The result of reading a page: a contract unless there are errors, and every problem in the order of the page."""

    contract: Contract | None
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that keep the page from being a contract."""
        return tuple(problem for problem in self.problems if problem.level is Level.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that leave no doubt about the meaning of the page."""
        return tuple(problem for problem in self.problems if problem.level is Level.WARNING)
