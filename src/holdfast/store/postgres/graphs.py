"""Graphs: a graph is written with the first execution that names it, and cannot be removed while an execution that names it is being
written.

A writer locks the row of a graph with a lock that other writers can hold at the same time. `expire` does not remove a graph that a writer
has locked (retention.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.errors import InvalidParameter
from holdfast.store.postgres.columns import arguments, texts
from holdfast.store.postgres.older_code import OlderCode


class PostgresGraphs(OlderCode):
    """The part of a store that writes graphs."""

    def _put_graphs(self, graphs: Mapping[str, str | None], stale: Mapping[str, str] | None = None) -> None:
        """Add the graphs that the store does not have, and write those in `stale` again, because they may be encoded with an older key.
        Until the transaction ends, no other process can remove these graphs. Raises InvalidParameter if a graph has no text here (None) and
        is not in the store either."""
        wanted = sorted(graphs)
        while True:
            there = {row[0] for row in self._writer.run(self._sql["kept_graphs"], (texts(wanted),))}
            missing = [(graph, graphs[graph]) for graph in wanted if graph not in there]
            if not missing:
                break
            for graph, text in missing:
                if text is None:
                    raise InvalidParameter(f"There is no graph {graph}: the start that names it must bring its text.")
            self._writer.run(
                self._sql["put_graphs"], arguments("graphs", missing)
            )  # if another process adds it at the same time, the next statement finds it
        if stale:
            self._writer.run(self._sql["renew_graphs"], arguments("graphs", sorted(stale.items())))
