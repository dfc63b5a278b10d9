"""The secret that opens access keys, as a command was given it: taken out of the environment before anything else begins.

Functions that run in this process read its environment, and what this process starts inherits it.
"""

from __future__ import annotations

import os

from holdfast.model.credentials import KEYS_VARIABLES

_taken: dict[str, str] = {}


def take() -> None:
    """Take it, once, at the very beginning."""
    for name in KEYS_VARIABLES & os.environ.keys():
        _taken[name] = os.environ.pop(name)


def with_taken() -> dict[str, str]:
    """The environment as it was given, for those who look for the secret."""
    return {**os.environ, **_taken}
