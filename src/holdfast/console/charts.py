"""A chart: one bar for each slice of time, made of coloured parts that stand on each other. SVG from the server; classes colour it
(static/people.css), because pages allow no `style` attributes. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from holdfast.web.plain_html import shown

_KIND: Final = re.compile(r"[a-z]{1,20}")
_BAR: Final = 10
_GAP: Final = 2
_LEAST: Final = 1.5
"""The height of the smallest part that is not nothing, so that one failure beside a thousand runs is seen."""


class Slice(msgspec.Struct, frozen=True):
    """One bar: its name, and its parts from the bottom up."""

    title: str
    """What the bar tells, as people read it when they point at it."""
    parts: tuple[tuple[str, float], ...]
    """The kind of each part, which chooses its colour (a standing, or `cost`), and how much it is."""

    @property
    def total(self) -> float:
        """The whole bar."""
        return sum(max(0.0, value) for _, value in self.parts)


def bars(slices: Sequence[Slice], label: str, height: int = 56) -> Markup:
    """Bars side by side, as wide as the place that they get. `label` says to people who do not see them what they show."""
    highest = max((one.total for one in slices), default=0.0) or 1.0
    wide = max(1, len(slices) * (_BAR + _GAP) - _GAP)
    drawn = "".join(_bar(one, place * (_BAR + _GAP), highest, height) for place, one in enumerate(slices))
    return Markup(
        f'<svg class="bars" viewBox="0 0 {wide} {height}" width="{wide}" height="{height}" preserveAspectRatio="none" role="img"'
        f' aria-label="{shown(label)}">{drawn}<rect class="base" x="0" y="{height - 1}" width="{wide}" height="1"/></svg>'
    )


def _bar(one: Slice, x: int, highest: float, height: int) -> str:
    y = height - 1.0
    drawn = []
    for kind, tall in _heights(one, highest, height - 1.0):
        y -= tall
        drawn.append(f'<rect class="b-{kind}" x="{x}" y="{max(0.0, y):.2f}" width="{_BAR}" height="{tall:.2f}"/>')
    # The last one takes the pointer wherever it stands over the bar, also where there is nothing.
    over = f'<rect class="over" x="{x}" y="0" width="{_BAR}" height="{height}"><title>{shown(one.title)}</title></rect>'
    return f"<g>{''.join(drawn)}{over}</g>"


def _heights(one: Slice, highest: float, room: float) -> list[tuple[str, float]]:
    """How tall each part is. What the smallest parts get more than they are, the tallest part gets less."""
    told = []
    for kind, value in one.parts:
        if _KIND.fullmatch(kind) is None:
            raise ValueError(f"{kind!r:.50} is no kind of a part")
        if value > 0:
            told.append((kind, max(_LEAST, value / highest * room)))
    over = sum(tall for _, tall in told) - room
    if over > 0:
        place = max(range(len(told)), key=lambda each: told[each][1])
        told[place] = (told[place][0], max(_LEAST, told[place][1] - over))
    return told
