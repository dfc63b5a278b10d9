"""Graphs as JSON: one canonical text for each graph, its id, and a reader for texts that may be hostile."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.model import codec, json_structs
from holdfast.model.errors import HoldfastError
from holdfast.model.shapes import crowding
from holdfast.pipelines.graph.bounds import check_graph
from holdfast.pipelines.graph.graph import GRAPH_FORMAT, Graph
from holdfast.pipelines.graph.refusals import PipelineInvalid

MAX_TEXT_BYTES: Final = 1024 * 1024
"""The JSON text of a graph has at most this many bytes."""
_MAX_TEXT_DEPTH: Final = 100
_MAX_VALUES: Final = 200_000
_MAX_CONTAINERS: Final = 50_000


class _Format(msgspec.Struct):
    format: int


def graph_text(graph: Graph) -> str:
    """The canonical JSON of a graph: compact, with sorted keys, without values that equal their defaults, and always with the member
    `format`, the version of this JSON form.

    `graph_from` reads an equal graph from it.
    """
    written = msgspec.to_builtins(graph, builtin_types=(Decimal,))
    _leave_out_defaults(graph, written)
    for node in written["nodes"]:
        caps = node.pop("caps", {})
        if (cost := caps.get("max_cost_usd")) is not None:
            caps["max_cost_usd"] = f"{cost.normalize():f}"  # 0.50 and 0.5 are one amount, so they have one text
        if caps:
            node["caps"] = caps
    return codec.dumps({**written, "format": graph.format})


def _leave_out_defaults(value: Any, written: Any) -> None:
    """Remove from `written` the members whose values equal their defaults. msgspec itself leaves out a value only if it is the same Python
    object as the default, and two equal numbers may be two objects."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            own = getattr(value, field.name)
            if field.encode_name in written and field.default is not msgspec.NODEFAULT and own == field.default:
                del written[field.encode_name]
            elif field.encode_name in written:
                _leave_out_defaults(own, written[field.encode_name])
    elif isinstance(value, tuple):
        for each, text in zip(value, written, strict=True):
            _leave_out_defaults(each, text)
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, tuple | msgspec.Struct):
                _leave_out_defaults(each, written[key])


def graph_id(graph: Graph) -> str:
    """The id of a graph: the sha256 of its canonical JSON, in hexadecimal digits."""
    return text_id(graph_text(graph))


def text_id(text: str) -> str:
    """The id of a graph by its canonical JSON."""
    return codec.payload_hash(text)


def graph_from(text: str | bytes) -> Graph:
    """Read a graph from a JSON text, which may be hostile. Raises PipelineInvalid, and no other error, if it is not a graph within the
    bounds (MAX_TEXT_BYTES, bounds.py). The error says what is wrong and where.

    Cycles, unknown workers and references to unknown nodes are accepted here: `holdfast check` reports them.
    """
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    check_text(data, MAX_TEXT_BYTES, "A graph")
    found = _decoded(data, _Format)
    if found.format != GRAPH_FORMAT:
        raise PipelineInvalid(
            f"The graph has the format {str(found.format)[:20]}; this version of Holdfast reads only the format {GRAPH_FORMAT}. "
            "Use the version of Holdfast that wrote the graph.",
            "format",
        )
    graph: Graph = _decoded(data, Graph)
    check_graph(graph)
    try:
        graph_text(graph)
    except (HoldfastError, RecursionError, UnicodeError) as odd:  # a character that neither a file nor a store can keep
        raise PipelineInvalid(f"The graph cannot be written as JSON: {odd}"[:400]) from None
    return graph


def check_text(data: bytes, most: int, what: str) -> None:
    """Raises PipelineInvalid if a text has more than `most` bytes, has too many values or too long a number, or is nested too deep. The
    text is not parsed. `what` is the beginning of the error's sentence."""
    if len(data) > most:
        raise PipelineInvalid(f"{what} has {len(data)} bytes; at most {most} are allowed.")
    if (crowded := crowding(data, _MAX_TEXT_DEPTH, _MAX_VALUES, _MAX_CONTAINERS)) is not None:
        raise PipelineInvalid(f"{what} {crowded}. That is not allowed.")


def _decoded(data: bytes, kind: type[Any]) -> Any:
    try:
        return json_structs.decoded(data, kind)
    except msgspec.ValidationError as wrong:
        what, _, where = str(wrong).partition(" - at ")
        raise PipelineInvalid(f"{what[:400]}.", where.strip("`").removeprefix("$").removeprefix(".")[:400]) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
        raise PipelineInvalid(f"The text is not JSON: {str(wrong)[:400]}") from None
