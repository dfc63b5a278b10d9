"""Frames between the runner and a tool's process: 4 bytes of length, then a JSON object. Never pickle: the process is not trusted."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Final

from holdfast.model.shapes import crowding

MAX_FRAME: Final = 16 * 1024 * 1024
_DEPTH: Final = 400

ToolFrame = dict[str, Any]


class FrameBroken(Exception):
    """The bytes are not a frame, or the frame is too large."""


def packed(frame: ToolFrame) -> bytes:
    """The bytes of a frame, with its length. Raises FrameBroken if the frame has more than MAX_FRAME bytes."""
    data = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode("utf-8", errors="strict")
    if len(data) > MAX_FRAME:
        raise FrameBroken(f"A frame has {len(data)} bytes. At most {MAX_FRAME} are allowed.")
    return len(data).to_bytes(4, "big") + data


async def read_frame(reader: asyncio.StreamReader) -> ToolFrame | None:
    """The next frame; None if the connection ends before the frame is complete. Raises FrameBroken if the bytes are not a frame, or
    announce a frame that is too large."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > MAX_FRAME:
            raise FrameBroken(f"A frame announces {size} bytes. At most {MAX_FRAME} are allowed.")
        return _unpacked(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive(sock: socket.socket) -> ToolFrame | None:
    """The next frame; None if the connection ends before the frame is complete. Blocks until the whole frame is there. Raises FrameBroken
    if the bytes are not a frame. Unlike `read_frame`, it accepts a frame of any size."""
    size = _exactly(sock, 4)
    if size is None:
        return None
    data = _exactly(sock, int.from_bytes(size, "big"))
    return None if data is None else _unpacked(data)


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        try:
            part = sock.recv(min(count - len(data), 1 << 20))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)


def _unpacked(data: bytes) -> ToolFrame:
    if (crowded := crowding(data, _DEPTH)) is not None:
        raise FrameBroken(f"A frame {crowded}.")
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameBroken(f"A frame is not JSON: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("op"), str):
        raise FrameBroken("A frame is not an object with an `op`.")
    return frame
