"""The differences between two JSON values, as short texts for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.model import codec

SHOWN: Final = 200
"""A text shows at most this many characters of a value."""


def changes(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Every place where two JSON values differ: its path, the value in `before`, and the value in `after`, as texts. `path` is the path of
    the two values themselves."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from changes(before.get(name, _NOTHING), after.get(name, _NOTHING), f"{path}/{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            was, is_now = (values[index] if index < len(values) else _NOTHING for values in (before, after))
            yield from changes(was, is_now, f"{path}/{index}")
    elif before is _NOTHING or after is _NOTHING or codec.dumps(before) != codec.dumps(after):
        yield path, brief(before), brief(after)


class _Nothing:
    """Marks a place at which one of two JSON values has nothing."""


_NOTHING = _Nothing()


def brief(value: Any) -> str:
    """A JSON value as text, at most SHOWN characters of it."""
    if value is _NOTHING:
        return "not there"
    text = codec.dumps(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
