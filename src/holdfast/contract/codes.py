"""The table of error codes: for each code the status, whether it is retried, the HTTP status and the exit code.

`docs/reference/codes.md` is made from it: `python -m tests.drawings.codes > docs/reference/codes.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class ResponseStatus(StrEnum):
    """How a run ended, or why it has not ended yet. NEEDS_HUMAN: a person must decide or look; the run waits for that, or has ended. A
    caller decides by the status what to do next."""

    OK = "ok"
    RETRYABLE_ERROR = "retryable_error"
    INVALID_REQUEST = "invalid_request"
    INVALID_OUTPUT = "invalid_output"
    NEEDS_HUMAN = "needs_human"
    PERMANENT_ERROR = "permanent_error"


class Meaning(msgspec.Struct, frozen=True):
    """What an error code means: its status, whether it is retried, the HTTP status, the exit code of the command line, and a
    description."""

    code: str
    status: ResponseStatus
    retryable: bool
    http: int
    exit: int
    what: str


class Named(msgspec.Struct, frozen=True):
    """A code that a contract names in its failure modes, and the rule that the page gives for it."""

    code: str
    retryable: bool | None = None
    """True: the page says that the code is retried. False: it says that the code is not retried. None: it says neither."""
    status: ResponseStatus | None = None
    unless_policy: bool = False
    """Whether the page says that the operator may change the rule ("non-retryable unless policy allows")."""


class StatusEnding(msgspec.Struct, frozen=True):
    """What follows from a status alone, without a code of the table: whether a run with this status is retried, the HTTP status and the
    exit code."""

    retryable: bool
    http: int
    exit: int


# The exit codes are those of the command line: 0 success, 1 failure, 2 the request must change, 3 this machine must change,
# 4 a person must decide, 5 an output does not fit the contract, 75 try again later (EX_TEMPFAIL of sysexits).
# A request that must not be repeated does not get 429, 502, 503 or 504: clients repeat such requests by themselves.
ENDINGS: Mapping[ResponseStatus, StatusEnding] = {
    ResponseStatus.OK: StatusEnding(False, 200, 0),
    ResponseStatus.RETRYABLE_ERROR: StatusEnding(True, 503, 75),
    ResponseStatus.INVALID_REQUEST: StatusEnding(False, 400, 2),
    ResponseStatus.INVALID_OUTPUT: StatusEnding(True, 502, 5),
    ResponseStatus.NEEDS_HUMAN: StatusEnding(False, 409, 4),
    ResponseStatus.PERMANENT_ERROR: StatusEnding(False, 422, 1),
}

_ROWS: tuple[tuple[ResponseStatus, tuple[tuple[str, int | None, str], ...]], ...] = (
    (
        ResponseStatus.INVALID_REQUEST,
        (
            ("schema_mismatch", None, "the request or its inputs do not fit; `details` names each place"),
            ("worker_not_found", 404, "no worker of that id is served here"),
            ("version_not_found", 404, "the worker is served here, but not in that version"),
            ("idempotency_conflict", 409, "the key was used before, with other inputs"),
            ("constraint_widened", None, "a constraint of the request asks for more than the contract allows"),
            ("pipeline_invalid", None, "the pipeline cannot be used as it is written; the message says what is wrong and where"),
            ("missing_diff_context", None, "the diff to be reviewed is cut off, is not a unified diff, or changes no line"),
        ),
    ),
    (
        ResponseStatus.INVALID_OUTPUT,
        (
            ("output_schema_mismatch", None, "the worker's outputs break its own output schema; `details` names each place"),
            ("edge_mismatch", 422, "what a node of a pipeline would get does not fit it; `details` names each edge"),
        ),
    ),
    (
        ResponseStatus.RETRYABLE_ERROR,
        (
            ("timeout", 504, "the attempt ran longer than `timeout_seconds`"),
            ("idle_timeout", 504, "the body sent no message for `idle_timeout_seconds`"),
            (
                "rate_limited",
                429,
                "a rate of the contract or of an outside service, or a limit of the day, is reached; try again after `retry_after_seconds`",
            ),
            ("overloaded", None, "too many requests are already waiting on this server"),
            ("worker_crashed", 502, "the body's process died, its code did not catch an error, or it sent a message that is not allowed"),
            ("tool_timeout", 504, "a tool did not answer in time"),
            ("tool_unavailable", None, "a tool could not be reached"),
            ("fetch_timeout", 504, "a page did not answer in time"),
        ),
    ),
    (
        ResponseStatus.PERMANENT_ERROR,
        (
            ("schema_too_costly", None, "a schema is above a limit, or checking a value against it took too long; the message says which"),
            ("budget_exceeded", None, "the run's tokens, cost or calls are spent"),
            (
                "estimate_exceeded",
                None,
                "the run may cost more than its caller or its tenant's day allows, and did not begin (`policy.estimate`)",
            ),
            ("price_unknown", None, "a cost cap holds, and the model has no known price"),
            ("tool_not_allowed", 403, "the contract does not allow this tool, or no provider has it"),
            ("tool_not_trusted", 403, "the tool runs outside the sandbox, and the operator trusts neither its folder nor its name"),
            ("tool_quota_exceeded", None, "the tool was called as often as its quota allows"),
            ("tool_failed", None, "a tool refused the call, and would refuse it again"),
            ("egress_denied", 403, "the contract or the operator does not let the worker reach this address"),
            ("access_denied", 403, "an outside server refused access: robots.txt, a login or a permission"),
            ("memory_exceeded", None, "the body used more than `max_memory_mb`, or used the most when all bodies together used too much"),
            ("cpu_exceeded", None, "the body used more than `max_cpu_seconds`"),
            ("disk_exceeded", None, "the body filled its scratch space"),
            ("process_limit", None, "the body tried to start a process that it may not start"),
            (
                "limits_unreadable",
                None,
                "the runner could not measure what the body uses, so it could not enforce the limits, and ended the body",
            ),
            ("step_limit", None, "the body began more steps than the operator allows (`policy.most.steps`)"),
            ("sandbox_unavailable", 501, "this machine cannot provide the isolation that was asked for; the message names what is missing"),
            ("cancelled", 409, "a caller cancelled the run"),
            ("artifact_not_found", 404, "no artifact of that id belongs to this tenant"),
            (
                "artifact_too_large",
                413,
                "an artifact is above the limit, or outputs are above 1 MiB: store large values with `ctx.artifact`",
            ),
            ("artifact_changed", 409, "a file became longer or shorter while it was stored as an artifact"),
            ("package_changed", 409, "the worker's code on disk is not the code that the run is pinned to, and is not run"),
            ("approval_rejected", 403, "a person rejected the approval"),
            ("approval_expired", 410, "no person decided in time"),
            ("approval_impossible", 409, "more persons must approve than may decide; the message names those who may"),
            ("merge_conflict", 409, "partial results contradict each other"),
            ("depth_exceeded", None, "the run would be nested too deep: a run that a run asked for, and so on"),
            ("run_unavailable", 501, "no worker can be run from a durable function in this process; the message says what to do instead"),
            ("gate_blocked", 409, "a gate of a pipeline blocked its value; `details` has the reasons"),
            ("route_unknown", None, "a route of a pipeline chose none of its labels, and has no `otherwise`"),
            ("supervise_unknown_choice", None, "a supervisor of a pipeline chose a label that its node does not have"),
            ("supervise_invalid_answer", None, "a supervisor of a pipeline gave no choice, no reason, or finished without outputs"),
            ("supervise_turns", None, "a supervisor of a pipeline did not finish within its turns"),
            (
                "until_not_reached",
                None,
                "the rules of an `until` of a pipeline did not hold after the last of its runs; `details` has the reasons",
            ),
            ("expired", 410, "the run waited in a queue for longer than it may (`ttl`)"),
            ("poison_message", None, "a message failed in every attempt, and is not tried again"),
        ),
    ),
    (
        ResponseStatus.NEEDS_HUMAN,
        (
            ("unknown_outcome", 202, "it is not known whether a side effect happened; a person must find out before it is tried again"),
            ("receipt_conflict", None, "the same call was made before, with other arguments"),
            ("approval_required", 202, "a person must approve before the run continues"),
            ("undo_failed", None, "an undo of a pipeline failed, and a person left it as it is; `details` names the nodes"),
        ),
    ),
)
_EXITS = {"sandbox_unavailable": 3}
_FINAL = frozenset({"edge_mismatch"})
"""Codes that are not retried, although other codes of the same status are: the same values would not fit the next time either."""


def _table() -> dict[str, Meaning]:
    return {code: _row(code, status, http, what) for status, rows in _ROWS for code, http, what in rows}


def _row(code: str, status: ResponseStatus, http: int | None, what: str) -> Meaning:
    ending = ENDINGS[status]
    return Meaning(code, status, ending.retryable and code not in _FINAL, http or ending.http, _EXITS.get(code, ending.exit), what)


CODES: Mapping[str, Meaning] = _table()
"""The codes that mean the same for every worker. A contract may add other codes, but cannot change the meaning of these."""


def meaning_of(
    code: str,
    *,
    deployed: Mapping[str, Named] | None = None,
    retry_codes: Mapping[str, bool] | None = None,
    needs_human: bool = False,
    retryable: bool | None = None,
) -> Meaning:
    """What a code means. If the code is in the table, the table says it; else the contract's rule for the code (`deployed`); without a
    rule, the worker that raised the error (`retryable`; None means not retryable).

    `needs_human` changes the status to NEEDS_HUMAN. `retry_codes` are the operator's rules. For a code with the status RETRYABLE_ERROR,
    PERMANENT_ERROR or INVALID_OUTPUT they decide whether it is retried; a rule for a code of another status is ignored. If such a rule
    changes this, the status changes too, to RETRYABLE_ERROR or PERMANENT_ERROR; but INVALID_OUTPUT stays.
    """
    known = CODES.get(code) or _named((deployed or {}).get(code)) or _said(code, retryable)
    if needs_human and known.status is not ResponseStatus.NEEDS_HUMAN:
        known = _ended(known, ResponseStatus.NEEDS_HUMAN)
    again = (retry_codes or {}).get(code)
    if again is None or again == known.retryable:
        return known
    if known.status is ResponseStatus.INVALID_OUTPUT:
        return _output(known, again)
    if known.status not in (ResponseStatus.RETRYABLE_ERROR, ResponseStatus.PERMANENT_ERROR):
        return known
    return _ended(known, ResponseStatus.RETRYABLE_ERROR if again else ResponseStatus.PERMANENT_ERROR)


def ending_of(status: ResponseStatus) -> StatusEnding:
    """What follows from a status alone: for a response without an error code, such as one with the status `ok`."""
    return ENDINGS[status]


def output_http(retryable: bool) -> int:
    """The HTTP status for outputs that do not fit (INVALID_OUTPUT). If they are not retried, it is a status after which clients do not
    repeat the request by themselves."""
    return ENDINGS[ResponseStatus.INVALID_OUTPUT if retryable else ResponseStatus.PERMANENT_ERROR].http


def _named(named: Named | None) -> Meaning | None:
    if named is None or (named.retryable is None and named.status is None):
        return None
    status = named.status or (ResponseStatus.RETRYABLE_ERROR if named.retryable else ResponseStatus.PERMANENT_ERROR)
    known = _of(named.code, status, "named by the worker's contract")
    return known if named.retryable is None else _output(known, named.retryable)


def _said(code: str, retryable: bool | None) -> Meaning:
    return _of(code, ResponseStatus.RETRYABLE_ERROR if retryable else ResponseStatus.PERMANENT_ERROR, "raised by the worker")


def _output(known: Meaning, retryable: bool) -> Meaning:
    """`known` with this `retryable`, if its status is INVALID_OUTPUT: the status stays, and only the HTTP status may change. Any other
    `known` is returned unchanged."""
    if known.status is not ResponseStatus.INVALID_OUTPUT:
        return known
    return msgspec.structs.replace(known, retryable=retryable, http=output_http(retryable))


def _ended(known: Meaning, status: ResponseStatus) -> Meaning:
    return _of(known.code, status, known.what)


def _of(code: str, status: ResponseStatus, what: str) -> Meaning:
    return Meaning(code, status, ENDINGS[status].retryable, ENDINGS[status].http, ENDINGS[status].exit, what)
