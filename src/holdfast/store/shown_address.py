"""How the address of a store is shown in messages: without its password."""

from __future__ import annotations

import re
from typing import Final

_PASSWORD: Final = re.compile(r"(?<=://)([^:@/?]*):.*(?=@)|(?<=[?&])password=[^&]*&?", re.S)
"""Finds the password. It is taken to reach up to the last @, because a user may have forgotten to encode a character of it, such as / or
@."""


def shown(where: str) -> str:
    """A path or an address without its password, for messages."""
    return _PASSWORD.sub(r"\1", where) if "://" in where else where
