"""Opens the storage that the operator's setting `artifacts` names, and checks that it can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from holdfast.model.errors import ExtraMissing, InvalidParameter
from holdfast.workers.storage.folder import Folder
from holdfast.workers.storage.seam import Storage

_BUCKETS: Final = ("s3", "gs", "az")
_KNOWN: Final = "it may be s3://bucket/prefix, gs://bucket/prefix, az://container/prefix, file:///folder or a path"


def open_storage(where: str) -> Storage:
    """The storage at the address or path `where`, after a test write to it has succeeded. Blocks. Raises InvalidParameter if the address is
    not valid, ExtraMissing if the package for buckets is not installed, ArtifactsUnusable if the storage cannot be used, and NotPrivate if
    other users could replace files in the folder. No error message contains credentials."""
    storage = _storage(where)
    storage.check()
    return storage


def _storage(where: str) -> Storage:
    if "://" not in where:
        return Folder(Path(where).absolute())
    try:
        parts = urlsplit(where)
    except ValueError:
        raise InvalidParameter(f"The setting `artifacts` is not a valid address; {_KNOWN}.") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidParameter("The setting `artifacts` has credentials or options in its address; set them as environment variables.")
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return Folder(Path(unquote(parts.path)))
    if parts.scheme not in _BUCKETS or not parts.netloc:
        raise InvalidParameter(f"The setting `artifacts` is {where!r:.200}, which is not supported; {_KNOWN}.")
    try:
        from holdfast.workers.storage.bucket import Bucket
    except ImportError:
        raise ExtraMissing("Artifacts in a bucket need the package `obstore`: pip install 'holdfast[s3]'.") from None
    return Bucket(where)
