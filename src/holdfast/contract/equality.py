"""Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not, and the order of fields does not matter."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON. It does not recurse, and stops at the first difference."""
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            waiting.extend((left[key], right[key]) for key in left)
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            waiting.extend(zip(left, right, strict=True))
        elif _kind(left) is not _kind(right) or left != right:
            return False
    return True


def _kind(value: Any) -> type:
    """The type of a value; float for an int, so that 1 and 1.0 have the same type."""
    kind = type(value)
    return float if kind is int else kind


def identity(value: Any) -> Hashable:
    """A hashable key of a value: two values have the same key if they are equal as JSON, and different keys if not. It does not recurse, so
    a value of any depth has one."""
    tokens: list[Hashable] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            names = sorted(item)
            tokens.append(("object", *names))
            waiting.extend(item[name] for name in names)
        elif isinstance(item, list | tuple):
            tokens.append(("list", len(item)))
            waiting.extend(item)
        elif item is None or isinstance(item, bool):
            tokens.append(("word", item))
        else:
            tokens.append(("word", "NaN") if isinstance(item, float) and math.isnan(item) else item)
    return tuple(tokens)
