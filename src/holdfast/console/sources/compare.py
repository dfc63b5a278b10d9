"""Two runs side by side for one caller: facts, inputs, results, and the nodes, calls or operations that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from holdfast.console.query import Query
from holdfast.console.schema_form import loads
from holdfast.console.sources.catalog import is_shard
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.runs import RunRow, RunsSource
from holdfast.console.sources.viewer import CallerSource
from holdfast.model import codec
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import Operation, Type
from holdfast.model.shown_status import ShownStatus
from holdfast.pipelines.restart.compare import Difference, NodeComparison, Side, differences
from holdfast.restarts.comparisons import compare_runs
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.calls import Try
from holdfast.workers.run_lookup import accepted_in, calls_of, response_of

MOST_PARTS: Final = 1_000
"""At most this many operations, or calls of tools, of each run are compared."""
_CANDIDATES: Final = 20
Clean = Callable[[str], str]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the top of the page shows of one run."""

    header: Execution
    status: ShownStatus
    version: str
    took: int | None
    cost: int | None
    error_code: str = ""


class PartSide(msgspec.Struct, frozen=True, kw_only=True):
    """A node, a call or an operation, as it was in one of the two runs."""

    state: str
    took: int | None = None
    cost: int | None = None
    note: str = ""


class ComparedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A node, a call or an operation, as it was in each of the two runs. A side is None if that run does not have the part. `differs` says
    in what the two sides differ."""

    name: str
    kind: str
    left: PartSide | None
    right: PartSide | None
    inputs: tuple[Difference, ...] = ()
    outputs: tuple[Difference, ...] = ()
    differs: tuple[str, ...] = ()


class CompareView(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of two runs."""

    left: Facts
    right: Facts
    what: str
    """What the parts are: nodes, calls or operations."""
    inputs: tuple[Difference, ...] = ()
    outputs: tuple[Difference, ...] = ()
    parts: tuple[ComparedPart, ...] = ()
    cut: bool = False
    other: bool = False
    """Whether the two runs are of different functions. If so, only facts, inputs and results are compared, and there are no parts."""

    @property
    def is_same(self) -> bool:
        """Whether the statuses, the inputs and the results are equal, and no compared part differs. Time and cost may differ."""
        return not (self.inputs or self.outputs or any(one.differs for one in self.parts)) and self.left.status is self.right.status


class CompareSource(CallerSource):
    """Compares runs that one caller may see."""

    def view(self, left: str, right: str) -> CompareView:
        """Compare two runs. Raises ExecutionNotFound if one of them does not exist, or if the caller may not see it."""
        viewer = self._viewer
        headers = viewer.find(left), viewer.find(right)
        orders = accepted_in(viewer.store, headers[0]), accepted_in(viewer.store, headers[1])
        facts = [self._facts(header, accepted) for header, accepted in zip(headers, orders, strict=True)]
        blank = CompareView(left=facts[0], right=facts[1], what="operations", other=headers[0].function != headers[1].function)
        if orders[0] is not None and orders[1] is not None:
            return self._runs((headers[0], headers[1]), (orders[0], orders[1]), blank)
        given, gave = zip(*(self._values(header) for header in headers), strict=True)
        clean = self._clean(headers)
        view = msgspec.structs.replace(blank, inputs=_cleaned(differences(*given), clean), outputs=_cleaned(differences(*gave), clean))
        return view if blank.other else self._operations(headers[0], headers[1], view, clean)

    def candidates(self, left: str, text: str) -> tuple[Facts, tuple[RunRow, ...]]:
        """The facts of the run `left`, and at most 20 other runs of the same function with which it can be compared, newest first. Shards
        are left out, except if `left` is one. If `text` is not empty, only runs whose name or id begins with `text`."""
        header = self._viewer.find(left)
        accepted = accepted_in(self._viewer.store, header)
        asked = Query(values=(("worker", header.function),), text=text)
        found = [row for row in RunsSource(self._viewer).page(asked, limit=3 * _CANDIDATES).rows if row.id != header.id]
        left_is_shard = accepted is not None and accepted.is_shard
        rows = tuple(row for row in found if left_is_shard or not is_shard(row.kind, row.header))[:_CANDIDATES]
        return self._facts(header, accepted), rows

    def _facts(self, header: Execution, accepted: AcceptedRequest | None) -> Facts:
        ended, summary = header.ended_at, header.summary
        return Facts(
            header=header,
            status=self._viewer.status(header),
            version=header.version if accepted is None else accepted.version,
            took=None if ended is None else ended - header.started_at,
            cost=None if summary is None else summary.cost,
            error_code="" if summary is None else summary.error_code or "",
        )

    # --- runs

    def _runs(
        self, headers: tuple[Execution, Execution], orders: tuple[AcceptedRequest, AcceptedRequest], blank: CompareView
    ) -> CompareView:
        viewer = self._viewer
        clean = self._clean(headers)
        if blank.other:
            given = [one.request.inputs for one in orders]
            gave = [response_of(viewer.store, *one).outputs for one in zip(headers, orders, strict=True)]
            return msgspec.structs.replace(blank, inputs=_cleaned(differences(*given), clean), outputs=_cleaned(differences(*gave), clean))
        told = compare_runs(viewer.store, headers[0].id, headers[1].id, viewer.caller)
        view = msgspec.structs.replace(blank, inputs=_cleaned(told.inputs, clean), outputs=_cleaned(told.outputs, clean))
        if told.nodes:
            return msgspec.structs.replace(view, what="nodes", parts=tuple(_node(one, clean) for one in told.nodes))
        calls = [calls_of(viewer.store, header, accepted)[:MOST_PARTS] for header, accepted in zip(headers, orders, strict=True)]
        return msgspec.structs.replace(view, what="calls", parts=tuple(_calls(calls[0], calls[1], clean)))

    def _clean(self, headers: tuple[Execution, Execution]) -> Clean:
        """A function that takes out of a text the secrets of both runs."""
        found = [Veil(self._viewer, header) for header in headers]

        def clean(text: str) -> str:
            for one in found:
                text = one.text(text)
            return text

        return clean

    # --- executions

    def _values(self, header: Execution) -> tuple[Any, Any]:
        """The input and the result of an execution. For a run of a worker or a pipeline, the input is the inputs of its request. Secrets
        are taken out, except out of the input of a function: `view` takes them out of the differences."""
        store, veil = self._viewer.store, Veil(self._viewer, header)
        accepted = accepted_in(store, header)
        given = _value(store.history(header.id, 0, 1)[0].event.payload) if accepted is None else veil.inputs(accepted.request.inputs)
        return given, veil.value(_value(store.result(header) if header.ended_at is not None else None))

    def _operations(self, left: Execution, right: Execution, view: CompareView, clean: Clean) -> CompareView:
        store = self._viewer.store
        small = max(left.operations, right.operations) <= MOST_PARTS
        both = [
            [op for op in (store.operations if small else store.outline)(one.id) if op.type is not Type.EXECUTION] for one in (left, right)
        ]
        parts = _paired(both[0][:MOST_PARTS], both[1][:MOST_PARTS], _key, lambda one, other: _operation(one, other, clean))
        return msgspec.structs.replace(view, parts=tuple(parts), cut=not small)


def _paired(left: Sequence[Any], right: Sequence[Any], key: Any, made: Any) -> Iterable[ComparedPart]:
    """Pair the parts of two runs. Parts with the same key are paired in their order: the second `charge` of one run with the second
    `charge` of the other. `made` makes a ComparedPart of the two; a part that the other run does not have is paired with None."""
    sides: list[dict[tuple[Any, ...], Any]] = []
    for one in (left, right):
        seen: dict[Any, int] = {}
        found: dict[tuple[Any, ...], Any] = {}
        for item in one:
            at = key(item)
            seen[at] = seen.get(at, 0) + 1
            found[(at, seen[at])] = item
        sides.append(found)
    for at in dict.fromkeys([*sides[0], *sides[1]]):
        yield made(sides[0].get(at), sides[1].get(at))


def _key(op: Operation) -> tuple[Any, ...]:
    return (op.type, op.sub_type, op.name)


def _operation(left: Operation | None, right: Operation | None, clean: Clean) -> ComparedPart:
    known = left or right
    assert known is not None
    outputs = differences(_came_to(left), _came_to(right)) if left is not None and right is not None else ()
    kind = (known.sub_type or known.type.value).lower().replace("_", " ")
    return _part(known.name or known.id, kind, _side_of(left), _side_of(right), (), _cleaned(outputs, clean))


def _side_of(op: Operation | None) -> PartSide | None:
    if op is None:
        return None
    took = None if op.ended_at is None else op.ended_at - op.started_at
    return PartSide(state=op.status.value.lower().replace("_", " "), took=took, note=f"attempt {op.attempt}" if op.attempt > 1 else "")


def _came_to(op: Operation) -> Any:
    return _value(op.result) if op.error is None else {"error": op.error.type, "message": op.error.message}


def _calls(left: Sequence[Try], right: Sequence[Try], clean: Clean) -> Iterable[ComparedPart]:
    def made(one: Try | None, other: Try | None) -> ComparedPart:
        known = one or other
        assert known is not None
        inputs: tuple[Difference, ...] = ()
        outputs: tuple[Difference, ...] = ()
        if one is not None and other is not None:
            inputs = _cleaned(differences(one.intent.arguments, other.intent.arguments), clean)
            outputs = _cleaned(differences(_answer(one), _answer(other)), clean)
        return _part(known.intent.tool, "write" if known.intent.write else "read", _call(one), _call(other), inputs, outputs)

    return _paired(left, right, lambda one: one.intent.tool, made)


def _call(one: Try | None) -> PartSide | None:
    if one is None:
        return None
    if one.receipt is None:
        return PartSide(state="waiting")
    error, used = one.receipt.error, one.receipt.usage
    cost = nanos_of(used.cost_usd) if used.cost_usd else None
    return PartSide(
        state="ok" if error is None else "failed", took=one.at - one.began, cost=cost, note="" if error is None else error.error_code
    )


def _answer(one: Try) -> Any:
    return None if one.receipt is None else one.receipt.result if one.receipt.error is None else {"error": one.receipt.error.error_code}


def _node(one: NodeComparison, clean: Clean) -> ComparedPart:
    return msgspec.structs.replace(
        _part(one.node, "node", _node_side(one.a), _node_side(one.b), _cleaned(one.inputs, clean), _cleaned(one.outputs, clean)),
        differs=tuple({"only in a": "only left", "only in b": "only right"}.get(word, word) for word in one.differs),
    )


def _node_side(side: Side | None) -> PartSide | None:
    if side is None:
        return None
    notes = [
        *([side.verdict] if side.verdict else []),
        *(["reused"] if side.reused else []),
        *([f"round {side.round}"] if side.round > 1 else []),
    ]
    return PartSide(state=side.state, took=side.duration_ms, cost=nanos_of(side.cost_usd) or None, note=", ".join(notes))


def _part(
    name: str,
    kind: str,
    left: PartSide | None,
    right: PartSide | None,
    inputs: tuple[Difference, ...],
    outputs: tuple[Difference, ...],
) -> ComparedPart:
    differs: tuple[str, ...]
    if left is None or right is None:
        differs = ("only right",) if left is None else ("only left",)
    else:
        found = {"state": left.state != right.state, "inputs": bool(inputs), "outputs": bool(outputs)}
        differs = tuple(word for word, is_so in found.items() if is_so)
    return ComparedPart(name=name, kind=kind, left=left, right=right, inputs=inputs, outputs=outputs, differs=differs)


def _cleaned(found: Iterable[Difference], clean: Clean) -> tuple[Difference, ...]:
    return tuple(
        Difference(clean(one.path), None if one.a is None else clean(one.a), None if one.b is None else clean(one.b)) for one in found
    )


def _value(text: str | None) -> Any:
    """The value of a payload; None for None. If the payload is not JSON, or if its value cannot be written as JSON again, the text of the
    payload."""
    if text is None:
        return None
    try:
        value = loads(text)
        codec.dumps(value)
    except (ValueError, HoldfastError):
        return text
    return value
