"""Handles: what the verbs of a Pipeline return. A handle stands for a node. Apart from `name`, its attributes are references to the
parts of the node's result."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from holdfast.pipelines.builder.expressions import Items, Ref, Valued
from holdfast.pipelines.graph.graph import After, Template
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import Reference

R = TypeVar("R", bound=Ref)


class Handle(Valued):
    """Stands for a node of the pipeline. Used as a value, it is a reference to the node's outputs (for a route: to its label; for a map: to
    the outputs of the items that succeeded). The handle of a `wait` cannot be used as a value."""

    def __init__(self, name: str, kind: str, given: tuple[str | int, ...] | None = ("outputs",)) -> None:
        self.name = name
        """The node's name."""
        self._kind = kind
        self._given = given

    def __repr__(self) -> str:
        return f"<{self._kind} {self.name}>"

    def template(self) -> Template:
        """The reference that the handle is when it is used as a value, as a template: to the node's outputs (for a route: to its label; for
        a map: to the outputs of the items that succeeded). Raises PipelineInvalid for a `wait`, which has no outputs."""
        if self._given is None:
            raise PipelineInvalid(f"{self!r} gives no value. Name it in after= of the node that must wait for it.")
        return Ref(Reference(source=self.name, path=self._given)).template()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = sorted(each for each in dir(type(self)) if not each.startswith("_") and each != "template")
        hint = f" Did you mean {self.name}.outputs.{name}?" if "outputs" in known else ""
        raise PipelineInvalid(f"{self!r} has no {name!r}; it has {', '.join(['name', *known])}.{hint}")


class Member(Generic[R]):
    """An attribute of a handle: a reference to the member of the node's result that has the same name."""

    def __init__(self, kind: type[R]) -> None:
        self._kind = kind

    def __set_name__(self, owner: type[Handle], name: str) -> None:
        self._name = name

    def __get__(self, handle: Handle, owner: type[Handle]) -> R:
        return self._kind(Reference(source=handle.name, path=(self._name,)))


class WorkerHandle(Handle):
    """The handle of a worker or pipeline node."""

    outputs = Member(Ref)
    """The outputs of the worker, of the fallback that succeeded, or those that a person gave in an escalation."""
    status = Member(Ref)
    """The status of the child run that gave the outputs: `ok`, also if a person gave the outputs."""


class MapHandle(Handle):
    """The handle of a map. Used as a value, it is the list of the outputs of the items that succeeded."""

    ok = Member(Items)
    """The items that succeeded: `pages.ok.outputs` is the list of their outputs, in the order of the list."""
    failed = Member(Items)
    """The items that failed: `pages.failed.error` is the list of their errors, `pages.failed.index` the list of their indexes."""
    items = Member(Items)
    """All items that ended, succeeded or failed, in the order of the list."""
    counts = Member(Ref)
    """The numbers of items: `.total`, `.ok` and `.failed`."""


class MergeHandle(Handle):
    """The handle of a merge."""

    outputs = Member(Ref)
    """The merged value."""
    conflicts = Member(Ref)
    """The places where parts contradict each other: a list of `{path, values}`, with values `{source, value}`. A worker that merges may
    give another form."""
    completeness = Member(Ref)
    """A number from 0 to 1: the share of the parts that have a value, times the share of places at which the policy could choose a value.
    With the policy `first` it is 1. A worker that merges may give its own number."""
    missing = Member(Ref)
    """The sources of the parts that have no value; then the paths of values that the policy left out."""


class GateHandle(Handle):
    """The handle of a gate."""

    outputs = Member(Ref)
    """The candidate, if the gate let it pass, or the outputs that a person gave in its place."""
    verdict = Member(Ref)
    """`allow`, `block` or `revise`."""
    reasons = Member(Ref)
    """The reasons of the verdict: a list of `{code, path, message, severity}`."""
    round = Member(Ref)
    """The round of the verdict: 1, and one more after each revision."""


class HumanHandle(Handle):
    """The handle of a human node."""

    outputs = Member(Ref)
    """What was shown, with the changes of the person who approved; with a form, the answer. After a rejection there are no outputs, unless
    a person gives outputs in an escalation."""
    verdict = Member(Ref)
    """The decision: `approve` or `reject`; with a form, `answer` or `reject`."""
    decided_by = Member(Ref)
    """The name of the person who decided; if several persons approved by votes, all their names, joined by commas."""
    comment = Member(Ref)
    """The comment of the person; after votes, the comments with the names of the persons. null if there is no comment."""


class RouteHandle(Handle):
    """The handle of a route."""

    def __init__(self, name: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, "route", ("label",))
        self._labels = labels

    label = Member(Ref)
    """The label that was chosen."""

    def to(self, label: str) -> After:
        """For `after=` of another node: that node runs only if the route chose this label. Raises PipelineInvalid if the route does not
        have the label."""
        if label not in self._labels:
            raise PipelineInvalid(f"{label!r:.80} is not a label of {self!r}; it has {', '.join(self._labels)}.")
        return After(self.name, label)


class SuperviseHandle(Handle):
    """The handle of a supervise node: a supervisor and the workers that it chose."""

    outputs = Member(Ref)
    """The outputs that the supervisor gave when it finished, or those that a person gave in an escalation."""
    turns = Member(Ref)
    """The number of choices in `choices`, `finish` included."""
    choices = Member(Ref)
    """The choices of the supervisor in all tries of the node, in order, without a choice that failed a try: a list of `{turn, choice,
    reason, status, run_id}`. `status` and `run_id` are of the chosen worker's run; for `finish` they are `ok` and null."""


class UntilHandle(Handle):
    """The handle of an `until` node: a worker that ran until rules held for its outputs."""

    outputs = Member(Ref)
    """The outputs of the last run of the worker, for which the rules held, or those that a person gave in an escalation."""
    times = Member(Ref)
    """How often the worker ran in the last try of the node. A request that a rate refused is not counted."""


class StepHandle(Handle):
    """The handle of a step."""

    outputs = Member(Ref)
    """What the function returned, or the outputs that a person gave in an escalation."""
