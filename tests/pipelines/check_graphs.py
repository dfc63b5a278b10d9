"""Small graphs and contracts for the tests of checks and drawings."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.contract.terms import Contract, RunLimits, ToolGrant
from holdfast.pipelines.check.known import Known, WorkersById, known_worker
from holdfast.pipelines.graph.graph import After, AnyNode, GateNode, Graph, HumanNode, MapNode, MergeNode, MergePart, Rule, Undo, WorkerNode
from tests.pipelines.templates import out, ref

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def shape(required: str = "", *, closed: bool = True, **fields: Any) -> dict[str, Any]:
    """The schema of an object; `required` names the fields that must be there, `*` all."""
    names = list(fields) if required == "*" else required.split()
    return {"type": "object", "properties": fields, "required": names, "additionalProperties": not closed}


def worker(name: str, takes: Any = None, gives: Any = None, *, tools: str = "", asks: str = "", version: str = "1.0") -> Known:
    """A worker that may use these tools; a tool that is not built in writes."""
    contract = Contract(
        worker_id=name,
        version=version,
        input_schema=shape("*", text=TEXT) if takes is None else takes,
        output_schema=shape("*", text=TEXT) if gives is None else gives,
        limits=RunLimits(tools=tuple(ToolGrant(tool) for tool in tools.split())),
        approvals_required=tuple(asks.split()),
    )
    return known_worker(contract)


def known(*workers: Known) -> WorkersById:
    """The workers as a check takes them."""
    found: dict[str, dict[str, Known]] = {}
    for one in workers:
        found.setdefault(one.contract.worker_id, {})[one.contract.version] = one
    return found


def graph(*nodes: AnyNode, gives: Any = None, outputs: Any = None, inputs: Any = None, limits: Any = None, **more: Any) -> Graph:
    """A pipeline that takes `{text}` and gives what the last node has in `outputs.text`."""
    last = next((node.name for node in reversed(nodes) if isinstance(node, WorkerNode)), None)
    result = {"text": out(last, "text") if last else ref("inputs", "text")}
    contract = {
        "worker_id": "tested-pipeline",
        "version": "1.0",
        "input_schema": shape("*", text=TEXT) if inputs is None else inputs,
        "output_schema": shape("*", text=TEXT) if outputs is None else outputs,
        "limits": limits or {},
    }
    return Graph(contract=contract, nodes=nodes, gives=result if gives is None else gives, **more)


def work(name: str, source: str = "inputs", worker: str = "plain", **more: Any) -> WorkerNode:
    """A node that runs a worker with the text of another node, or of the pipeline's inputs."""
    given = ref("inputs", "text") if source == "inputs" else out(source, "text")
    return WorkerNode(name=name, worker=worker, **{"inputs": {"text": given}, **more})


def gate(name: str, source: str, **more: Any) -> GateNode:
    """A gate that judges the outputs of a node by a rule."""
    rules = (Rule(path=".text", op="exists"),)
    return GateNode(name=name, **{"candidate": out(source), "rules": rules, **more})


PLAIN = worker("plain")
WRITER = worker("writer", tools="post")
KNOWN = known(PLAIN, WRITER)

PAGE = shape("*", url=TEXT, text=TEXT)
FACTS = shape("*", facts={"type": "array", "items": TEXT})
VERDICT = shape("verdict", verdict={"enum": ["allow", "block", "revise"]}, reasons={"type": "array"})
VENDOR_WORKERS = known(
    worker("web-scrape-worker", shape("url", url=TEXT, extraction_spec={"type": "object"}), PAGE, tools="fetch_url parse_html"),
    worker("fact-worker", shape("pages", pages={"type": "array", "items": PAGE}, revision={}), FACTS, tools="language_model"),
    worker("fact-worker-small", shape("pages", pages={"type": "array", "items": PAGE}), FACTS),
    worker("price-worker", shape("*", vendor=TEXT), shape("*", price=NUMBER), tools="fetch_url"),
    worker("validator-worker", shape("*", candidate={}, rules={"type": "array"}), VERDICT),
    worker("publish-worker", shape("*", report={}), shape("*", url=TEXT), tools="post_report"),
    worker("unpublish-worker", shape("*", inputs={}, outputs=shape("*", url=TEXT)), shape(), tools="delete_report"),
)


RULES = [{"path": ".facts", "op": "exists"}]


def vendor_research() -> Graph:
    """The pipeline of the design, which has no problem."""
    return Graph(
        contract={
            "worker_id": "vendor-research",
            "version": "1.0",
            "input_schema": shape("*", urls={"type": "array", "items": TEXT}, spec={"type": "object"}, vendor=TEXT),
            "output_schema": shape("*", report={}, url=TEXT),
            "limits": {"run_timeout_seconds": 864_000, "max_cost_usd": "5"},
        },
        nodes=(
            MapNode(
                name="pages",
                worker="web-scrape-worker",
                over=ref("inputs", "urls"),
                inputs={"url": ref("item"), "extraction_spec": ref("inputs", "spec")},
                at_most=200,
                tolerate=20,
                tolerate_percent=True,
            ),
            WorkerNode(
                name="facts", worker="fact-worker", inputs={"pages": ref("pages", "ok", "*", "outputs")}, fallback=("fact-worker-small",)
            ),
            WorkerNode(
                name="prices", worker="price-worker", inputs={"vendor": ref("inputs", "vendor")}, on_failure={"access_denied": "skip"}
            ),
            MergeNode(name="report", parts=(MergePart("facts", out("facts")), MergePart("prices", out("prices"))), policy="union"),
            GateNode(
                name="check",
                worker="validator-worker",
                candidate={"candidate": out("report"), "rules": {"$const": RULES}},
                revise="facts",
                rounds=2,
                on_block="escalate",
            ),
            HumanNode(name="sign-off", show=out("report"), after=(After("check"),), approvers=("research-leads",), within_seconds=172_800),
            WorkerNode(
                name="publish",
                worker="publish-worker",
                inputs={"report": out("report")},
                after=(After("sign-off"),),
                undo=Undo(worker="unpublish-worker"),
            ),
        ),
        gives={"report": out("report"), "url": out("publish", "url")},
    )


def with_node(graph: Graph, name: str, **changes: Any) -> Graph:
    """The same graph with one node changed."""
    nodes = tuple(msgspec.structs.replace(node, **changes) if node.name == name else node for node in graph.nodes)
    return msgspec.structs.replace(graph, nodes=nodes)
