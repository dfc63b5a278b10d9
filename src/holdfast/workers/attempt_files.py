"""Artifacts that the body of one attempt stores and opens, within limits. The body and the runner pass artifacts to each other as open file
descriptors."""

from __future__ import annotations

from typing import Final

from holdfast.contract.protocol import ArtifactRef
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.artifacts import Artifacts, HandedFile
from holdfast.workers.tools.seam import ToolFailed

_OPENED_TIMES: Final = 16
"""How many bytes all artifacts that one attempt opens may have together, as a multiple of the largest allowed artifact. There is a limit
because the runner reads each artifact once, to compare it with its hash, before the body gets it."""


class AttemptFiles:
    """The artifacts that one body stores and opens. Everything that blocks runs in a thread."""

    def __init__(self, artifacts: Artifacts, tenant: str, most: int) -> None:
        self._artifacts = artifacts
        self._tenant = tenant
        self._most = most
        self.kept: dict[str, ArtifactRef] = {}
        self._keeping = self._kept_bytes = self._opened = self._opened_bytes = 0

    async def keep(self, name: str, media_type: str, fd: int) -> ArtifactRef:
        """Store a file of the body, with the bytes that it has now. `fd` is the file's open descriptor; `name` and `media_type` are those
        of the artifact. Raises ToolFailed if the size of the file changes meanwhile, if the attempt stores too many artifacts or bytes, or
        if the storage does not answer."""
        handed = HandedFile(fd, name)
        self._keeping += 1
        self._kept_bytes += handed.size  # before it is read, because other files are read at the same time
        if self._keeping > self._most:
            raise ToolFailed("artifact_too_large", f"An attempt may store at most {self._most} artifacts (policy.most.artifacts).")
        self._artifacts.check_size(name, self._kept_bytes)  # all files of an attempt together may be as large as one file
        kept = await in_thread(Purpose.ARTIFACTS, self._artifacts.keep, self._tenant, name, media_type, handed.read)
        self.kept[kept.artifact_id] = kept
        return kept

    async def open(self, artifact_id: str) -> int:
        """Open an artifact, and return its file descriptor, which the caller closes. Raises ArtifactMissing if the tenant has no such
        artifact, or if its bytes or its note are missing or were changed. Raises ToolFailed if the attempt opens too many artifacts or
        bytes, and ArtifactsUnreachable if a bucket does not answer."""
        self._opened += 1
        if self._opened > self._most:
            raise ToolFailed("artifact_too_large", f"An attempt may open at most {self._most} artifacts (policy.most.artifacts).")
        reference = await in_thread(Purpose.ARTIFACTS, self._artifacts.find, self._tenant, artifact_id)
        self._opened_bytes += reference.size_bytes
        most = _OPENED_TIMES * self._artifacts.most_bytes
        if self._opened_bytes > most:
            raise ToolFailed("artifact_too_large", f"An attempt may open artifacts with at most {most} bytes together.")
        return await in_thread(Purpose.ARTIFACTS, self._artifacts.open, self._tenant, artifact_id)
