"""Writes a contract as sections of a page: its keys in the Pipeline spec, the two schemas, the constraints, and the failure modes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.contract.codes import Named
from holdfast.contract.page import CONSTRAINTS, FAILURES, INPUT_SCHEMA, OUTPUT_SCHEMA
from holdfast.contract.terms import Contract, Field, RateLimit, Retries, ToolGrant
from holdfast.pipelines.graph.contract import json_of


def spec_lines(contract: Contract) -> Iterator[str]:
    """The lines of a Pipeline spec for the keys of the contract."""
    yield f"pipeline_id: {contract.worker_id}"
    yield f"version: {contract.version}"
    if contract.purpose:
        yield f"purpose: {_prose(contract.purpose)}"
    sides = (("inputs", contract.inputs, contract.input_schema), ("outputs", contract.outputs, contract.output_schema))
    for key, fields, schema in sides:
        if fields and _plain(fields):
            yield f"{key}:"
            yield from (f"  - {field.name}: {_type(field)}" for field in fields)
        elif not fields and not schema.get("properties"):
            yield f"{key}: []"
    if contract.log_fields != _default_log_fields():
        yield "observability:"
        yield f"  log_fields: [{', '.join(contract.log_fields)}]"


def sections(contract: Contract) -> Iterator[tuple[str, str]]:
    """The heading and the text of each section after the spec."""
    yield INPUT_SCHEMA, _json(contract.input_schema)
    yield OUTPUT_SCHEMA, _json(contract.output_schema)
    yield CONSTRAINTS, _json(_constraints(contract))
    if contract.errors:
        yield FAILURES, "\n".join(f"- {_failure(named)}" for named in contract.errors.values())


def _prose(text: str) -> str:
    """A purpose, written so that the reader gets the same text back: in quotes if it begins with a quote, `>` or `|`, or if it begins or
    ends with a space."""
    if text[0] in "\"'" or text.strip() != text or text[0] in ">|":
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text


def _plain(fields: tuple[Field, ...]) -> bool:
    return all(
        field.name.replace("_", "a").replace("-", "a").isalnum() and field.name.isascii() and not field.name[0].isdigit()
        for field in fields
    )


def _type(field: Field) -> str:
    kind = f"enum({', '.join(map(_choice, field.enum))})" if field.type == "enum" else field.type
    return f"{kind} (optional)" if field.optional else kind


def _choice(text: str) -> str:
    return text if text.replace("_", "a").replace("-", "a").isalnum() else json.dumps(text, ensure_ascii=False)


def _default_log_fields() -> tuple[str, ...]:
    return next(field.default for field in msgspec.structs.fields(Contract) if field.name == "log_fields")


def _constraints(contract: Contract) -> dict[str, Any]:
    written = json_of(contract)
    limits: dict[str, Any] = {key: value for key, value in written["limits"].items() if key != "tools"}
    made = {key: value for key, value in limits.items() if value is not None and value is not False and value != {}}
    if contract.limits.max_cost_usd is not None:
        made["max_cost_usd"] = float(contract.limits.max_cost_usd)
    retries = {key: value for key, value in written["retries"].items() if value != getattr(Retries(), key)}
    if retries:
        made["retries"] = retries
    made["tools_allowed"] = [_tool(tool) for tool in contract.limits.tools]
    if contract.egress is not None:
        made["egress"] = list(contract.egress)
    if contract.approvals_required:
        made["approvals_required"] = list(contract.approvals_required)
    if contract.rate_limit is not None:
        made["rate_limit"] = _rate(contract.rate_limit)
    if contract.schedule is not None:
        made["schedule"] = contract.schedule
    return made


def _tool(tool: ToolGrant) -> str:
    return f"{tool.name} (optional)" if tool.optional else tool.name


def _rate(rate: RateLimit) -> str:
    span = f"{rate.per_seconds:g}s" if rate.per_seconds == int(rate.per_seconds) else f"{rate.per_seconds * 1000:g}ms"
    text = f"{rate.count}/{'min' if rate.per_seconds == 60 else span}"
    return f"per-{rate.per} (example: {text})" if rate.was_example else f"{text} per {rate.per}"


def _failure(named: Named) -> str:
    said = [f"error_code={named.code}"]
    if named.retryable is not None:
        said.append(f"retryable={str(named.retryable).lower()}")
    if named.status is not None:
        said.append(f"status={named.status.value}")
    return ", ".join([*said, *(["unless policy allows"] if named.unless_policy else [])])


def _json(value: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"
