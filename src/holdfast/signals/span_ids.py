"""Gives spans the ids that Holdfast has computed. This module can be imported only if OpenTelemetry is installed."""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import IdGenerator


class GivenIds(IdGenerator):
    """An id generator for OpenTelemetry. It returns the ids that the latest call of `next` has set. Use it on one thread only."""

    def __init__(self) -> None:
        self._trace = self._span = 0

    def next(self, trace_id: int, span_id: int) -> None:
        """Set the ids for the span that is made after this call."""
        self._trace, self._span = trace_id, span_id

    def generate_trace_id(self) -> int:
        """The trace id that the latest call of `next` has set. OpenTelemetry asks for it only if the span has no parent."""
        return self._trace

    def generate_span_id(self) -> int:
        """The span id that the latest call of `next` has set."""
        return self._span
