"""The contract that a graph holds: how it is read and written, and the time limit that it sets for a run."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.contract.checking import Checker, SchemaInvalid
from holdfast.contract.terms import DEFAULT_TIMEOUT_SECONDS, Contract, RunLimits
from holdfast.model import json_structs
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.graph.refusals import PipelineInvalid


def contract_in(graph: Graph) -> Contract:
    """Read the contract that a graph holds. Raises PipelineInvalid if it is not a valid contract."""
    try:
        contract = json_structs.converted(graph.contract, Contract)
        Checker(contract.input_schema)
        Checker(contract.output_schema)
        return contract
    except (msgspec.ValidationError, SchemaInvalid, RecursionError) as wrong:
        raise PipelineInvalid(str(wrong)[:400], "contract") from None


def json_of(contract: Contract) -> dict[str, Any]:
    """A contract in the JSON form that a graph contains. `sha256`, the hash of the page's text, is emptied, so that equal contracts have
    the same JSON, whether they come from a page or from a Python file."""
    written: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(contract, sha256=""))
    for part in ("limits", "retries", "rate_limit"):
        if written[part] is not None:
            written[part] = {key: _whole(value) for key, value in written[part].items()}
    if (cost := contract.limits.max_cost_usd) is not None:
        written["limits"]["max_cost_usd"] = f"{cost.normalize():f}"
    return written


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def time_limit(limits: RunLimits) -> float | None:
    """The most seconds that a pipeline's run may take: the smaller of `run_timeout_seconds` and `timeout_seconds`. None means no limit. A
    `timeout_seconds` that is equal to the default counts as not set."""
    own = limits.timeout_seconds if limits.timeout_seconds != DEFAULT_TIMEOUT_SECONDS else None
    given = [seconds for seconds in (limits.run_timeout_seconds, own) if seconds is not None]
    return min(given, default=None)
