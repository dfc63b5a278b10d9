"""Checks the outputs of a body against the contract's output schema, and moves large values of them into artifacts."""

from __future__ import annotations

import io

import msgspec

from holdfast.contract.checking import told_of
from holdfast.contract.protocol import ArtifactRef
from holdfast.contract.refusals import Overloaded
from holdfast.contract.terms import Contract
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.hosts.evaluator.schema_check import CheckTooCostly
from holdfast.hosts.evaluator.schema_check import problems as problems_of
from holdfast.workers.artifacts import Artifacts, moved_out
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.frames import BodyError
from holdfast.workers.tools.seam import ToolFailed


async def checked_outputs(outcome: AttemptResult, contract: Contract, artifacts: Artifacts, tenant: str, above: int) -> AttemptResult:
    """Check the outputs in the result of an attempt, and return the result. If the outputs have more than `above` bytes as JSON, the
    largest values are moved into artifacts. If the outputs do not fit the contract, or cannot be checked or stored, the returned result has
    an error and no outputs. If `outcome` itself has an error, it is returned unchanged."""
    if outcome.error is not None:
        return outcome
    try:
        problems = await problems_of(contract.gives, outcome.outputs, party_of(tenant, contract.worker_id))
    except (CheckTooCostly, Overloaded) as refused:
        return msgspec.structs.replace(outcome, outputs=None, error=BodyError(error_code=refused.code, message=str(refused)))
    if problems or not isinstance(outcome.outputs, dict):
        told = told_of(problems) or "the outputs are not an object"
        error = BodyError(
            error_code="output_schema_mismatch", message=f"The outputs do not fit: {told}.", details=msgspec.to_builtins(problems)
        )
        return msgspec.structs.replace(outcome, outputs=None, error=error)

    if len(msgspec.json.encode(outcome.outputs)) <= above:
        return outcome

    def keep(name: str, text: bytes) -> ArtifactRef:
        return artifacts.keep(tenant, name, "application/json", io.BytesIO(text).read)

    try:
        kept, moved = await moved_out(outcome.outputs, keep, above)
    except ToolFailed as large:
        return msgspec.structs.replace(outcome, outputs=None, error=BodyError(error_code=large.code, message=large.message))
    return msgspec.structs.replace(outcome, outputs=kept, artifacts=(*outcome.artifacts, *moved))
