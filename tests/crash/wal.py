"""The WAL of a store, frame by frame, read as SQLite's file format says."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER, FRAME = 32, 24


class Frame(NamedTuple):
    """Where a frame of a WAL lies, and whether it ends a commit."""

    begins: int
    ends: int
    commits: bool


def frames_of(wal: bytes) -> list[Frame]:
    """The frames of a WAL, read as SQLite's file format says; those that an earlier round left behind the last one do not count."""
    magic, _, page, _, *salt = struct.unpack_from(">IIIIII", wal)
    assert magic & ~1 == 0x377F0682
    found = []
    for begins in range(HEADER, len(wal) - FRAME - page + 1, FRAME + page):
        _, size, *its_salt = struct.unpack_from(">IIII", wal, begins)
        if its_salt != salt:
            break
        found.append(Frame(begins, begins + FRAME + page, size > 0))
    return found
