"""The immutable Contract, its parts, and the problems of a page."""

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
    """One input or output, from a line of the Worker spec. `enum` has the allowed values, if `type` is "enum"."""

    name: str
    type: str
    optional: bool = False
    enum: tuple[str, ...] = ()


class ToolGrant(msgspec.Struct, frozen=True):
    """A tool that the worker may use. `optional`: whether the page says that the worker can do without it; a run treats both kinds
    alike."""

    name: str
    optional: bool = False


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run. None means that the contract sets no such limit."""

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
    """The tools that the worker may use. A call of any other tool is refused."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts a run has at most if its error is retryable, and how long it waits between two attempts. A part of the wait is
    random."""

    max_attempts: int = 1
    backoff: Literal["exponential", "linear", "fixed", "none"] = "exponential"
    initial_delay_seconds: float = 1
    max_delay_seconds: float = 60


class RateLimit(msgspec.Struct, frozen=True):
    """At most `count` runs in `per_seconds` seconds, for each tenant or for each user. `was_example`: the page gives the rate only as an
    example; the rate is enforced all the same."""

    count: int
    per_seconds: float
    per: Literal["tenant", "user"] = "tenant"
    was_example: bool = False


class Contract(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The content of a page (`worker.md` or `pipeline.md`), or of the arguments of a `Pipeline`: the inputs and outputs of the worker or
    pipeline, its limits and tools, and its error codes."""

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
    """The `$defs` of both schemas by name. If both have a definition with the same name, it is that of the input schema."""
    limits: RunLimits = RunLimits()
    egress: tuple[str, ...] | None = None
    """The domains that the worker may reach; empty for none. None means any public address."""
    approvals_required: tuple[str, ...] = ()
    retries: Retries = Retries()
    rate_limit: RateLimit | None = None
    schedule: str | None = None
    """When the worker is started, without inputs: a cron expression, with or without a time zone, or `every` and an interval. None: it has
    no schedule."""
    errors: dict[str, Named] = {}
    log_fields: tuple[str, ...] = ("worker_id", "attempt", "duration_ms", "status", "error_code")
    sha256: str = ""
    """The SHA-256 hash of the page, in hexadecimal."""

    @property
    def tools(self) -> tuple[ToolGrant, ...]:
        """The tools that the worker may use."""
        return self.limits.tools

    @cached_property
    def takes(self) -> Checker:
        """The input schema, compiled."""
        return checker_of(self.input_schema)

    @cached_property
    def gives(self) -> Checker:
        """The output schema, compiled."""
        return checker_of(self.output_schema)


class ProblemLevel(StrEnum):
    """The level of a problem. ERROR: the page cannot be used. WARNING: it can be used."""

    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """A problem of a page: what is wrong, where, and what to do."""

    level: ProblemLevel
    code: str
    section: str
    """The heading of the section that has the problem; empty if the problem belongs to no section."""
    line: int
    """The number of the line, from 1."""
    message: str

    def __str__(self) -> str:
        where = f"{self.section}, line {self.line}" if self.section else f"line {self.line}"
        return f"{self.level.value}[{self.code}] {where}: {self.message}"


class PageReading(msgspec.Struct, frozen=True):
    """The result of reading a page: the contract, which is None if there are errors, and the problems in the order of the page."""

    contract: Contract | None
    problems: tuple[Problem, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems of the level ERROR. With one of these, the page is not a contract."""
        return tuple(problem for problem in self.problems if problem.level is ProblemLevel.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems of the level WARNING. A page with only these is a contract."""
        return tuple(problem for problem in self.problems if problem.level is ProblemLevel.WARNING)
