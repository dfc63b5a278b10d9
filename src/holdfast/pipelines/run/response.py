"""The response of a pipeline's run: the outputs that its nodes gave, or why it ended without outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.contract.codes import ResponseStatus, meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.resolved_templates import Unresolved
from holdfast.pipelines.graph.templates import form_of
from holdfast.pipelines.run.early_end import EarlyEnd
from holdfast.pipelines.run.undo import Unfinished
from holdfast.pipelines.scene.invocation import PipelineRun
from holdfast.pipelines.scene.mismatch import unresolved_error
from holdfast.workers.artifacts import ArtifactMissing
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.frames import BodyError
from holdfast.workers.logs import log_fields
from holdfast.workers.outputs import checked_outputs


async def responded(run: PipelineRun, ending: EarlyEnd | None, left: Sequence[Unfinished] = ()) -> Response:
    """The response of a run that has ended. `ending`: why the run has no outputs; None: the response has the outputs, or an error if they
    are not valid. `left`: the nodes that should have been undone and were not."""
    if ending is None:
        return await _given(run)
    error = ending.error
    details = {"node": ending.node, "details": error.details, "run_id": error.run_id}
    details = {name: value for name, value in details.items() if value is not None}
    message = error.message if ending.node is None else f"Node {ending.node} failed: {error.message}"
    if left:
        details = {"ended_by": {"error_code": error.code, "message": message, **details}, "not_undone": [one.node for one in left]}
        message = f"{' '.join(one.error.message for one in left)} The run had ended with {error.code}: {message}"
        return _answer(run, AttemptResult(error=BodyError(error_code="undo_failed", message=message, details=details)))
    told = BodyError(
        error_code=error.code, message=message, details=details or None, retryable=error.retryable, needs_human=error.needs_human
    )
    return _answer(run, AttemptResult(error=told))


async def _given(run: PipelineRun) -> Response:
    """The response with the outputs that the graph gives. A member of `gives` is left out as a whole if it refers to a node without a
    result, for instance a skipped node, or to a path without a value, and the reference has no default. The response has an error if an
    output has no value for another reason, if an artifact in the outputs is missing, or if the outputs are not an object or do not fit the
    contract."""
    outputs: Any = {}
    tenant, policy, artifacts = run.accepted.tenant, run.service.policy, run.service.artifacts
    for name, template in _members(run.graph.gives):
        found = await run.values.value(template, run.results())
        if isinstance(found, Unresolved):
            if found.reason in ("no_result", "missing"):
                continue
            error = unresolved_error("the outputs", found)
            return _answer(run, AttemptResult(error=BodyError(error_code=error.code, message=error.message, details=error.details)))
        try:
            whole = await run.values.whole(found)
        except ArtifactMissing as gone:
            return _answer(run, AttemptResult(error=BodyError(error_code=gone.code, message=str(gone))))
        outputs = whole if name is None else {**outputs, name: whole}
    return _answer(
        run, await checked_outputs(AttemptResult(outputs=outputs), run.contract, artifacts, tenant, policy.inline_artifact_bytes)
    )


def _members(gives: Template) -> list[tuple[str | None, Template]]:
    """The name and the template of each output. If the outputs are one template that is not a plain object, its name is None."""
    return [(None, gives)] if not isinstance(gives, dict) or form_of(gives) is not None else list(gives.items())


def _answer(run: PipelineRun, result: AttemptResult) -> Response:
    header, contract, error, partial = run.header, run.contract, result.error, run.is_partial
    status, told = ResponseStatus.OK, None
    if error is not None:
        meaning = meaning_of(error.error_code, deployed=contract.errors, needs_human=error.needs_human, retryable=error.retryable)
        status = meaning.status
        told = ResponseError(error_code=error.error_code, message=error.message, retryable=meaning.retryable, details=error.details)
    usage = run.records.usage()
    took = run.records.journal.clock.now() - header.started_at
    fields = {
        "worker_id": contract.worker_id,
        "attempt": 1,
        "duration_ms": took,
        "status": status.value,
        "error_code": None if error is None else error.error_code,
        "version": contract.version,
        "run_id": header.id,
        "tenant": run.accepted.tenant,
        "pipeline": contract.worker_id,
        **run.reporter.run.trace,
        "tool_calls": usage.tool_calls,
    }
    return Response(
        run_id=header.id,
        worker_id=contract.worker_id,
        version=contract.version,
        status=status,
        outputs=None if error is not None else result.outputs,
        error=told,
        artifacts=result.artifacts,
        observability=Observability(
            trace_id=run.accepted.trace_id,
            span_id=run.accepted.span_id,
            duration_ms=took,
            usage=usage,
            partial=partial and error is None,
            log_fields=log_fields(contract.log_fields, fields, ()),
        ),
    )
