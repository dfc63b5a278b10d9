"""Reading JSON as structs, safely in several threads.

The first time msgspec reads a struct, it prepares the struct's type, and keeps what it has prepared so far on the class. Another thread
that reads the same struct meanwhile finds it half prepared, and the whole process ends with a segmentation fault (msgspec 0.22). So every
type is prepared here, by one thread at a time, and is read only when it is ready.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_lock: Final = threading.Lock()
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of a type; the type is ready for all threads when this returns."""
    found = _decoders.get(kind)
    if found is None:
        with _lock:
            found = _decoders.get(kind) or msgspec.json.Decoder(kind)
            _decoders[kind] = found
    return found


def decoded(text: bytes | str, kind: type[T]) -> T:
    """JSON as this type; raises what msgspec.json.decode raises."""
    return decoder(kind).decode(text)


def converted(value: object, kind: type[T], *, strict: bool = True) -> T:
    """Plain values as this type; raises what msgspec.convert raises."""
    decoder(kind)
    return msgspec.convert(value, kind, strict=strict)
