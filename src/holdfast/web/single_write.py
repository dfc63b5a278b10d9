"""One write for the head and the body of a reply.

uvicorn writes the head first and the body after it. If the server is killed in between, the client receives a head alone, and boto3 reads
that as a reply with an empty body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class SingleWrite:
    """A transport that keeps the head of a reply until its body is written, and then writes both at once. The head of a reply without a
    length, such as a stream, is written at once."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    @classmethod
    def around(cls, cycle: RequestResponseCycle | None) -> None:
        """Put such a transport into a request of uvicorn. A HEAD request keeps its transport, because its reply has no body."""
        if cycle is not None and cycle.scope["method"] != "HEAD":
            cycle.transport = cls(cycle)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        """Keep the head of a reply that has a body; write everything else, with the kept head before it."""
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
