"""The storage seam: what artifacts need from the place where they lie.

An artifact has two parts under its tenant's home: its bytes, and a note that describes them. The note is written last, when the bytes are
on disk, so an artifact with a note is complete. Every method blocks, so it must be called in a thread and not on the loop.
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

    code = "tool_unavailable"  # for a run this is an outside service, which may work again later


class Storage(Protocol):
    """A place for artifacts. A place that does not answer raises ArtifactsUnreachable."""

    def check(self) -> None:
        """Write and read something; raises ArtifactsUnusable, so that a wrong setting is known at the start."""

    def draft(self, home: str) -> AbstractContextManager[IO[bytes]]:
        """A file to write into. It is removed afterwards unless it was published."""

    def publish(self, home: str, identity: str, draft: IO[bytes], note: bytes) -> None:
        """Make the draft an artifact. It is on disk when this returns. The same artifact may be published many times, also at once."""

    def note(self, home: str, identity: str) -> bytes | None:
        """The note of an artifact, if there is one."""

    def open(self, home: str, identity: str, size: int) -> int | None:
        """A descriptor for reading the bytes, if there are any. Of a file above `size` it has only enough bytes to show that."""

    def forget(self, home: str) -> None:
        """Remove everything under a home."""
