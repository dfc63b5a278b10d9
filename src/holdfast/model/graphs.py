"""The text of a graph, with the id by which executions name it."""

from __future__ import annotations

import msgspec


class GraphText(msgspec.Struct, frozen=True, gc=False):
    """The text of a graph with its id, which is the SHA-256 of the text. The store keeps the text as long as an execution names its id."""

    id: str
    text: str
