"""Rendering: templates become pages. Every text is escaped, unless it is HTML that the console itself has made (Markup). The filter
`visible` is for texts that a stranger may have written: it also cuts them, and writes an invisible character as its code.

Pages allow only the console's own scripts and styles: each script carries the page's nonce, and no page has a `style` attribute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from holdfast.console.json_view import json_html, value_html
from holdfast.console.page_errors import SAFE_HEADERS
from holdfast.console.page_request import PageRequest
from holdfast.console.query import quoted
from holdfast.console.run_names import named, short_id, with_short_ids
from holdfast.model.error_text import brief_class
from holdfast.model.shown_status import STATUS_STYLES, ShownStatus
from holdfast.web.plain_html import shown
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply
from holdfast.workers.accept import called

_MOST_INDENTED: Final = 200_000
_MOST_DIGITS: Final = 400
_NANOS: Final = 1_000_000_000
_SPANS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"))


class Rendering:
    """Renders the console's templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("holdfast.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "visible": visible,
            "brief_class": brief_class,
            "called": lambda header: visible(named(header), 60),
            "called_whole": lambda header: visible(called(header), 60),
            "short_id": lambda identity: visible(short_id(str(identity)), 60),
            "short_ids": with_short_ids,
            "span": span,
            "usd": usd,
            "moment": moment,
            "iso": iso,
            "thousands": lambda number: f"{number:,}",
            "json_html": json_html,
            "as_json": value_html,
            "pretty": pretty,
            "lines": lambda text: text.count("\n") + 1,
            "tojson_text": lambda value: json.dumps(value, ensure_ascii=False),
        }
        self._environment.globals |= {
            "product": "Holdfast",
            "looks": STATUS_STYLES,
            "statuses": tuple(ShownStatus),
            "address": address,
            "quoted": quoted,
        }

    def page(self, request: PageRequest, template: str, status: int = 200, **values: Any) -> Reply:
        """Render a template with these values, and return the page as a reply."""
        text = self._environment.get_template(template).render(request=request, root=request.root, **values)
        return Reply(status, text.encode("utf-8", "replace"), (*SAFE_HEADERS, policy_of(request.nonce)))


def policy_of(nonce: str) -> Header:
    """The content security policy of a page: only the console's own scripts, styles and pictures, and no other site may show the page in a
    frame."""
    parts = [
        "default-src 'none'",
        f"script-src 'nonce-{nonce}'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types htmx holdfast",
    ]
    return (b"content-security-policy", "; ".join(parts).encode())


def visible(text: object, most: int = 2_000) -> Markup:
    """A text that a stranger may have written, made safe to show: escaped, and cut after `most` characters. Characters that are invisible,
    or that change the direction of text, are written as their codes."""
    whole = str(text)
    return Markup(shown(whole if len(whole) <= most else f"{whole[:most]}… ({len(whole):,} characters)"))


def span(ms: float | None) -> str:
    """A length of time in milliseconds as a short text, such as `340 ms`, `12.5 s` or `3 h 20 m`; empty for None."""
    if ms is None:
        return ""
    ms = max(0, ms)
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    for size, unit in _SPANS:
        if ms >= size:
            whole, rest = divmod(int(ms), size)
            following = {"d": (3_600_000, "h"), "h": (60_000, "m"), "m": (1_000, "s")}[unit]
            return f"{whole} {unit} {rest // following[0]} {following[1]}"
    return ""


def usd(nanos: int | None) -> str:
    """An amount of money, given in billionths of a dollar, as a text such as `$1.20`; empty for None."""
    if nanos is None:
        return ""
    if nanos and abs(nanos) < _NANOS // 100:
        return f"${nanos / _NANOS:.4f}" if abs(nanos) >= 100_000 else "<$0.0001"
    return f"${nanos / _NANOS:,.2f}"


def moment(ms: int | None) -> str:
    """A time in milliseconds since 1970 as a text for people, such as `2026-01-31 12:00:00`, in UTC; empty for None."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(ms: int | None) -> str:
    """A time in milliseconds since 1970 as a text for programs, such as `2026-01-31T12:00:00.000Z`; empty for None."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def address(path: str, **fields: object) -> str:
    """The address of a page: its path and a query with these fields. A field whose value is None, False, 0 or an empty text is left out."""
    given: Mapping[str, object] = {name: value for name, value in fields.items() if value not in (None, "", False)}
    return f"{path}?{urlencode({name: str(value) for name, value in given.items()})}" if given else path


def pretty(text: str) -> str:
    """A JSON text, indented so that a person can edit it. The text is returned unchanged if it is not JSON, if it is too long, or if a
    fraction in it has more digits than a float keeps."""
    if len(text) > _MOST_INDENTED:
        return text
    try:
        return json.dumps(json.loads(text, parse_float=_exact), indent=2, ensure_ascii=False)
    except (ValueError, ArithmeticError, RecursionError):  # Decimal refuses some exponents with an ArithmeticError
        return text


def _exact(digits: str) -> float:
    if len(digits) > _MOST_DIGITS or not isfinite(float(digits)):
        raise ValueError("the number cannot become a float without a loss of digits")
    if Decimal(digits) != Decimal(repr(float(digits))):
        raise ValueError("the number cannot become a float without a loss of digits")
    return float(digits)
