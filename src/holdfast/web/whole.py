"""An answer's head leaves together with its body, in one write.

uvicorn writes the one after the other. A server that is killed in between leaves a head alone, and boto3 takes that for an answer
with nothing in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class Whole:
    """Stands between one request's cycle and its connection until the head is out. A stream, which tells no length, is left alone."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    @classmethod
    def around(cls, cycle: RequestResponseCycle | None) -> None:
        """Let a new cycle answer so."""
        if cycle is not None and cycle.scope["method"] != "HEAD":
            cycle.transport = cls(cycle)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        """Keep a head, and send it with what comes next."""
        if self._head is None and self._cycle.response_started and self._cycle.expected_content_length:
            self._head = data
            return
        if self._cycle.response_started:
            self._cycle.transport = self._transport
        if self._transport.is_closing():  # the client left between the head and the body
            return
        if self._head is None:
            self._transport.write(data)
        else:
            self._transport.writelines((self._head, data))

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether somebody did."""
        return self._transport.is_closing()
