"""Artifacts: large values, stored outside the history. Each artifact belongs to one tenant and is found only by its id. When it is opened,
its bytes are compared with its hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.contract.checking import MAX_DEPTH
from holdfast.contract.protocol import ArtifactRef
from holdfast.model import codec, json_structs
from holdfast.model.errors import PayloadNotJson, Rejected
from holdfast.model.shapes import crowding
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.storage.seam import ArtifactsUnreachable, Storage
from holdfast.workers.tools.seam import ToolFailed

_CHUNK = 1 << 16
_ID_LENGTH = 32


class ArtifactMissing(Rejected):
    """The tenant has no artifact with this id, or its bytes are missing, or its bytes or its note (name, media type and hash) were
    changed."""

    code = "artifact_not_found"


class HandedFile:
    """A file of a body, handed over as an open descriptor; the body may still write to it.

    The body shares the descriptor's offset and can move it. So the runner reads at positions of its own.

    The runner reads only the bytes that the file has when it arrives. A file with another size at the end is refused: the runner cannot
    know which content the body meant.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._at = 0
        self.size = os.fstat(fd).st_size

    def read(self, most: int) -> bytes:
        """The next bytes, at most `most`; empty at the end. Raises ToolFailed (`artifact_changed`) if the file has another size at the
        end."""
        data = os.pread(self._fd, min(most, self.size - self._at), self._at)
        self._at += len(data)
        if not data and (self._at, os.fstat(self._fd).st_size) != (self.size, self.size):
            raise ToolFailed("artifact_changed", f"The file of artifact {self._name!r:.100} became longer or shorter while it was stored.")
        return data


class Artifacts:
    """The artifacts of every tenant, in a storage."""

    def __init__(self, storage: Storage, most: int) -> None:
        self._storage = storage
        self.most_bytes = most
        """The most bytes of one artifact, and of all artifacts of one attempt together."""

    def keep(self, tenant: str, name: str, media_type: str, read: Callable[[int], bytes]) -> ArtifactRef:
        """Store an artifact: call `read` until it returns no more bytes, and store all these bytes. Returns the artifact's reference when
        everything is stored. The same bytes with the same name and media type are one artifact. Raises ToolFailed if there are too many
        bytes, or if a bucket does not answer, and the errors of `read`."""
        home, digest, size = _home(tenant), sha256(), 0
        with self._storage.draft(home) as draft:
            while chunk := read(_CHUNK):
                size += len(chunk)
                self.check_size(name, size)
                digest.update(chunk)
                draft.write(chunk)
            identity = _identity(digest.hexdigest(), name, media_type)
            reference = ArtifactRef(
                artifact_id=identity,
                name=name,
                media_type=media_type,
                size_bytes=size,
                sha256=digest.hexdigest(),
                uri=f"holdfast:{identity}",
            )
            try:
                self._storage.publish(home, identity, draft, msgspec.json.encode(reference))
            except ArtifactsUnreachable as away:
                raise ToolFailed(away.code, str(away)) from None
        return reference

    def check_size(self, name: str, size: int) -> None:
        """Raise ToolFailed if `size` is more than `most_bytes`. `name` is the artifact's name for the error."""
        if size > self.most_bytes:
            raise ToolFailed(
                "artifact_too_large",
                f"The artifact {name!r:.100} is too large: the artifacts of one attempt may have {self.most_bytes} bytes together.",
            )

    def find(self, tenant: str, identity: str) -> ArtifactRef:
        """The reference of an artifact. Raises ArtifactMissing if the tenant has no artifact with this id, or if its note (name, media type
        and hash) was changed. A bucket may also raise ArtifactsUnreachable, a folder OSError."""
        asked = len(identity) == _ID_LENGTH and identity.isalnum()
        note = self._storage.note(_home(tenant), identity) if asked else None
        if note is None:
            raise ArtifactMissing(f"There is no artifact {identity!r:.100} of this tenant.")
        try:
            found = json_structs.decoded(note, ArtifactRef)
        except (msgspec.DecodeError, UnicodeError):
            found = None
        if found is None or _identity(found.sha256, found.name, found.media_type) != identity:
            raise ArtifactMissing(f"The note of artifact {identity} (its name, media type and hash) was changed after it was stored.")
        return found

    def open(self, tenant: str, identity: str) -> int:
        """Open an artifact, and return a file descriptor for reading. Raises ArtifactMissing if the tenant has no artifact with this id, if
        its bytes are missing, or if its bytes or its note (name, media type and hash) were changed. A bucket may also raise
        ArtifactsUnreachable, a folder OSError."""
        reference = self.find(tenant, identity)
        descriptor = self._storage.open(_home(tenant), identity, reference.size_bytes)
        if descriptor is None:
            raise ArtifactMissing(f"The bytes of artifact {identity} are missing in the storage.")
        digest = sha256()
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
        if digest.hexdigest() != reference.sha256:
            os.close(descriptor)
            raise ArtifactMissing(f"The bytes of artifact {identity} were changed after they were stored.")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def value(self, tenant: str, identity: str) -> Any:
        """The value of an artifact that contains JSON. Raises PayloadNotJson if the artifact is not JSON, or has too many values or levels.
        Raises ArtifactMissing if the tenant has no such artifact, or if it was changed. A bucket may also raise ArtifactsUnreachable, a
        folder OSError."""
        with os.fdopen(self.open(tenant, identity), "rb") as file:
            text = file.read()
            if (crowded := crowding(text, MAX_DEPTH)) is not None:
                raise PayloadNotJson(f"The artifact {crowded}.")
            return codec.loads(text)

    async def check_together(self, tenant: str, inputs: dict[str, Any]) -> None:
        """Raise ToolFailed if the artifacts that the inputs refer to have more than `most_bytes` together, because `resolved` brings all of
        them into memory. An artifact that is named twice counts twice. Raises what `find` raises."""
        named = [identity for value in inputs.values() if (identity := artifact_id(value)) is not None]
        if named and await in_thread(Purpose.ARTIFACTS, self._size_of, tenant, named) > self.most_bytes:
            told = f"The artifacts in the inputs are too large: they may have {self.most_bytes} bytes together."
            raise ToolFailed("artifact_too_large", told)

    def _size_of(self, tenant: str, identities: list[str]) -> int:
        return sum(self.find(tenant, identity).size_bytes for identity in identities)

    async def resolved(self, tenant: str, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs, with each top-level value of the form `{"$artifact": …}` replaced by the JSON value of that artifact. The artifacts
        are read in a thread, because they may be large. Raises ArtifactMissing if an artifact is missing or was changed, and PayloadNotJson
        if it is not JSON, or has too many values or levels. A bucket may also raise ArtifactsUnreachable, a folder OSError."""
        if all(artifact_id(value) is None for value in inputs.values()):
            return inputs
        found: dict[str, Any] = await in_thread(Purpose.ARTIFACTS, brought_in, inputs, lambda identity: self.value(tenant, identity))
        return found

    def forget(self, tenant: str) -> None:
        """Remove all artifacts of a tenant."""
        self._storage.forget(_home(tenant))


def _home(tenant: str) -> str:
    """The name of a tenant's home in the storage. It is a hash of the tenant's name, so that no name can lead to a place outside."""
    return sha256(tenant.encode(errors="replace")).hexdigest()[:_ID_LENGTH]


def _identity(digest: str, name: str, media_type: str) -> str:
    return sha256(f"{digest}\0{name}\0{media_type}".encode(errors="replace")).hexdigest()[:_ID_LENGTH]


async def moved_out(
    outputs: dict[str, Any], keep: Callable[[str, bytes], ArtifactRef], above: int
) -> tuple[dict[str, Any], list[ArtifactRef]]:
    """The outputs with the largest top-level values moved into artifacts, until the values that stay have at most `above` bytes as JSON;
    and the references of these artifacts. `keep`, which stores a value, is called in a thread."""
    texts = {name: codec.dumps(value).encode() for name, value in outputs.items()}
    total, kept, moved = sum(map(len, texts.values())), dict(outputs), []
    for name, text in sorted(texts.items(), key=lambda item: -len(item[1])):
        if total <= above:
            break
        reference = await in_thread(Purpose.ARTIFACTS, keep, name, text)
        moved.append(reference)
        kept[name] = {"$artifact": msgspec.to_builtins(reference)}
        total -= len(text)
    return kept, moved


def brought_in(inputs: Any, load: Callable[[str], Any]) -> Any:
    """The inputs, with each top-level value of the form `{"$artifact": …}` replaced by what `load` returns for the artifact's id. The `uri`
    of a reference is never opened. Inputs that are not an object are returned unchanged."""
    if not isinstance(inputs, dict):
        return inputs
    return {name: load(identity) if (identity := artifact_id(value)) is not None else value for name, value in inputs.items()}


def artifact_id(value: Any) -> str | None:
    """The id of the artifact, if the value is a reference to an artifact; None for every other value."""
    inner = value.get("$artifact") if isinstance(value, dict) and len(value) == 1 else None
    found = inner.get("artifact_id") if isinstance(inner, dict) else None
    return found if isinstance(found, str) else None
