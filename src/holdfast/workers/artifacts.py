"""Artifacts: large values, stored out of band. A tenant's own, found by id only, and checked when they are read."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from holdfast.contract.protocol import ArtifactRef
from holdfast.model import codec
from holdfast.model.errors import Rejected
from holdfast.workers.tools.seam import ToolFailed

_CHUNK = 1 << 16
_ID_LENGTH = 32


class ArtifactMissing(Rejected):
    """No artifact of that id belongs to this tenant."""

    code = "artifact_not_found"


class Artifacts:
    """A folder of artifacts. Each is two files, its bytes and what is known of them, which appear whole or not at all."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most

    def keep(self, tenant: str, name: str, media_type: str, read: Callable[[int], bytes]) -> ArtifactRef:
        """Store what `read` gives; the same bytes of the same name are one artifact."""
        home = self._home(tenant)
        home.mkdir(parents=True, exist_ok=True)
        digest, size = sha256(), 0
        draft = home / f".{os.urandom(8).hex()}"
        try:
            with draft.open("xb") as file:
                while chunk := read(_CHUNK):
                    size += len(chunk)
                    self.check_size(name, size)
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            identity = sha256(f"{digest.hexdigest()}\0{name}\0{media_type}".encode(errors="replace")).hexdigest()[:_ID_LENGTH]
            reference = ArtifactRef(
                artifact_id=identity,
                name=name,
                media_type=media_type,
                size_bytes=size,
                sha256=digest.hexdigest(),
                uri=f"holdfast:{identity}",
            )
            self._publish(home, draft, reference)
        finally:
            draft.unlink(missing_ok=True)
        return reference

    def check_size(self, name: str, size: int) -> None:
        """Refuse what says beforehand that it is too large."""
        if size > self._most:
            raise ToolFailed("artifact_too_large", f"The artifact {name!r:.100} is above {self._most} bytes.")

    def _publish(self, home: Path, draft: Path, reference: ArtifactRef) -> None:
        draft.rename(home / reference.artifact_id)
        note = draft.with_suffix(".note")  # others may be keeping the same one
        with note.open("xb") as file:
            file.write(msgspec.json.encode(reference))
            file.flush()
            os.fsync(file.fileno())
        note.rename(home / f"{reference.artifact_id}.json")
        folder = os.open(home, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def find(self, tenant: str, identity: str) -> ArtifactRef:
        """What is known of an artifact."""
        if len(identity) == _ID_LENGTH and identity.isalnum():
            note = self._home(tenant) / f"{identity}.json"
            if note.is_file():
                return msgspec.json.decode(note.read_bytes(), type=ArtifactRef)
        raise ArtifactMissing(f"There is no artifact {identity!r:.100} here.")

    def open(self, tenant: str, identity: str) -> int:
        """Its bytes as an open file, after they were compared with their hash: nothing that was changed is handed out."""
        reference = self.find(tenant, identity)
        try:
            descriptor = os.open(self._home(tenant) / identity, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise ArtifactMissing(f"The bytes of artifact {identity} are gone.") from None
        digest = sha256()
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        if digest.hexdigest() != reference.sha256:
            os.close(descriptor)
            raise ArtifactMissing(f"The bytes of artifact {identity} are not what was stored.")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def value(self, tenant: str, identity: str) -> Any:
        """An artifact that holds JSON, loaded."""
        with os.fdopen(self.open(tenant, identity), "rb") as file:
            return codec.loads(file.read())

    async def resolved(self, tenant: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs with every top-level reference resolved; off the loop, for they may be large."""
        if all(_reference(value) is None for value in inputs.values()):
            return inputs
        found: dict[str, Any] = await asyncio.to_thread(brought_in, inputs, lambda identity: self.value(tenant, identity))
        return found

    def forget(self, tenant: str) -> None:
        """Remove all of a tenant's."""
        shutil.rmtree(self._home(tenant), ignore_errors=True)

    def _home(self, tenant: str) -> Path:
        """A folder that no tenant's name can leave."""
        return self._folder / sha256(tenant.encode(errors="replace")).hexdigest()[:_ID_LENGTH]


def moved_out(outputs: dict[str, Any], keep: Callable[[str, bytes], ArtifactRef], above: int) -> tuple[dict[str, Any], list[ArtifactRef]]:
    """The outputs with what is too large moved out, largest first, until the rest is small enough."""
    texts = {name: codec.dumps(value).encode() for name, value in outputs.items()}
    total, kept, moved = sum(map(len, texts.values())), dict(outputs), []
    for name, text in sorted(texts.items(), key=lambda item: -len(item[1])):
        if total <= above:
            break
        reference = keep(name, text)
        moved.append(reference)
        kept[name] = {"$artifact": msgspec.to_builtins(reference)}
        total -= len(text)
    return kept, moved


def brought_in(inputs: Any, load: Callable[[str], Any]) -> Any:
    """The inputs with every top-level reference resolved; a `uri` is never opened."""
    if not isinstance(inputs, dict):
        return inputs
    return {name: load(identity) if (identity := _reference(value)) is not None else value for name, value in inputs.items()}


def _reference(value: Any) -> str | None:
    inner = value.get("$artifact") if isinstance(value, dict) and len(value) == 1 else None
    found = inner.get("artifact_id") if isinstance(inner, dict) else None
    return found if isinstance(found, str) else None
