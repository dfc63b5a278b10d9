"""Frames between the runner and an evaluator: 4 bytes of length, then JSON."""

from __future__ import annotations

import socket

import msgspec

from holdfast.contract.checking import Mismatch

_LENGTH = 4
_CHUNK = 1 << 20


class Check(msgspec.Struct, frozen=True):
    """Values to be checked; without one, only the schema is."""

    schema: msgspec.Raw
    values: tuple[msgspec.Raw, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """The schema is none, or above a limit."""

    path: tuple[str, ...]
    reason: str
    code: str


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it."""

    problems: tuple[Mismatch, ...] = ()
    refused: Refused | None = None


def packed(frame: Check | Checked) -> bytes:
    """A frame's bytes."""
    text = msgspec.json.encode(frame)
    return len(text).to_bytes(_LENGTH, "big") + text


def received(sock: socket.socket) -> bytes | None:
    """The next frame; None when the other side is gone."""
    length = _exactly(sock, _LENGTH)
    return None if length is None else _exactly(sock, int.from_bytes(length, "big"))


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        try:
            part = sock.recv(min(count - len(data), _CHUNK))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)
