"""Hostile workers, each in its own way, and one honest worker."""

from __future__ import annotations

from typing import Any

from holdfast import WorkerContext, worker


@worker("neighbour.md")
def neighbour(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    return {"said": inputs["say"]}


@worker("doubling-question.md")
def asks(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Asks with a schema that expands to 2³⁶ others."""
    defs: dict[str, Any] = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(36)}
    for _ in range(inputs["times"]):
        try:
            ctx.ask("?", schema={"$defs": {**defs, "d36": {}}, "$ref": "#/$defs/d0"})
        except Exception:
            continue
    return {}


@worker("large-question.md")
def asks_much(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Asks with schemas that take long to compile, each another."""
    for number in range(inputs["times"]):
        patterns: dict[str, Any] = {f"^({number}{at}[a-z]{{1,40}}){{1,3}}$": {} for at in range(99)}
        try:
            ctx.ask("?", schema={"patternProperties": patterns})
        except Exception:
            continue
    return {}


@worker("slow-output.md")
def slow_output(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Its output takes long to check."""
    return {"a": [[3_999]] * 19_000}


@worker("wrong-output.md")
def wrong_output(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Its output is wrong in very many places."""
    return {"a": list(range(90_000))}


@worker("tree-output.md")
def tree_output(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Its output is a tree, which an evaluator checks."""
    tree: dict[str, Any] = {}
    for _ in range(150):
        tree = {"left": tree, "right": {}}
    return tree


@worker("empty-lists.md")
def empty_lists(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """A frame of a megabyte of empty lists."""
    ctx.progress([[]] * 340_000)
    return {}


@worker("large-frames.md")
def large_frames(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Frames as large as they may be, one after the other."""
    for _ in range(inputs["times"]):
        ctx.progress(list(range(90_000)))
    return {}


@worker("many-lines.md")
def many_lines(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Lines of a log, as many as are read."""
    for number in range(900):
        ctx.log("x" * 3_000, number=number)
    return {}


@worker("hidden-names.md")
def hidden_names(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Names that a pattern takes for ever to compare, in other engines."""
    return {"a" * 60 + "!" + str(number): number for number in range(2_000)}


@worker("slow-input.md")
def slow_input(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Its caller sends inputs that take long to check."""
    return {}
