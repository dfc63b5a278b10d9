"""The text of a graph, as executions name it and stores keep it."""

from __future__ import annotations

import msgspec


class GraphText(msgspec.Struct, frozen=True, gc=False):
    """A graph with its id, the sha256 of its text. The store keeps it as long as an execution names it."""

    id: str
    text: str
