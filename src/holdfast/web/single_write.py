"""One write for the head and the body of a reply.

uvicorn writes the head first and the body after it. If the server is killed in between, the client receives a head alone, and boto3 reads
that as a reply with an empty body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class SingleWrite:
    """A transport that keeps the head of a reply until the first part of the body comes, and then writes both together. The head of a reply
    that does not give its length, such as a stream, is written at once."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head: bytes | None = None

    @classmethod
    def around(cls, cycle: RequestResponseCycle | None) -> None:
        """Give a request of uvicorn a SingleWrite as its transport. A HEAD request keeps the transport that it has, because its reply has
        no body."""
        if cycle is not None and cycle.scope["method"] != "HEAD":
            cycle.transport = cls(cycle)  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        """If `data` is the head of a reply that gives the length of its body, and the length is not 0, keep the head. Write any other data
        at once, and before it the head that was kept; but if the connection is closing, write nothing."""
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
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()
