"""The events of a run as lines for people: states of nodes, progress, and the text of models as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.cli.terminal import printable, shortened, span_of
from holdfast.model import codec as texts

_MOST: Final = 400
_INDENT: Final = "  "


class EventLines:
    """Writes events as they come, each on a new line. Only the texts of one call of a model are written one after the other without a new
    line, until another event comes."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._call: tuple[Any, ...] | None = None
        """The call of a model whose text the open line shows, and how many characters of the text are shown; None: no line is open."""

    def tell(self, event: str, data: Any) -> None:
        """Write one event."""
        if event == "tokens" and isinstance(data, Mapping):
            self._tokens(data)
            return
        self.end()
        self._write(f"{printable(_line(event, data))}\n")

    def end(self) -> None:
        """End the open line, if there is one."""
        if self._call is not None:
            self._write("\n")
            self._call = None

    def _tokens(self, data: Mapping[str, Any]) -> None:
        text, offset = str(data.get("text", "")), int(data.get("offset", 0))
        call = (data.get("run_id"), data.get("node"), data.get("item"), data.get("call"), data.get("try"))
        if self._call != (*call, offset):
            self.end()
            begun = "" if offset == 0 else "... "
            self._write(f"{printable(f'tokens{_part(data)}')}: {begun}")
        # Each further line of the text is indented, so that it cannot look like an event.
        self._write(f"\n{_INDENT}".join(printable(line) for line in text.split("\n")))
        self._call = (*call, offset + len(text))


def _line(event: str, data: Any) -> str:
    if not isinstance(data, Mapping):
        return f"{event}: {_shown(data)}"
    match event:
        case "accepted":
            return f"accepted: {data.get('worker_id')} {data.get('version')}, run {data.get('run_id')}"
        case "attempt":
            took = f" after {span_of(int(data['duration_ms']))}" if "duration_ms" in data else ""
            return f"attempt {data.get('attempt')}: {data.get('state')}{took}{_error(data)}"
        case "tool":
            return f"tool {data.get('tool')}: {data.get('state')}{_usage(data.get('usage'))}{_error(data)}"
        case "node":
            again = f" (round {data['round']})" if data.get("round", 1) != 1 else ""
            why = f", {shortened(str(data['why']), _MOST)}" if data.get("why") and "error_code" not in data else ""
            return f"node {data.get('node')}{again}: {data.get('state')}{why}{_error(data)}"
        case "approval":
            by = f" by {data['decided_by']}" if data.get("decided_by") else ""
            vote = f" {data['verdict']}" if data.get("verdict") else ""
            return f"approval {data.get('approval_id')} for {data.get('tool')}: {data.get('state')}{vote}{by}"
        case "choice":
            why = shortened(str(data.get("reason", "")), _MOST)
            return f"choice of node {data.get('node')}, turn {data.get('turn')}: {data.get('choice')}, {why}"
        case "log":
            return f"log {data.get('level')}: {shortened(str(data.get('message')), _MOST)}"
        case "progress" if "node" in data and "progress" in data:
            return f"progress{_part(data)}: {_shown(data['progress'])}"
        case "gap":
            return f"gap: {'some' if data.get('missed') is None else data['missed']} live events are missing here"
        case "done":
            error = data.get("error") or {}
            return f"done: {data.get('status')}{_error(error)}"
        case _:
            return f"{event}: {_shown(data)}"


def _part(data: Mapping[str, Any]) -> str:
    """The node of a pipeline, and the item of a map, that an event is about; empty if the event names no node."""
    item = "" if data.get("item") is None else f" item {data['item']}"
    return "" if data.get("node") is None else f" of node {data['node']}{item}"


def _usage(usage: Any) -> str:
    tokens = usage.get("tokens", {}) if isinstance(usage, Mapping) else {}
    count = sum(value for value in tokens.values() if isinstance(value, int))
    return f", {count:,} tokens" if count else ""


def _error(data: Mapping[str, Any]) -> str:
    if not data.get("error_code"):
        return ""
    return f", {data['error_code']}: {shortened(str(data.get('message', '')), _MOST)}"


def _shown(value: Any) -> str:
    return shortened(texts.dumps(value), _MOST)
