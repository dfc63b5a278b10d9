"""data-validation-worker: checks whether records fit a schema and keep a set of rules. The caller names both; the operator stores them.

Each record is first normalized, where the schema says which type a value has, and then checked. No model is asked, so the same records get
the same answer as long as the schema and the rules do not change.
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast import WorkerContext, WorkerError, worker
from holdfast.contract.paths import path_of_pointer
from holdfast.library.data_validation.normalizing import normalized

_MOST_ERRORS: Final = 200
"""At most this many errors are listed; the others are counted."""

RecordError = dict[str, Any]


@worker("worker.md")
async def validate(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Normalize each record, and check it against the schema and the rules that the operator stores under these names. Returns whether all
    records are valid, the problems that were found (at most 200; if there are more, warnings are left out first), and the normalized
    records if no record is invalid. Raises WorkerError if the schema or the ruleset is missing or cannot be used."""
    schema = await _kept("schemas", inputs["schema_name"], "schema_unknown", ctx)
    rules = await _kept("rulesets", inputs["ruleset_id"], "ruleset_unknown", ctx)
    if not isinstance(schema, dict) or not isinstance(rules, list):
        raise WorkerError(
            "ruleset_unusable",
            "The stored schema must be a JSON object, and the stored ruleset must be a JSON list of rules.",
            retryable=False,
        )
    records = [normalized(record, schema) for record in inputs["records"]]
    errors: list[RecordError] = []
    warnings: list[RecordError] = []
    found = invalid = 0
    for at, record in enumerate(records):
        told = [{"record": at, **problem} for problem in (*await _by_schema(record, schema, ctx), *await _by_rules(record, rules, ctx))]
        bad = [problem for problem in told if problem["severity"] == "error"]
        errors += bad[: _MOST_ERRORS - len(errors)]
        warnings += [problem for problem in told if problem["severity"] != "error"][: _MOST_ERRORS - len(warnings)]
        found, invalid = found + len(told), invalid + bool(bad)
    ctx.log("validated", records=len(records), invalid=invalid)
    listed = sorted([*errors, *warnings][:_MOST_ERRORS], key=lambda problem: problem["record"])
    checked = {"records": len(records), "invalid": invalid, "not_listed": found - len(listed)}
    outputs = {"valid": invalid == 0, "errors": listed, "checked": checked}
    return outputs if invalid else {**outputs, "normalized": records}


async def _kept(kind: str, name: str, code: str, ctx: WorkerContext) -> Any:
    """The schema or the ruleset that the operator stores under a name. A parameter that is a text is read as JSON, because some stores keep
    only texts. Raises WorkerError with `code` if there is none or this worker may not read it, and with `ruleset_unusable` if the text is
    not JSON. Other errors of the tool are passed on."""
    try:
        found = await ctx.tools.parameter_store(name=f"/data-validation-worker/{kind}/{name}")
    except WorkerError as failed:
        missing = isinstance(failed.details, dict) and failed.details.get("reason") == "not_found"
        if missing or failed.error_code == "tool_not_allowed":
            raise WorkerError(
                code, f"The operator has stored no {kind[:-1]} with the name {name!r} that this worker may read.", details={"name": name}
            ) from None
        raise
    try:
        return json.loads(found) if isinstance(found, str) else found
    except ValueError:
        raise WorkerError(
            "ruleset_unusable", f"The {kind[:-1]} {name!r} that the operator has stored is not JSON.", retryable=False
        ) from None


async def _by_schema(record: Any, schema: dict[str, Any], ctx: WorkerContext) -> list[RecordError]:
    try:
        told = await ctx.tools.json_schema_validate(value=record, schema=schema)
    except WorkerError as refused:
        raise _unusable(refused, "schema") from None
    return [
        {"code": "schema_mismatch", "path": path_of_pointer(problem["path"], record), "message": problem["reason"], "severity": "error"}
        for problem in told["problems"]
    ]


async def _by_rules(record: Any, rules: list[Any], ctx: WorkerContext) -> list[RecordError]:
    try:
        told = await ctx.tools.rules_engine(value=record, rules=rules)
    except WorkerError as refused:
        raise _unusable(refused, "rules") from None
    reasons: list[RecordError] = told["reasons"]
    return reasons


def _unusable(refused: WorkerError, what: str) -> WorkerError:
    """The error to raise after a tool failed: `ruleset_unusable` if the tool refused the operator's schema or rules (`what` names them in
    the message); any other error is returned unchanged."""
    if refused.error_code != "tool_failed":
        return refused
    return WorkerError("ruleset_unusable", f"The {what} cannot be used: {refused.message}", retryable=False)
