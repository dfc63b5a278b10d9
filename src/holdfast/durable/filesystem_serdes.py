"""A serdes that stores values in files (all values, or only large ones), and in the checkpoints only the paths of the files.

A checkpoint contains one of three texts: `{"data": "<text>"}`, `{"file": "<path>"}`, `{"file": "<path>", "preview": {…}}`. Texts, paths and
files have the form of AWS's SDK, so Holdfast can read what AWS's SDK wrote, and AWS's SDK what Holdfast wrote.

The files must be kept as long as the execution, and every machine that may run it must be able to read them: use the disk of one machine,
or a shared mount.

Before a checkpoint is written, its file is complete and on disk. A file is not overwritten with another value, because a checkpoint of
another runner may refer to it. The other value is written to a second file in the same folder. Only on a file system
without hard links may two runners that write at the same moment overwrite each other's file.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol
from urllib.parse import quote

from holdfast.durable.exceptions import SerDesError
from holdfast.durable.serdes import EXTENDED_TYPES_SERDES, SerDes, SerDesContext
from holdfast.durable.types import DurableExecutionArn

_INLINE_BYTES = 256 * 1024 - 1024
"""The size limit of a checkpoint, minus a kilobyte for the text around the value."""


class FileSystemSerDesMode(StrEnum):
    """Which values are written to files. ALWAYS: all. OVERFLOW: only values that are too large for a checkpoint (about 255 KiB)."""

    ALWAYS = "ALWAYS"
    OVERFLOW = "OVERFLOW"


class FileSystemPathEncoding(StrEnum):
    """How files are named.

    `URI`: `<function>/<execution name>/<invocation id>/<operation id>.json`, for people to read. The operation id is percent-encoded. For
    an ARN that does not have these parts, the folder is the percent-encoded ARN. `HASH`: `<SHA-256 of the execution's ARN>/<SHA-256 of the
    operation id>.json`. In both forms, if the file exists already and has another value, `.<SHA-256 of the text>` is put before `.json`.
    """

    URI = "URI"
    HASH = "HASH"


class GeneratePreview(Protocol):
    """A function that makes the part of a value which the checkpoint shows; it returns None if nothing is shown.
    `holdfast.durable.preview.build_preview` can make this part."""

    def __call__(self, value: Any) -> dict[str, Any] | None: ...


@dataclass(frozen=True)
class FileSystemSerDesConfig:
    """The settings of FileSystemSerDes: which values are written to files, how the files are named, the function that makes the part of a
    value which the checkpoint shows (None: it shows no part), and the serdes that makes the text in the file."""

    storage_mode: FileSystemSerDesMode = FileSystemSerDesMode.ALWAYS
    path_encoding: FileSystemPathEncoding = FileSystemPathEncoding.URI
    generate_preview: GeneratePreview | None = None
    serdes: SerDes[Any] = EXTENDED_TYPES_SERDES


class FileSystemSerDes(SerDes[Any]):
    """Stores values in files below `base_path`: `StepConfig(serdes=FileSystemSerDes("results"))`. Raises SerDesError for a path outside
    `base_path`.

    Its methods block until the disk has written or read the file. In an `async def` handler they block the event loop.
    """

    def __init__(self, base_path: str, config: FileSystemSerDesConfig | None = None) -> None:
        self._base_path = base_path
        self._config = config or FileSystemSerDesConfig()

    def serialize(self, value: Any, serdes_context: SerDesContext) -> str:
        """The text for the checkpoint: with the path of a file, or with the value itself if it is small and the mode is OVERFLOW. The file
        is complete and on disk when this returns. Raises SerDesError for a path outside `base_path`."""
        config = self._config
        text = config.serdes.serialize(value, serdes_context)
        if config.storage_mode is not FileSystemSerDesMode.ALWAYS:
            inline = json.dumps({"data": text})
            if len(inline) <= _INLINE_BYTES:
                return inline
        path = self._path(serdes_context)
        envelope: dict[str, Any] = {"file": _keep(path, text.encode())}
        preview = config.generate_preview(value) if config.generate_preview else None
        if preview:
            envelope["preview"] = preview
        return json.dumps(envelope)

    def deserialize(self, data: str, serdes_context: SerDesContext) -> Any:
        """The value, read from its file or from the checkpoint itself. Raises SerDesError for JSON that this class does not write, and for
        a path outside `base_path`; ValueError for a text that is not JSON, and OSError if the file cannot be read."""
        match json.loads(data):
            case {"file": str(path)}:
                self._refuse_outside(path)
                with open(path, "rb") as file:
                    text = file.read().decode()
            case {"data": text}:
                pass
            case _:
                raise SerDesError(
                    'This was not written by FileSystemSerDes: expected a JSON object with a path as "file" or the value as "data". '
                    "Read it with the SerDes that wrote it."
                )
        return self._config.serdes.deserialize(text, serdes_context)

    def _path(self, at: SerDesContext) -> str:
        arn, encoding = at.durable_execution_arn, self._config.path_encoding
        parts = DurableExecutionArn.from_arn(arn) if encoding is FileSystemPathEncoding.URI else None
        if parts is None:
            folder = os.path.join(self._base_path, _encoded(arn, encoding))
        else:
            folder = os.path.join(self._base_path, parts.function_name, parts.execution_name, parts.invocation_id)
        path = os.path.join(folder, f"{_encoded(at.operation_id, encoding)}.json")
        self._refuse_outside(path)
        return path

    def _refuse_outside(self, path: str) -> None:
        """Raise SerDesError if `path` is outside `base_path`. A path outside can come from the answer to a callback, or from an imported
        history."""
        base = os.path.realpath(self._base_path)
        if os.path.commonpath([base, os.path.realpath(path)]) != base:
            raise SerDesError(
                f"The file {path!r} is outside of base_path {self._base_path!r}, so it is neither read nor written. "
                "If it was written with another base_path, use that base_path."
            )


def _encoded(name: str, encoding: FileSystemPathEncoding) -> str:
    return hashlib.sha256(name.encode()).hexdigest() if encoding is FileSystemPathEncoding.HASH else quote(name, safe="")


def _keep(path: str, data: bytes) -> str:
    """Write `data` to a file that is complete and on disk when this returns, and return its path. That is `path`, unless a file with other
    content is there: in that case it is a second path in the same folder."""
    folder = os.path.dirname(path)
    _make_folder(folder)
    temporary = os.path.join(folder, f".{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        kept = _place(temporary, path, data)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(folder)
    return kept


def _place(temporary: str, path: str, data: bytes) -> str:
    try:
        os.link(temporary, path)  # not a rename, which would replace an existing file
        return path
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not os.path.lexists(path):
            os.replace(temporary, path)
            return path
    with open(path, "rb") as found:
        if found.read() == data:
            os.fsync(found.fileno())  # the other writer may not have synced the file
            return path
    beside = f"{path.removesuffix('.json')}.{hashlib.sha256(data).hexdigest()}.json"
    os.replace(temporary, beside)
    return beside


def _make_folder(folder: str) -> None:
    """Like os.makedirs, and syncs each new folder to disk."""
    if not folder or os.path.isdir(folder):
        return
    above = os.path.dirname(folder.rstrip(os.sep))
    _make_folder(above)
    with suppress(FileExistsError):
        os.mkdir(folder)
    _sync_folder(above)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder or os.curdir, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
