"""What a power cut leaves: the record of a process (recorder.py) played onto a disk that loses whatever was not synced.

The disk is as unkind as it may be. A write counts only after a sync of its file that began after the write was done; until then each
sector of it may be there or not. A file's name counts only after a sync of its folder.
"""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.crash.recorder import Deed

SECTOR = 512


class File:
    """The bytes that last, and the writes that may not."""

    def __init__(self) -> None:
        self.lasting = bytearray()
        self.loose: list[Deed] = []

    def sync(self, begun: int) -> None:
        """What was done before the sync began lasts."""
        for deed in [deed for deed in self.loose if deed.done < begun]:
            _apply(self.lasting, deed.kind, deed.offset, deed.data)
            self.loose.remove(deed)

    def after_cut(self, chance: random.Random | None) -> bytes:
        """What is found after a power cut: nothing loose, or any sectors of it."""
        content = bytearray(self.lasting)
        if chance is not None:
            kept = chance.choice([0.1, 0.5, 0.9, 1.0])
            for deed in self.loose:
                for at in range(0, max(len(deed.data), 1), SECTOR):
                    if chance.random() < kept:
                        _apply(content, deed.kind, deed.offset + at, deed.data[at : at + SECTOR])
        return bytes(content)


class Disk:
    """One folder, as it is and as a power cut would leave it."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self._lasting: dict[str, File] = {}

    def do(self, deed: Deed) -> None:
        """The next deed."""
        match deed.kind:
            case "make":
                self.names.setdefault(deed.path, File())
            case "remove":
                self.names.pop(deed.path, None)
            case "write" | "truncate":
                self.names[deed.path].loose.append(deed)
            case "sync" if deed.path in self.names:
                self.names[deed.path].sync(deed.begun)
            case "sync":
                self._lasting = dict(self.names)
            case _:
                pass

    def after_cut(self, chance: random.Random | None = None) -> dict[str, bytes]:
        """The files that a power cut leaves now; by chance also some of what was never synced."""
        names = self.names if chance is not None and chance.random() < 0.5 else self._lasting
        return {Path(path).name: file.after_cut(chance) for path, file in names.items()}

    def content(self, name: str) -> bytes:
        """A file as the process sees it."""
        (found,) = [file for path, file in self.names.items() if Path(path).name == name]
        whole = bytearray(found.lasting)
        for deed in found.loose:
            _apply(whole, deed.kind, deed.offset, deed.data)
        return bytes(whole)


def _apply(content: bytearray, kind: str, offset: int, data: bytes) -> None:
    if kind == "truncate":
        content[offset:] = b""
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


def deeds_in(record: Path, store: str) -> Iterator[Deed]:
    """What was done to the database and its WAL, and what was said. The index (-shm) is made anew after every crash."""
    folder = str(Path(store).parent)
    wanted = {store, f"{store}-wal", f"{store}-journal", folder}
    with record.open("rb") as file:
        while True:
            try:
                deed = Deed(*pickle.load(file))
            except EOFError:
                return
            if deed.kind == "say" or deed.path in wanted:
                yield deed


def heard(deed: Deed) -> dict[str, Any]:
    """What was said."""
    told: dict[str, Any] = json.loads(deed.data)
    return told
