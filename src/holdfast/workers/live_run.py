"""Live events of a run: progress and text of models, for its followers and for those of the pipelines above it; log lines, for its own
followers only. They are not on disk. They are kept only for runs that are followed in this process, or were followed lately.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

from holdfast.model.execution import Execution
from holdfast.store.seam import ExecutionStore
from holdfast.workers.accepted_request import AcceptedRequest, Labels
from holdfast.workers.calls import Intent
from holdfast.workers.input_secrets import InputSecrets
from holdfast.workers.run_lookup import accepted_in
from holdfast.workers.token_streams import TokenStream
from holdfast.workers.tools.seam import Hears, Tool
from holdfast.workers.tools.secrets import Redactor

NO_TOKENS: Final[AbstractAsyncContextManager[Hears | None]] = nullcontext()
_MOST_ABOVE: Final = 32
"""At most this many executions above a run are read. That is enough: runs are nested at most 16 levels deep, and each level may also have a
shard of a map."""
_MOST_KNOWN: Final = 1000
_CALL: Final = 12
"""An event with text of a model names the call by the first characters of its identity: this many."""


class Followers(Protocol):
    """The clients in this process that follow runs (followed_runs.FollowedRuns)."""

    @property
    def are_there(self) -> bool:
        """Whether live events of some run are kept for followers."""
        ...

    def has(self, run_id: str) -> bool:
        """Whether live events of this run are kept for followers."""
        ...

    def offer(self, run_id: str, event: str, data: Any) -> None:
        """Keep a live event for the followers of this run, and wake them. If the run has no followers, and had none lately, nothing is
        kept."""
        ...

    def nudge(self, run_id: str) -> None:
        """Wake the followers of this run, so that they read the store now. Called when the run has written events or is about to."""
        ...


class Above(NamedTuple):
    """A pipeline's run that is above another run, and which part of the pipeline that other run belongs to."""

    run_id: str
    labels: Labels

    @property
    def part(self) -> dict[str, Any]:
        """The node, round and item, in the form that events have; a member that is None is left out."""
        labels = self.labels
        part = {"node": labels.node, "round": labels.round, "item": labels.item}
        return {name: value for name, value in part.items() if value is not None}


class _Known(NamedTuple):
    """What is remembered of an execution that has runs below it."""

    parent: str | None
    labels: Labels
    is_shard: bool


class Ancestors:
    """Finds the runs above a run. It remembers what it read, because the request of a pipeline's run may be large, and a map has many items
    that all have the same runs above them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known | None] = OrderedDict()

    def above(self, store: ExecutionStore, header: Execution, accepted: AcceptedRequest) -> list[Above]:
        """The runs of pipelines above a run, the nearest first. Shards are left out. Reads the store."""
        found: list[Above] = []
        labels, parent = accepted.labels, header.parent
        for _ in range(_MOST_ABOVE):
            known = None if parent is None or labels.node is None else self._run(store, parent)
            if known is None or parent is None:
                break
            if not known.is_shard:
                found.append(Above(parent, labels))
                labels = known.labels
            parent = known.parent
        return found

    def _run(self, store: ExecutionStore, run_id: str) -> _Known | None:
        if run_id not in self._known:
            header = store.find(run_id)
            accepted = None if header is None else accepted_in(store, header)
            found = None if header is None or accepted is None else _Known(header.parent, accepted.labels, accepted.is_shard)
            self._known[run_id] = found
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(run_id)
        return self._known[run_id]


class LiveRun:
    """Sends the live events of one run to its followers and to those of the pipelines above it."""

    def __init__(self, followers: Followers, run_id: str, above: Callable[[], Sequence[Above]]) -> None:
        self._followers = followers
        self._run_id = run_id
        self._find_above = above

    @cached_property
    def _above(self) -> Sequence[Above]:
        return self._find_above()

    def wrote(self) -> None:
        """Wake the followers of this run, so that they read the store now. Called when the run has written events or is about to."""
        self._followers.nudge(self._run_id)

    def logged(self, record: dict[str, Any]) -> None:
        """Send a line of the run's log to its followers. Followers of the pipelines above do not get it."""
        self._followers.offer(self._run_id, "log", record)

    def progressed(self, data: Any) -> None:
        """Send the progress that the body reported to the followers of the run and of the pipelines above it."""
        if self._followers.are_there:
            self._followers.offer(self._run_id, "progress", data)
            for above in self._above:
                self._followers.offer(above.run_id, "progress", {**above.part, "run_id": self._run_id, "progress": data})

    def tokens(self, tool: Tool, intent: Intent, secrets: Callable[[], InputSecrets]) -> AbstractAsyncContextManager[Hears | None]:
        """The block in which a call is made. It yields the function to which the tool gives the parts of its result's text as they arrive;
        the function sends them to followers. It yields None if the tool never passes on such parts."""
        own: Redactor | None = getattr(tool, "streams", None)
        if own is None:
            return NO_TOKENS
        about = {"tool": intent.tool, "attempt": intent.attempt, "call": intent.identity[:_CALL], "try": intent.number}

        def tell(offset: int, text: str) -> None:
            data = {**about, "offset": offset, "text": text}
            self._followers.offer(self._run_id, "tokens", data)
            for above in self._above:
                self._followers.offer(above.run_id, "tokens", {**above.part, "run_id": self._run_id, **data})

        def redactor() -> Redactor | None:
            found = secrets().secrets
            return None if found is None else own.and_also(found) if found else own

        return TokenStream(tell, self._is_followed, redactor)

    def _is_followed(self) -> bool:
        followers = self._followers
        return followers.are_there and (followers.has(self._run_id) or any(followers.has(above.run_id) for above in self._above))
