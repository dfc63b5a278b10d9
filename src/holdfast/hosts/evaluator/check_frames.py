"""Frames between the runner and an evaluator: 4 bytes of length, then JSON."""

from __future__ import annotations

import socket

import msgspec

from holdfast.contract.checking import Mismatch

_LENGTH = 4
_CHUNK = 1 << 20


class Check(msgspec.Struct, frozen=True):
    """Values to check against a schema. If `values` is empty, only the schema itself is checked."""

    schema: msgspec.Raw
    values: tuple[msgspec.Raw, ...] = ()


class CheckRefused(msgspec.Struct, frozen=True):
    """The schema is not valid, or is above a limit."""

    path: tuple[str, ...]
    reason: str
    code: str


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a check: the places where a value does not fit the schema, or why the schema was refused."""

    problems: tuple[Mismatch, ...] = ()
    refused: CheckRefused | None = None
    cpu_seconds: float = 0.0
    """How many CPU seconds the check used."""


def packed(frame: Check | CheckResult) -> bytes:
    """The bytes of a frame, with its length."""
    text = msgspec.json.encode(frame)
    return len(text).to_bytes(_LENGTH, "big") + text


def received(sock: socket.socket) -> bytes | None:
    """The JSON text of the next frame, without its length; None if the connection ends before the frame is complete."""
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
