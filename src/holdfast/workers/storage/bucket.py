"""Artifacts in a bucket of S3 or Google Cloud Storage, or in a container of Azure, through obstore. Every machine of a fleet finds them
there.

Bytes are read from a copy in a local file without a name, because a body gets a file descriptor and no credentials. Error messages repeat
only a short code from the text of a server, because the text may contain signed addresses.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import IO, Final

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore, from_url

from holdfast.workers.storage.seam import ArtifactsUnreachable, ArtifactsUnusable

_CHUNK: Final = 5 << 20  # the smallest part that S3 accepts
_AT_ONCE: Final = 2
"""At most this many parts of one upload are in memory."""
_RETRIES: Final = 7
"""How often a failed request is repeated at most. With the pauses this takes about fifteen seconds, so that a service that fails for a few
seconds does not end a worker's attempt."""
_RETRIES_OF_CHECK: Final = 3
"""How often a failed request of the check at the start is repeated at most. With the pauses this takes about a second, so that a wrong
setting is reported soon."""
_MARK: Final = "holdfast-artifacts"
"""The name of the object that the check at every start writes and reads."""
_NO_CREDENTIALS: Final = ("/latest/api/token", "/latest/meta-data", "/computeMetadata/", "/metadata/identity/")
"""Parts of the addresses at which obstore asks for the machine's own credentials when the environment has none. An error with one of them
means that there are no credentials."""
_CODES: Final = (r"<Code>(\w{1,60})</Code>", r"status code: (\d{3})\b", r"\bkind: (\w{1,30})\b")
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
"""The servers' error codes for a missing bucket. A missing bucket is reported as ArtifactsUnreachable; a missing object is not."""
_VARIABLES: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY",
}


class Bucket:
    """Artifacts as objects under a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._scheme = url.partition("://")[0]
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        allow_http = self._scheme == "s3" and endpoint.startswith("http://")
        try:
            self._store = _opened(url, allow_http, _RETRIES)
            self._checked = _opened(url, allow_http, _RETRIES_OF_CHECK)
        except (BaseError, ValueError):
            raise ArtifactsUnusable(
                f"Artifacts cannot be kept at {url}: an environment variable is missing or wrong ({_VARIABLES[self._scheme]})."
            ) from None

    def check(self) -> None:
        """Write a small object and read it back, to find out whether both are allowed. Raises ArtifactsUnusable if the write or the read
        fails."""
        try:
            obstore.put(self._checked, _MARK, b"Artifacts of Holdfast lie here.\n")
            obstore.get(self._checked, _MARK).bytes()
        except (BaseError, OSError) as error:
            raise ArtifactsUnusable(f"Artifacts cannot be kept at {self._url}: {self._reason(error)}.") from None

    def draft(self, home: str) -> AbstractContextManager[IO[bytes]]:
        """A block that yields a temporary file without a name, to write into. The file is gone when the block ends."""
        return tempfile.TemporaryFile(prefix="holdfast-")

    def publish(self, home: str, identity: str, draft: IO[bytes], note: bytes) -> None:
        """Upload the artifact's bytes (in parts if there are many), then its note (name, media type, size and hash)."""
        draft.seek(0)
        with self._answering():
            obstore.put(self._store, f"{home}/{identity}", draft, chunk_size=_CHUNK, max_concurrency=_AT_ONCE)
            obstore.put(self._store, f"{home}/{identity}.json", note)

    def note(self, home: str, identity: str) -> bytes | None:
        """The note of an artifact (name, media type, size and hash as JSON), an object beside the bytes; None if there is none."""
        with self._answering():
            try:
                return bytes(obstore.get(self._store, f"{home}/{identity}.json").bytes())
            except FileNotFoundError as error:
                if _code_of(error) in _NO_BUCKET:
                    raise
                return None

    def open(self, home: str, identity: str, size: int) -> int | None:
        """The descriptor of a read-only copy of the bytes; None if there are none. The copy is deleted when its descriptors are closed. If
        there are more than `size` bytes, only a part is copied, but a part longer than `size`, so that its hash is wrong and the change is
        noticed."""
        with self._answering():
            try:
                stream = obstore.get(self._store, f"{home}/{identity}").stream(min_chunk_size=1 << 20)
            except FileNotFoundError as error:
                if _code_of(error) in _NO_BUCKET:
                    raise
                return None
            writing, reading = _nameless()
            try:
                with os.fdopen(writing, "wb") as file:
                    for chunk in stream:
                        file.write(chunk)
                        if file.tell() > size:
                            break
            except BaseException:
                os.close(reading)
                raise
            return reading

    def forget(self, home: str) -> None:
        """Remove every object under the home of a tenant: first the notes, then the bytes."""
        with self._answering():
            for ending in (".json", ""):
                for found in obstore.list(self._store, f"{home}/"):
                    if paths := [each["path"] for each in found if each["path"].endswith(ending)]:
                        obstore.delete(self._store, paths)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # callers read this message, and it must not name the operator's storage
            raise ArtifactsUnreachable(f"Artifacts cannot be reached: {self._reason(error)}.") from None

    def _reason(self, error: Exception) -> str:
        said, code = str(error), _code_of(error)
        told = "" if code is None else f" ({code})"
        if any(path in said for path in _NO_CREDENTIALS):
            return f"there are no credentials in the environment ({_VARIABLES[self._scheme]}), and this machine has none of its own"
        if isinstance(error, FileNotFoundError):
            return f"there is no such bucket{told}"
        if isinstance(error, PermissionDeniedError | UnauthenticatedError):
            return f"access was refused{told}"
        return f"the storage gave no valid answer{told}"


def _opened(url: str, allow_http: bool, retries: int) -> ObjectStore:
    return from_url(
        url,
        client_options={
            "allow_http": allow_http,
            "connect_timeout": timedelta(seconds=3),
            "read_timeout": timedelta(seconds=30),
            "timeout": timedelta(minutes=10),
        },
        retry_config={
            "max_retries": retries,
            "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=4), "base": 2},
            "retry_timeout": timedelta(seconds=90),
        },
    )


def _code_of(error: Exception) -> str | None:
    """One word for what was wrong: the error code of the storage service; without one, the HTTP status; without that, the kind of
    connection error. None if the error has none of these."""
    found = (re.search(pattern, str(error)) for pattern in _CODES)
    return next((hit[1] for hit in found if hit is not None), None)


def _nameless() -> tuple[int, int]:
    """Two descriptors of a temporary file without a name: one for writing, one for reading."""
    writing, path = tempfile.mkstemp(prefix="holdfast-")
    try:
        return writing, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        os.close(writing)
        raise
    finally:
        os.unlink(path)
