"""One write for the head and the body of a reply.

uvicorn writes the head first and the body after it. If the server is killed in between, the client receives a head alone, and boto3 reads
that as a reply with an empty body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class SingleWrite:
    """A transport that holds the head of a reply back until its body is written. A stream, which has no length, is not held back."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    @classmethod
    def around(cls, cycle: RequestResponseCycle | None) -> None:
        """Let a new request of uvicorn be answered through such a transport."""
        if cycle is not None and cycle.scope["method"] != "HEAD":
            cycle.transport = cls(cycle)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        """Keep the head, and send it with the next data."""
        if self._head is None and self._cycle.response_started and self._cycle.expected_content_length:
            self._head = data
            return
        if self._cycle.response_started:
            self._cycle.transport = self._transport
        if self._transport.is_closing():  # the client closed the connection between the head and the body
            return
        if self._head is None:
            self._transport.write(data)
        else:
            self._transport.writelines((self._head, data))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()
