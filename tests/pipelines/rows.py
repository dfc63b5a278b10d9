"""Nodes that the rows of the table are made of."""

from __future__ import annotations

from typing import Any

from holdfast.pipelines.graph.graph import (
    After,
    GateNode,
    MergeNode,
    MergePart,
    Rule,
    WorkerNode,
)
from tests.pipelines.templates import out

DAY = 86_400


def worker_node(name: str = "a", worker: str = "double", n: Any = 3, **more: Any) -> WorkerNode:
    return WorkerNode(name=name, worker=worker, inputs={"n": n}, **more)


def after(*names: str) -> tuple[After, ...]:
    return tuple(After(*name.split(":")) for name in names)


def optional_n(source: str) -> dict[str, Any]:
    return {"n": out(source, "n", default=-1)}


def failing(**more: Any) -> WorkerNode:
    return worker_node("a", "fails", **more)


def gate(name: str = "g", **more: Any) -> GateNode:
    return GateNode(name=name, candidate=more.pop("candidate", {"n": out("a", "n")}), **more)


NEEDS_N = {"type": "object", "required": ["n"]}
BIG = Rule(path=".n", op="at_least", value=100, code="small")


def merge(**more: Any) -> MergeNode:
    parts = more.pop("parts", (MergePart("a", out("a")), MergePart("b", out("b"))))
    return MergeNode(name="r", parts=parts, policy=more.pop("policy", "best_effort"), **more)
