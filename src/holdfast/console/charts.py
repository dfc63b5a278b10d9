"""A chart: one bar for each slice of time. A bar is a stack of coloured parts. The server makes the SVG. CSS classes give the colours
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
_HEIGHT: Final = 56
_LEAST: Final = 1.5
"""The least height of a part whose value is above 0, in units of the drawing, so that a person sees one failure beside a thousand runs."""


class ChartBar(msgspec.Struct, frozen=True):
    """One bar: its title, and its parts from the bottom up."""

    title: str
    """The text that a person reads when the pointer is on the bar."""
    parts: tuple[tuple[str, float], ...]
    """Each part as (kind, value). The kind, a status or `cost`, chooses the colour."""

    @property
    def total(self) -> float:
        """The sum of the values of all parts. A negative value is counted as 0."""
        return sum(max(0.0, value) for _, value in self.parts)


def bars(slices: Sequence[ChartBar], label: str) -> Markup:
    """Draw bars side by side; the page stretches the drawing to its width. Screen readers read `label` aloud instead of the drawing."""
    highest = max((one.total for one in slices), default=0.0) or 1.0
    wide = max(1, len(slices) * (_BAR + _GAP) - _GAP)
    drawn = "".join(_bar(one, place * (_BAR + _GAP), highest) for place, one in enumerate(slices))
    return Markup(
        f'<svg class="bars" viewBox="0 0 {wide} {_HEIGHT}" width="{wide}" height="{_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{shown(label)}">{drawn}<rect class="base" x="0" y="{_HEIGHT - 1}" width="{wide}" height="1"/></svg>'
    )


def _bar(one: ChartBar, x: int, highest: float) -> str:
    y = _HEIGHT - 1.0
    drawn = []
    for kind, tall in _heights(one, highest, _HEIGHT - 1.0):
        y -= tall
        drawn.append(f'<rect class="b-{kind}" x="{x}" y="{max(0.0, y):.2f}" width="{_BAR}" height="{tall:.2f}"/>')
    # An invisible rectangle over the whole column: its title appears also when the pointer is above a short bar.
    over = f'<rect class="over" x="{x}" y="0" width="{_BAR}" height="{_HEIGHT}"><title>{shown(one.title)}</title></rect>'
    return f"<g>{''.join(drawn)}{over}</g>"


def _heights(one: ChartBar, highest: float, room: float) -> list[tuple[str, float]]:
    """The kind and the height of each part whose value is above 0. A bar with the total `highest` gets the height `room`. Each part is at
    least _LEAST high. If the bar is then higher than `room`, its highest part is made lower. Raises ValueError if a kind is not 1 to 20
    small letters."""
    told = []
    for kind, value in one.parts:
        if _KIND.fullmatch(kind) is None:
            raise ValueError(f"{kind!r:.50} is not a kind of a part. A kind has 1 to 20 small letters, a to z")
        if value > 0:
            told.append((kind, max(_LEAST, value / highest * room)))
    over = sum(tall for _, tall in told) - room
    if over > 0:
        place = max(range(len(told)), key=lambda each: told[each][1])
        told[place] = (told[place][0], max(_LEAST, told[place][1] - over))
    return told
