"""Files that cross between a body and its runner as open descriptors: how many, and how many bytes, in one attempt."""

from __future__ import annotations

from typing import Final

from holdfast.contract.protocol import ArtifactRef
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.artifacts import Artifacts, HandedFile
from holdfast.workers.tools.seam import ToolFailed

_OPENED_TIMES: Final = 16
"""An attempt may open artifacts of so many times the largest size in all: each is read whole and compared with its hash before."""


class HandedFiles:
    """The artifacts that one body keeps and opens. Everything that blocks is done off the loop."""

    def __init__(self, artifacts: Artifacts, tenant: str, most: int) -> None:
        self._artifacts = artifacts
        self._tenant = tenant
        self._most = most
        self.kept: dict[str, ArtifactRef] = {}
        self._keeping = self._kept_bytes = self._opened = self._opened_bytes = 0

    async def keep(self, name: str, media_type: str, fd: int) -> ArtifactRef:
        """Store a file. The body may still write to it: no more is read than it has now."""
        handed = HandedFile(fd, name)
        self._keeping += 1
        self._kept_bytes += handed.size  # before it is read: others are read side by side
        if self._keeping > self._most:
            raise ToolFailed("artifact_too_large", f"An attempt may keep {self._most} artifacts (policy.most.artifacts).")
        self._artifacts.check_size(name, self._kept_bytes)  # all of them together are no larger than one may be
        kept = await in_thread(Purpose.ARTIFACTS, self._artifacts.keep, self._tenant, name, media_type, handed.read)
        self.kept[kept.artifact_id] = kept
        return kept

    async def open(self, artifact_id: str) -> int:
        """A descriptor of an artifact, which is the caller's to close."""
        self._opened += 1
        if self._opened > self._most:
            raise ToolFailed("artifact_too_large", f"An attempt may open {self._most} artifacts (policy.most.artifacts).")
        reference = await in_thread(Purpose.ARTIFACTS, self._artifacts.find, self._tenant, artifact_id)
        self._opened_bytes += reference.size_bytes
        most = _OPENED_TIMES * self._artifacts.most_bytes
        if self._opened_bytes > most:
            raise ToolFailed("artifact_too_large", f"An attempt may open artifacts of {most} bytes in all.")
        return await in_thread(Purpose.ARTIFACTS, self._artifacts.open, self._tenant, artifact_id)
