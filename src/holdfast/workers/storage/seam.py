"""The storage seam: what artifacts need from the place where they are stored.

An artifact has two parts under its tenant's home (a folder or a prefix): its bytes, and a note with its name, media type, size and hash.
The note is written last, when the bytes are stored, and removed first, so an artifact with a note is complete. Every method blocks, so it
must be called in a thread and not on the event loop.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import IO, Protocol

from holdfast.model.errors import Rejected, Retryable


class ArtifactsUnusable(Rejected):
    """The storage for artifacts cannot be used with the present settings."""

    code = "artifacts_unusable"


class ArtifactsUnreachable(Retryable):
    """The storage for artifacts gave no valid answer, refused access, or has no such bucket."""

    code = "tool_unavailable"  # for a run this is an outside service, which may work again later


class Storage(Protocol):
    """A place for artifacts. Except for `check`, the methods of a bucket raise ArtifactsUnreachable if the bucket is missing, refuses
    access or does not answer, and those of a folder may raise OSError."""

    def check(self) -> None:
        """Test the storage by a write, so that a wrong setting is found when the server starts. Raises ArtifactsUnusable if the test fails.
        A folder also raises NotPrivate if other users could replace files in it."""

    def draft(self, home: str) -> AbstractContextManager[IO[bytes]]:
        """A block that yields a file to write an artifact's bytes into. When the block ends, the file is removed, unless `publish` made it
        an artifact."""

    def publish(self, home: str, identity: str, draft: IO[bytes], note: bytes) -> None:
        """Make the draft and its note the artifact with the id `identity`. When this returns, the artifact is stored. Several processes may
        publish the same artifact at the same time."""

    def note(self, home: str, identity: str) -> bytes | None:
        """The note of an artifact (name, media type, size and hash as JSON); None if there is none."""

    def open(self, home: str, identity: str, size: int) -> int | None:
        """A descriptor for reading the artifact's bytes; None if there are none. `size` is how many bytes the note says there are. If there
        are more, the descriptor may give only a part of them, but a part longer than `size`, so that its hash is wrong and the change is
        noticed."""

    def forget(self, home: str) -> None:
        """Remove everything under the home of a tenant, the notes before the bytes."""
