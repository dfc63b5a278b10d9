"""What the server sends to the timeline's script: slices of rows as compact JSON, in which every text is ready to be shown. Also the
graph's picture with links."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from holdfast.console.rendering import address, span, usd
from holdfast.console.sources.run import Picture
from holdfast.console.sources.timeline import TimelineRow, TimelineSlice

_NODE: Final = re.compile(r'<g class="hf-node[^>]*? data-node="([^"]*)">.*?</g>', re.S)


def slice_json(found: TimelineSlice) -> bytes:
    """A slice of rows as JSON, as the timeline's script reads it."""
    document = {
        "revision": found.revision,
        "total": found.total,
        "operations": found.operations,
        "counts": found.counts,
        "at": found.at,
        "rows": [_row(row) for row in found.rows],
        "ticks": marks(found.ticks),
        "folds": [[x0, x1, idle(ms), f"{span(ms)} idle"] for x0, x1, ms in found.folds],
        "told": told(found),
        "now": found.now,
        "over": found.is_over,
        "selected": found.selected,
        "toggled": found.toggled,
    }
    return msgspec.json.encode(document)


def _row(row: TimelineRow) -> dict[str, Any]:
    wire: dict[str, Any] = {"p": row.place, "i": row.id, "d": row.depth, "v": row.verb, "n": row.name, "t": row.tail, "s": row.status}
    wire |= {"x": row.x0, "y": row.x1, "b": row.bar, "u": span(row.took)}
    if row.kids:
        wire |= {"k": row.kids, "c": row.closed}
    if row.attempts:
        wire["a"] = row.attempts
    if (cost := spent(row)) is not None:
        wire["m"] = cost
    if row.run:
        wire["r"] = row.run
    return wire


def spent(row: TimelineRow) -> str | None:
    """The tokens and the money of a row, as text. For a call that has not ended: what it has reserved, which is the most that it may use.
    For any other row: what was used. None if there are neither tokens nor money."""
    if row.held or row.held_tokens:
        return " · ".join([f"≤ {row.held_tokens:,} tok"] * bool(row.held_tokens) + [f"≤ {usd(row.held)}"] * bool(row.held))
    parts = [f"{row.tokens:,} tok"] if row.tokens else []
    parts += [usd(row.cost)] if row.cost else []
    return " · ".join(parts) or None


def marks(ticks: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """The marks of the axis, each as (position, label). The label is the time since the start. If several marks in a row would have the
    same label, the first of them keeps it, and each of the others has `+` and the time since the first."""
    found: list[tuple[int, str]] = []
    first = 0
    for place, passed in ticks:
        label = since(passed)
        if found and label == since(first):
            label = f"+{since(passed - first)}"
        else:
            first = passed
        found.append((place, label))
    return found


def since(ms: int) -> str:
    """The label of a mark on the axis, such as `40 ms` or `2 m`."""
    if ms == 0:
        return "0"
    if ms < 1_000:
        return f"{ms} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:g} s"
    return span(ms).replace(" 0 s", "").replace(" 0 m", "").replace(" 0 h", "")


def idle(ms: int) -> str:
    """The length of a fold as a number and a unit. A fold is a long idle time that the axis shows as a short piece."""
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m")):
        if ms >= 0.95 * size:
            return f"{ms / size:.2g} {unit}" if ms < 10 * size else f"{ms / size:.0f} {unit}"
    return f"{ms / 1000:.2g} s" if ms < 10_000 else f"{ms / 1000:.0f} s"


def told(found: TimelineSlice) -> str:
    """The totals of the timeline, in words such as `40 operations · 2 failed`."""
    counts = found.counts
    parts = [f"{found.operations:,} operation{'' if found.operations == 1 else 's'}"]
    words = {"person": "question to a person" if counts.get("person") == 1 else "questions to persons"}
    parts += [
        f"{counts[word]:,} {words.get(word, word)}"
        for word in ("failed", "stopped", "blocked", "retrying", "person", "running", "waiting")
        if counts.get(word)
    ]
    if found.idle:
        parts.append(f"{span(found.idle)} idle folded")
    return " · ".join(parts)


def picture_html(picture: Picture, run: str, root: str) -> Markup:
    """The graph as HTML. Each node that has begun is a link to the row of its operation. The names in the graph were escaped when it was
    drawn."""

    def linked(found: re.Match[str]) -> str:
        operation = picture.nodes.get(html.unescape(found[1]))
        if operation is None:
            return found[0]
        return f'<a href="{html.escape(address(f"{root}runs/{run}", op=operation))}" data-op="{html.escape(operation)}">{found[0]}</a>'

    # A picture with links gets the role `group`, because screen readers do not see what is inside of the role `img`.
    return Markup(_NODE.sub(linked, picture.svg.replace(' role="img"', ' role="group"', 1)))
