"""Whether a JSON text has too many values, levels or digits to be parsed, found without parsing it: a megabyte of empty lists takes a
hundred times as long to parse as a megabyte of plain text.

All functions here use fast operations on bytes. They need some milliseconds for a megabyte, even of the worst kind.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate, islice
from typing import Final

MAX_VALUES: Final = 100_000
"""One text may have at most this many values. The names of members are counted too."""
MAX_CONTAINERS: Final = 20_000
"""One text may have at most this many objects and lists."""
MAX_DIGITS: Final = 1_000
"""One number may have at most this many digits. The time to read or write a number grows with the square of its digits, and few programs
can read a long number."""
MAX_EXTREME: Final = 5_000
"""One text may have at most this many exponents beyond 199 and runs of a hundred digits, taken together: msgspec needs a hundred times as
long for `1e300` as for most numbers, and longer for a number of many digits."""
_BRACKETS: Final = b"[]{}"
_ALL_OTHERS: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STEPS: Final = bytes.maketrans(_BRACKETS, b"\x01\xff\x01\xff")
"""The bytes 1 and 255, which an array of signed bytes reads as one level up and one level down."""
_DIGITS: Final = bytes(ord("0") if byte in b"0123456789" else ord("e") if byte in b"eE" else ord(" ") for byte in range(256))
_SIGNS: Final = b"+-"
_LONG: Final = b"0" * (MAX_DIGITS + 1)
_RUN: Final = b"0" * 100
_EXPONENT: Final = b"e000"
_EXTREME: Final = re.compile(rb"[eE][+-]?(?:[2-9]\d\d|\d{4})")


def crowding(text: bytes, depth: int, values: int = MAX_VALUES, containers: int = MAX_CONTAINERS) -> str | None:
    """Why a JSON text may not be parsed, as the second half of a sentence ("holds more than 100 values"); None if it may be parsed.
    `depth`, `values` and `containers` (objects and lists) are the most levels, values and containers that the text may have; no number in
    it may have more than MAX_DIGITS digits, and the text may have at most MAX_EXTREME parts of numbers that are slow to read. It does not
    check that the text is JSON."""
    if b"\0" in text:  # never in JSON; a parser may read the text as UTF-16, in which other characters have the byte of a quote
        return "holds the byte 0, so it is not JSON in UTF-8"
    if _may_be_slow(text) and (slow := _slow_numbers(_outside(text), values)) is not None:
        return slow
    marks = text.count(b"[") + text.count(b"{")
    if marks <= depth and marks + text.count(b",") + text.count(b":") <= values:
        return None
    if text.count(b'"') - text.count(b'\\"') > 2 * values:
        return f"holds more than {values} values"
    outside = _outside(text)
    opened = outside.count(b"[") + outside.count(b"{")
    if opened > containers:
        return f"holds more than {containers} objects and lists"
    if opened + outside.count(b",") + outside.count(b":") > values:
        return f"holds more than {values} values"
    if outside.count(b"]") + outside.count(b"}") > opened:
        return None  # it closes more than it opens, so it is no JSON: the parser refuses it, and there are no levels to count
    return f"is nested more than {depth} levels deep" if opened > depth and _deeper(outside, depth) else None


def _may_be_slow(text: bytes) -> bool:
    """Whether `_slow_numbers` must look at the numbers of a text. Strings are counted as if they were numbers."""
    if len(text) <= MAX_DIGITS:
        return False
    digits = text.translate(_DIGITS, _SIGNS)
    return _LONG in digits or digits.count(_EXPONENT) + digits.count(_RUN) > MAX_EXTREME


def _slow_numbers(outside: bytes, values: int) -> str | None:
    digits = outside.translate(_DIGITS, _SIGNS)
    if _LONG in digits:
        return f"holds a number of more than {MAX_DIGITS} digits"
    runs, exponents = digits.count(_RUN), digits.count(_EXPONENT)
    if values >= exponents > MAX_EXTREME - runs:
        exponents = sum(1 for _ in islice(_EXTREME.finditer(outside), MAX_EXTREME + 1))
    if exponents + runs > MAX_EXTREME:
        return f"holds more than {MAX_EXTREME} exponents beyond 199 and runs of a hundred digits"
    return None


def _outside(text: bytes) -> bytes:
    """The bytes outside of all strings."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])


def _deeper(outside: bytes, depth: int) -> bool:
    """Whether brackets are nested in more than `depth` levels."""
    return max(accumulate(array("b", outside.translate(_STEPS, _ALL_OTHERS)))) > depth
