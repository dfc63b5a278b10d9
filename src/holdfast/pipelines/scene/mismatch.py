"""Makes the errors for values that do not fit the node that gets them. The errors name the edges of the graph, so that the author sees
from which node each value came."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response, ResponseError
from holdfast.pipelines.graph.graph import Template
from holdfast.pipelines.graph.paths import text_of
from holdfast.pipelines.graph.resolved_templates import Unresolved
from holdfast.pipelines.graph.templates import Reference, references_in
from holdfast.pipelines.record.results import NodeError

CODE = "edge_mismatch"


def unresolved_error(node: str, unresolved: Unresolved) -> NodeError:
    """The error of a node (or of the outputs) whose template has no value."""
    edge = f"{unresolved.source}{text_of(unresolved.path)} → {node}"
    details = {"edges": [{"from": f"{unresolved.source}{text_of(unresolved.path)}", "to": node, "reason": unresolved.reason}]}
    return NodeError(code=CODE, message=f"The value for {node} cannot be made. {unresolved} ({edge}).", details=details)


def no_object_error(node: str) -> NodeError:
    """The error of a node whose inputs are not an object."""
    return NodeError(code=CODE, message=f"The inputs of {node} are not an object.")


def edge_error(node: str, template: Template, refused: Response) -> Response:
    """The response `refused`, with its error replaced by `edge_mismatch`. The details of the new error name every edge whose value does not
    fit; its message names at most five. If `refused` lists no problems, the new error has the old details, and the old message is
    part of the new one."""
    assert refused.error is not None
    problems = refused.error.details if isinstance(refused.error.details, list | tuple) else ()
    edges = [_edge(node, template, msgspec.to_builtins(problem)) for problem in problems]
    told = "; ".join(f"{edge['from']} → {edge['to']}: {edge['reason']}" for edge in edges[:5]) or refused.error.message
    error = ResponseError(
        error_code=CODE,
        message=f"The inputs of {node} do not fit the contract of its worker: {told}.",
        retryable=False,
        details={"edges": edges} if edges else refused.error.details,
    )
    return msgspec.structs.replace(refused, status=ResponseStatus.INVALID_OUTPUT, error=error)


def _edge(node: str, template: Template, problem: Any) -> dict[str, str]:
    path = str(problem.get("path", "")) if isinstance(problem, dict) else ""
    parts = [part for part in path.split("/") if part]
    reason = str(problem.get("reason", "")) if isinstance(problem, dict) else str(problem)
    return {"from": _source(template, parts), "to": f"{node}{text_of(parts)}", "reason": reason}


def _source(template: Template, parts: list[str]) -> str:
    """The reference from which the value at a place of the inputs came, as text; `the graph` for a value that is written in the template
    itself. `parts` is the path to that place."""
    nearest: Reference | None = None
    for reference in references_in(template):
        where = [str(part) for part in reference.where]
        if where == parts[: len(where)] and (nearest is None or len(where) > len(nearest.where)):
            nearest = reference
    return "the graph" if nearest is None else f"{nearest.source}{text_of(nearest.path)}"
