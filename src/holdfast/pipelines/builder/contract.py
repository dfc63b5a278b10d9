"""The contract of a pipeline without a page, made from the arguments of `Pipeline(…)` in its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.contract.checking import Checker, SchemaInvalid
from holdfast.contract.jsonblocks import JsonBlock
from holdfast.contract.notes import PageNotes
from holdfast.contract.schemas import defs_of, fields_of
from holdfast.contract.terms import Contract, RunLimits
from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.pipelines.builder.arguments import caps_of
from holdfast.pipelines.graph.bounds import check_contract
from holdfast.pipelines.graph.durations import seconds_of
from holdfast.pipelines.graph.refusals import PipelineInvalid


def contract_of_arguments(given: Mapping[str, Any]) -> Contract:
    """The contract of `Pipeline("id", "1.0", inputs=…, outputs=…)`. Raises PipelineInvalid if an argument is wrong."""
    contract = {
        "worker_id": given["page_or_id"],
        "version": given["version"],
        "input_schema": _schema(given["inputs"], "inputs="),
        "output_schema": _schema(given["outputs"], "outputs="),
    }
    check_contract(contract)
    purpose = given.get("purpose", "")
    if not isinstance(purpose, str):
        raise PipelineInvalid(f"purpose= is {purpose!r:.80}; it must be a text.")
    caps = caps_of(None, given.get("max_tokens"), given.get("max_cost_usd"))
    limits = RunLimits(max_tokens=caps.max_tokens, max_cost_usd=caps.max_cost_usd)
    if given.get("timeout") is not None:
        seconds = seconds_of(given["timeout"], "timeout=")
        limits = msgspec.structs.replace(limits, timeout_seconds=seconds, run_timeout_seconds=seconds)
    return Contract(
        **contract,
        purpose=" ".join(purpose.split()),
        inputs=fields_of(contract["input_schema"]),
        outputs=fields_of(contract["output_schema"]),
        defs=_defs(contract),
        limits=limits,
    )


def _defs(contract: Mapping[str, Any]) -> dict[str, Any]:
    """The `$defs` of the input schema and the output schema together. If both have the same name, that of the input schema is used. Raises
    PipelineInvalid if they are too large together."""
    notes = PageNotes()
    blocks = {side: JsonBlock(contract[side], 1, {}) for side in ("input_schema", "output_schema")}
    defs = defs_of({side: contract[side] for side in blocks}, blocks, notes)
    if notes.failed:
        raise PipelineInvalid(notes.problems()[0].message)
    return defs


def _schema(schema: Any, what: str) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = codec.loads(codec.dumps(schema))
        Checker(plain)
    except (HoldfastError, SchemaInvalid) as wrong:
        raise PipelineInvalid(f"{what} is not a JSON Schema: {wrong}") from None
    if plain.get("type", "object") != "object":
        raise PipelineInvalid(
            f"{what} must describe an object, and its type is {plain['type']!r:.40}. Make the value a field of an object."
        )
    return plain
