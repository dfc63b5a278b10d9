"""The storage seam: what artifacts need of the place where they lie.

An artifact is two things under its tenant's home: its bytes, and a note that says what they are. The note is written last, when the bytes
are safe: whoever finds it finds a whole artifact. Every verb blocks, so nobody calls one on the loop.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import IO, Protocol

from holdfast.model.errors import Rejected, Retryable


class ArtifactsUnusable(Rejected):
    """The place for artifacts cannot be used as it is set up."""

    code = "artifacts_unusable"


class ArtifactsUnreachable(Retryable):
    """The place where artifacts lie does not answer as it should."""

    code = "tool_unavailable"  # in a run this is what it is: something outside that may come back


class Storage(Protocol):
    """A place for artifacts. What does not answer raises ArtifactsUnreachable."""

    def check(self) -> None:
        """Write and read something; raises ArtifactsUnusable, so that a wrong setting is known at the start."""

    def draft(self, home: str) -> AbstractContextManager[IO[bytes]]:
        """A file to write into, which is gone afterwards unless it was published."""

    def publish(self, home: str, identity: str, draft: IO[bytes], note: bytes) -> None:
        """Make the draft an artifact. It is safe when this returns; the same one may be published many times, also at once."""

    def note(self, home: str, identity: str) -> bytes | None:
        """What was noted of an artifact, if it is there."""

    def open(self, home: str, identity: str, size: int) -> int | None:
        """A descriptor for reading its bytes, if they are there; of what is larger than `size`, no more than shows that it is."""

    def forget(self, home: str) -> None:
        """Remove everything under a home."""
