"""W3C trace context: reads and writes the header `traceparent`, and makes the ids that it can contain."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

_HEADER: Final = re.compile(r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?")
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")


class CallerSpan(NamedTuple):
    """The caller's span of a request. `sampled`: whether the caller records the trace."""

    trace_id: str
    span_id: str
    sampled: bool


def parent_of(header: str | None) -> CallerSpan | None:
    """The span that a `traceparent` header names. None without a header, and for a header that is not valid: a request must not fail
    because of it."""
    found = _HEADER.fullmatch(header.strip()) if header else None
    if found is None or found["version"] == "ff" or (found["version"] == "00" and found["more"]):
        return None
    if not int(found["trace"], 16) or not int(found["span"], 16):
        return None
    return CallerSpan(found["trace"], found["span"], bool(int(found["flags"], 16) & 1))


def header_of(trace_id: str, span_id: str, *, sampled: bool | None = None) -> str:
    """The `traceparent` header for a request to another server. If `sampled` is None, the header says that the trace is recorded."""
    return f"00-{trace_hex(trace_id)}-{span_hex(span_id)}-{'00' if sampled is False else '01'}"


def trace_hex(trace_id: str) -> str:
    """`trace_id` itself, if it has the form that the header and OpenTelemetry need: 32 hexadecimal digits in lower case, not all 0. Any
    other text is hashed to such an id; the same text always gives the same id."""
    return trace_id if _TRACE.fullmatch(trace_id) and int(trace_id, 16) else _named(trace_id, 16)


def span_hex(span_id: str) -> str:
    """`span_id` itself, if it has the form that the header and OpenTelemetry need: 16 hexadecimal digits in lower case, not all 0. Any
    other text is hashed to such an id; the same text always gives the same id."""
    return span_id if _SPAN.fullmatch(span_id) and int(span_id, 16) else _named(span_id, 8)


def below(span_id: str, *parts: object) -> str:
    """The id of a span below the span `span_id`. It is computed from that id and these parts, so a process that continues after a crash
    computes the same id."""
    return _named("\0".join((span_id, *map(str, parts))), 8)


def _named(text: str, size: int) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=size).hexdigest()
