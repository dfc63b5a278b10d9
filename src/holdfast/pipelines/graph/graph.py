"""The graph: what a pipeline is. Frozen data, the same whether a Python builder or a page wrote it. The interpreter reads the graph, and
not the file or the page.

A graph has nodes. A node's inputs are a template: JSON in which references (templates.py) stand for values that are known only when the
node runs. Edges follow from references; `after` adds an edge without data. `graph_json.py` writes and reads graphs and gives them their id.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from holdfast.contract.merges import MergePolicy as MergePolicy
from holdfast.contract.rules import Operator as Operator
from holdfast.contract.rules import Rule as Rule
from holdfast.contract.rules import Severity as Severity

if TYPE_CHECKING:  # the sandbox loads this module, and the schemas behind contracts are slow to load
    from holdfast.contract.terms import Problem

GRAPH_FORMAT = 1
"""The version of the JSON form. A reader refuses a form that it does not know."""

TEMPLATE = msgspec.Meta(description="a template")
"""Marks the fields of nodes that are templates, for code that looks at the types of fields (page/)."""
Template: TypeAlias = Annotated[Any, TEMPLATE]
"""JSON with references in it (templates.py has the closed list of forms)."""

FailureAction: TypeAlias = Literal["fail", "skip", "escalate"]
BlockAction: TypeAlias = Literal["fail", "skip", "escalate"]
QuestionRisk: TypeAlias = Literal["low", "medium", "high"]

FINISH = "finish"
"""What a supervisor chooses to end its node. No choice has this label."""
SUPERVISED = frozenset({"choices", "so_far", "turns_left"})
"""The inputs that a supervisor gets in addition to those of its node."""


class After(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An edge without data: this node waits for another node. If `label` is given, the other node is a route, and this node runs only if
    the route chose the label."""

    node: str
    label: str | None = None


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Run the node only if the rules hold for the value; else skip the node."""

    value: Template
    rules: tuple[Rule, ...]


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The worker that takes back what a worker, pipeline or map node did. For a map it runs once for each item that succeeded. If `inputs`
    is None, the worker gets `{"inputs": …, "outputs": …}` of the node or, for a map, of the item. A node that failed is not undone, unless
    a person gave its outputs."""

    worker: str
    inputs: Template = None


class Caps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one node. None means that the node has no such limit of its own; those of the worker and of the pipeline still hold."""

    timeout_seconds: int | None = None
    """The most seconds for the whole node: retries, fallbacks, waits, and the person that a human node asks. In a validation loop the time
    begins in the first round of the node and does not stop between its rounds. The answer to an escalation is not limited by it. If a
    person lets the node try again, the node gets the full time again."""
    max_tokens: int | None = None
    max_cost_usd: Decimal | None = None


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", forbid_unknown_fields=True):
    """What all nodes have."""

    name: str
    after: tuple[After, ...] = ()
    when: When | None = None
    on_failure: dict[str, FailureAction] = {}
    """The action when the node fails after its retries and fallbacks, by error code. `*` has the action for all other codes. A code without
    an action means `fail`. When a gate blocks, `on_block` has the action instead; when a person rejects or does not decide, `on_reject` or
    `on_silence`. A merge with `conflicts="escalate"` asks a person about conflicts."""
    caps: Caps = Caps()


class WorkerNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="worker"):
    """Run a worker with these inputs. `worker` may also be the id of a pipeline. A PipelineNode runs in the same way, but
    drawings show it as a pipeline, and `holdfast check` reports a PipelineNode that runs a worker."""

    worker: str
    """The worker's id, or `id@version`."""
    inputs: Template
    fallback: tuple[str, ...] = ()
    """Workers that run one after the other if the worker fails, until one succeeds. Each may use only tools that the worker may use."""
    undo: Undo | None = None


class PipelineNode(WorkerNode, frozen=True, kw_only=True, omit_defaults=True, tag="pipeline"):
    """Run another pipeline with these inputs. `worker` is the pipeline's id, or `id@version`; all other fields mean the same as in
    WorkerNode."""


class MapNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="map"):
    """Run a worker for each item of a list. The inputs may refer to the item."""

    worker: str
    over: Template
    inputs: Template
    at_most: int
    """The largest number of items. A longer list fails the node before any item runs."""
    at_once: int = 8
    """At most this many items run at the same time."""
    tolerate: int = 0
    """How many items may fail without failing the node: a number, or a percentage of the items (rounded down) if
    `tolerate_percent` is true."""
    tolerate_percent: bool = False
    fallback: tuple[str, ...] = ()
    undo: Undo | None = None


class MergePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of a merge: its value, and its source, which is the name that conflicts show."""

    source: str
    value: Template


class MergeNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="merge"):
    """Make one result from several parts. A part whose node has no result is missing, and the others are merged without it. With the policy
    `strict` the node fails if a part is missing. If all parts are missing, the node is skipped."""

    parts: tuple[MergePart, ...]
    policy: MergePolicy | None = None
    """How the parts are merged; None: `worker` merges them."""
    key: str | None = None
    """For `union` of lists: elements of two parts that have the same value in this field are merged into one."""
    worker: str | None = None
    """The worker that merges; None: `policy` says how to merge. It gets `{parts: [{source, value}], merge_policy}`, and `key` if the node
    has one. It gives `{merged, conflicts, completeness}`."""
    conflicts: Literal["report", "fail", "escalate", "worker"] = "report"
    resolver: str | None = None
    """With `conflicts="worker"`: the worker that runs if there are conflicts, and decides them. It gets what a worker that merges gets, and
    `conflicts`; it gives `{merged}`."""


class GateNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="gate"):
    """Judge a candidate by a worker, or by a schema and rules. If the gate does not let the candidate pass, the nodes that name the gate in
    `after` or need its outputs do not run."""

    candidate: Template
    """What is judged. With a worker: the worker's inputs."""
    worker: str | None = None
    schema: dict[str, Any] | None = None
    rules: tuple[Rule, ...] = ()
    revise: str | None = None
    """The node that runs again when the verdict is `revise`, together with all nodes between it and this gate. None: no node runs again,
    and `revise` is treated like `block`."""
    rounds: int = 0
    """The gate may ask for at most this many revisions. After them, `revise` is treated like `block`."""
    on_block: BlockAction = "fail"
    shadow: bool = False
    """Whether the gate only records its verdict, and lets every candidate pass. The node still fails if it gets no verdict, for example
    because its worker fails."""


class Then(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of an escalation chain: the approvers that are added to a question which is still open after some seconds."""

    after_seconds: int
    """The seconds, counted from the time when the question was asked."""
    approvers: tuple[str, ...]


class HumanNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="human"):
    """Ask persons to approve what is shown, or to answer with a form. The node is ok if they approve or answer."""

    show: Template
    question: str = ""
    approvers: tuple[str, ...] = ()
    within_seconds: int = 7 * 86_400
    on_reject: FailureAction = "fail"
    on_silence: FailureAction = "fail"
    form: dict[str, Any] | None = None
    """A JSON Schema: the person answers with JSON that fits it, and the answer is the node's outputs. None: the person approves or
    rejects."""
    votes: int = 1
    """How many persons must approve, at least. The operator may demand more for the risk of the question."""
    then: tuple[Then, ...] = ()
    """The approvers that are added while the question is open, and when."""
    risk: QuestionRisk | None = None
    """The risk of the question. For each risk the operator may set further demands."""


class RouteNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="route"):
    """Choose one of a few labels: by a worker that gives `{label}`, or by the first label whose rules hold."""

    labels: tuple[str, ...]
    value: Template
    """What is judged. With a worker: the worker's inputs."""
    worker: str | None = None
    rules: dict[str, tuple[Rule, ...]] = {}
    """The rules of each label; empty if a worker chooses. The labels are tried in the order of `labels`, because JSON objects have no
    order. A label without rules is chosen only if it is `otherwise`."""
    otherwise: str | None = None
    """The label that is chosen if no other label fits. None: the node fails if no label fits."""


class SuperviseNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="supervise"):
    """Let a worker, the supervisor, choose which worker runs next, again and again until it finishes."""

    worker: str
    """The supervisor. It gets the inputs, `choices`, `so_far` and `turns_left`; it gives `{choice, inputs, reason}`, or `{choice: "finish",
    outputs, reason}`."""
    inputs: Template
    choices: dict[str, str]
    """The workers that the supervisor may choose, by label."""
    turns: int
    """The supervisor is asked at most this often in one try of the node. Without `finish` in its last turn, the node fails."""
    undo: dict[str, str] = {}
    """For each label, the worker that takes back what the chosen worker did. It gets `{"inputs": …, "outputs": …}` of that run. The work of
    a label that is not here is not undone."""


class UntilNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="until"):
    """Run a worker again and again, with a wait between two runs, until rules hold for its outputs."""

    worker: str
    inputs: Template
    rules: tuple[Rule, ...]
    at_most: int
    """The largest number of runs. If the rules hold for the outputs of none of them, the node fails."""
    every_seconds: int
    """The seconds between the end of one run and the beginning of the next."""


class StepNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="step"):
    """Call a small pure function of the pipeline's file, in the sandbox (in the runner's process if the isolation is `inline`)."""

    function: str
    inputs: Template


class WaitNode(Node, frozen=True, kw_only=True, omit_defaults=True, tag="wait"):
    """Wait for a number of seconds, without holding a process."""

    seconds: int


AnyNode: TypeAlias = (
    WorkerNode | PipelineNode | MapNode | MergeNode | GateNode | HumanNode | RouteNode | SuperviseNode | UntilNode | StepNode | WaitNode
)


def kind_of(node: AnyNode) -> str:
    """The kind of a node as its JSON names it: `worker`, `map`, `gate` and so on."""
    return str(node.__struct_config__.tag)


def has_undo(node: AnyNode) -> bool:
    """Whether the node has an `undo`: a worker that takes back what the node did."""
    return bool(node.undo) if isinstance(node, WorkerNode | MapNode | SuperviseNode) else False


def parted(worker: str) -> tuple[str, str | None]:
    """Split `id` or `id@version`, which is how a graph names a worker, into the id and the version. The version is None for `id`."""
    name, mark, version = worker.partition("@")
    return name, version if mark else None


class Graph(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A whole pipeline: its contract, its nodes in the order in which the author wrote them, and its outputs (`gives`)."""

    format: int = GRAPH_FORMAT
    contract: dict[str, Any]
    """The contract as JSON (contract.terms.Contract): id, version, schemas and limits. The worker service checks the inputs
    of a run with it, and the run checks its own outputs."""
    nodes: tuple[AnyNode, ...]
    gives: Template
    gates: Literal["advised", "required"] = "advised"
    """What `holdfast check` reports about a worker that may change something without an approval, and that may run without a gate or a
    person before it: a warning (`advised`) or an error (`required`)."""
    steps: str | None = None
    """The name of the package (workers.packages) that has the functions of step nodes; None if there is no such package."""

    @property
    def pipeline_id(self) -> str:
        """The id of the pipeline. Callers use it like the id of a worker."""
        return str(self.contract["worker_id"])

    @property
    def version(self) -> str:
        """The version of the contract."""
        return str(self.contract["version"])

    def node(self, name: str) -> AnyNode:
        """The node of this name. Raises StopIteration if no node has it."""
        return next(node for node in self.nodes if node.name == name)


class SourceLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the author wrote a node or the outputs. Lines are kept beside the graph, and the graph's id does not depend on them."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


GIVES = ""
"""The key for the pipeline's outputs in mappings by node name. No node has this name."""


class Built(msgspec.Struct, frozen=True):
    """A graph with the lines on which the author wrote its nodes and its outputs, by the name of the node (GIVES for the outputs)."""

    graph: Graph
    lines: dict[str, SourceLine] = {}
    warnings: tuple[Problem, ...] = ()
    """Warnings about the page from which the graph was read; empty for a Python file."""
    include: tuple[str, ...] = ()
    """The further files that belong to the package of the steps, so that the steps can read them."""
