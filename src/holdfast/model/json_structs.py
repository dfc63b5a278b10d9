"""Reads JSON as structs, safely in several threads.

When msgspec reads a struct for the first time, it prepares data about the struct's type and stores it on the class, part by part. If
another thread reads the same struct at that time, it finds unfinished data, and the whole process ends with a segmentation fault (msgspec
0.22). So this module prepares each type in one thread at a time, and reads only with types that are ready.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

from holdfast.model.shapes import crowding

T = TypeVar("T")

MAX_DEPTH: Final = 500
"""The most levels of a text that `received` reads."""
_lock: Final = threading.Lock()
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type. When this function returns, all threads may use the type."""
    found = _decoders.get(kind)
    if found is None:
        with _lock:
            found = _decoders.get(kind) or msgspec.json.Decoder(kind)
            _decoders[kind] = found
    return found


def decoded(text: bytes | str, kind: type[T]) -> T:
    """JSON text, read as this type. Raises what `msgspec.json.decode` raises."""
    return decoder(kind).decode(text)


def received(text: bytes, kind: type[T]) -> T:
    """JSON text that a stranger sent, read as this type. A text with too many values, levels or digits is not parsed, because parsing it
    could take seconds: this raises msgspec.DecodeError, and else what `msgspec.json.decode` raises."""
    if (crowded := crowding(text, MAX_DEPTH)) is not None:
        raise msgspec.DecodeError(f"the text {crowded}")
    return decoder(kind).decode(text)


def converted(value: object, kind: type[T], *, strict: bool = True) -> T:
    """Plain Python values (dicts, lists, texts …), converted to this type. Without `strict`, msgspec also accepts a text in place of a
    number, for example. Raises what `msgspec.convert` raises."""
    decoder(kind)
    return msgspec.convert(value, kind, strict=strict)
