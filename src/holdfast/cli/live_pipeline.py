"""Shows the nodes of a pipeline while it runs: in a terminal as a table that changes; elsewhere with a line when a node ends, is undone or
waits for a person."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.terminal import printable, say, shortened, span_of
from holdfast.model.clock import SystemClock
from holdfast.pipelines.draw.captions import STATES, NodeView, about, state_line
from holdfast.pipelines.graph.graph import kind_of

if TYPE_CHECKING:
    from holdfast.descriptions.pipeline_view import PipelineView
    from holdfast.pipelines.graph.graph import Graph
    from holdfast.pipelines.record.states import NodeStatus

_LOOK_SECONDS = 0.25
_MOST_DETAIL = 160
ReadView = Callable[[], "Awaitable[PipelineView | None]"]


@contextlib.asynccontextmanager
async def shown_nodes(read_view: ReadView) -> AsyncIterator[None]:
    """Show the nodes of a run until the block is left. `read_view` reads the run as it is now; if it returns None, nothing is shown."""
    console = Console(stderr=True)
    live = Live(console=console, auto_refresh=False) if sys.stderr.isatty() else None
    lines = NodeLines()
    with live or contextlib.nullcontext():
        watching = asyncio.create_task(_watch(read_view, live, lines))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await _show(read_view, live, lines)


async def _watch(read_view: ReadView, live: Live | None, lines: NodeLines) -> None:
    while True:
        await _show(read_view, live, lines)
        await asyncio.sleep(_LOOK_SECONDS)


async def _show(read_view: ReadView, live: Live | None, lines: NodeLines) -> None:
    view = await read_view()
    if view is None:
        return
    if live is None:
        lines.tell(view)
    else:
        live.update(table_of(view.graph, view, SystemClock().now()), refresh=True)


class NodeLines:
    """Prints a line when a node ends, is undone, or begins to wait for a person. Each line is printed once, in the order of the history."""

    def __init__(self) -> None:
        self._told: set[tuple[str, int, str]] = set()

    def tell(self, view: PipelineView) -> None:
        """Print the lines for what is new in this view of the run."""
        for ended in view.history:
            self._say(view, ended, ended.state)
        for node_status in view.nodes:
            if any(question.startswith("a_") for question in node_status.waits_for):
                self._say(view, node_status, " ".join(node_status.waits_for))

    def _say(self, view: PipelineView, node_status: NodeStatus, what: str) -> None:
        key = (node_status.node, node_status.round, what)
        if key not in self._told:
            self._told.add(key)
            say(f"{_name(node_status)}: {_line(msgspec.structs.replace(view.view_of(node_status), cost=None))}")


def _name(node_status: NodeStatus) -> str:
    again = f" (round {node_status.round})" if node_status.round > 1 else ""
    return f"{printable(node_status.node)}{again}"


def _line(view: NodeView) -> str:
    detail = f" · {printable(shortened(view.detail, 400))}" if view.detail else ""
    return f"{state_line(view)}{detail}"


def table_of(graph: Graph, view: PipelineView, now: int) -> Table:
    """The nodes as a table: the name, the state, the tokens, how long the node took, and a detail, such as what it waits for."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("NODE", style="bold", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    table.add_column("TOKENS", no_wrap=True, justify="right")
    table.add_column("TOOK", no_wrap=True, justify="right")
    table.add_column("", overflow="fold")
    for node_status, node in zip(view.nodes, graph.nodes, strict=True):
        shown = view.view_of(node_status)
        style = STATES.get(shown.state)
        detail = shown.detail or (f"{kind_of(node)} {about(node)}" if shown.state in ("waiting", "running") else "")
        tokens = view.costs[node_status.node].tokens if node_status.node in view.costs else 0
        table.add_row(
            Text(_name(node_status)),
            Text(state_line(shown), style="" if style is None else style.dark),
            Text(f"{tokens:,}" if tokens else ""),
            Text("" if node_status.began_at is None else span_of((node_status.ended_at or now) - node_status.began_at)),
            Text(printable(shortened(detail, _MOST_DETAIL)), style="dim"),
        )
    return table
