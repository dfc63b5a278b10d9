"""Handles: what the verbs of a Pipeline return. A handle stands for a node, and has references to the parts of its result."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from holdfast.pipelines.builder.expressions import Items, Ref, Valued
from holdfast.pipelines.graph.graph import After, Template
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import Reference

R = TypeVar("R", bound=Ref)


class Handle(Valued):
    """Stands for a node of the pipeline. Used as a value, it is a reference to what the node gives."""

    def __init__(self, name: str, kind: str, given: tuple[str | int, ...] | None = ("outputs",)) -> None:
        self.name = name
        """The node's name."""
        self._kind = kind
        self._given = given

    def __repr__(self) -> str:
        return f"<{self._kind} {self.name}>"

    def template(self) -> Template:
        """The reference to what the node gives."""
        if self._given is None:
            raise PipelineInvalid(f"{self!r} gives no value. Name it in after= to wait for it.")
        return Ref(Reference(source=self.name, path=self._given)).template()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = sorted(each for each in dir(type(self)) if not each.startswith("_") and each != "template")
        hint = f" Did you mean {self.name}.outputs.{name}?" if "outputs" in known else ""
        raise PipelineInvalid(f"{self!r} has no {name!r}; it has {', '.join(['name', *known])}.{hint}")


class Member(Generic[R]):
    """A member of a node's result, as an attribute of its handle: a reference to it."""

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type[Handle], name: str) -> None:
        self._name = name

    def __get__(self, handle: Handle, owner: type[Handle]) -> R:
        return self._kind(Reference(source=handle.name, path=(self._name,)))


class WorkerHandle(Handle):
    """A worker node."""

    outputs = Member(Ref)
    """What the worker gave."""
    status = Member(Ref)
    """How its run ended."""


class MapHandle(Handle):
    """A map. Used as a value it is the list of the outputs of the items that went well."""

    ok = Member(Items)
    """The items that went well: `pages.ok.outputs` is the list of their outputs, in the order of the list."""
    failed = Member(Items)
    """The items that failed: `pages.failed.error` is the list of their errors, `pages.failed.index` their places in the list."""
    items = Member(Items)
    """All items, in the order of the list."""
    counts = Member(Ref)
    """How many: `.total`, `.ok`, `.failed`."""


class MergeHandle(Handle):
    """A merge."""

    outputs = Member(Ref)
    """The merged value."""
    conflicts = Member(Ref)
    """Where parts contradict each other: a list of `{path, values}`."""
    completeness = Member(Ref)
    """The share of the parts that were there, from 0 to 1."""
    missing = Member(Ref)
    """The sources of the parts that were not there."""


class GateHandle(Handle):
    """A gate."""

    outputs = Member(Ref)
    """The candidate that was judged."""
    verdict = Member(Ref)
    """`allow`, `block` or `revise`."""
    reasons = Member(Ref)
    """Why: a list of `{code, path, message, severity}`."""
    round = Member(Ref)
    """How many times the nodes before the gate ran again."""


class HumanHandle(Handle):
    """A person's decision."""

    outputs = Member(Ref)
    """What was shown, with what the person changed."""
    verdict = Member(Ref)
    """What the person decided."""
    decided_by = Member(Ref)
    """Who decided."""
    comment = Member(Ref)
    """What the person wrote."""


class RouteHandle(Handle):
    """A route."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, "route", ("label",))
        self._labels = labels

    label = Member(Ref)
    """The label that was chosen."""

    def to(self, label: str) -> After:
        """For `after=`: the node runs only if the route chose this label."""
        if label not in self._labels:
            raise PipelineInvalid(f"{label!r:.80} is not a label of {self!r}; it has {', '.join(self._labels)}.")
        return After(self.name, label)


class SuperviseHandle(Handle):
    """A supervisor and the workers that it chose."""

    outputs = Member(Ref)
    """What the supervisor gave when it finished."""
    turns = Member(Ref)
    """How often the supervisor was asked."""
    choices = Member(Ref)
    """Every choice, in order: a list of `{turn, choice, reason, status, run_id}`."""


class UntilHandle(Handle):
    """A worker that ran until rules held for its outputs."""

    outputs = Member(Ref)
    """What the last run gave."""
    times = Member(Ref)
    """How many runs it took."""


class StepHandle(Handle):
    """A step."""

    outputs = Member(Ref)
    """What the function returned."""
