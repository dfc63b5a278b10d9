"""The operator's secret, with which the access keys in the store are decrypted. It is removed from the environment at the start of the
program: else functions in this process could read it, and processes that this process starts would inherit it."""

from __future__ import annotations

import os

from holdfast.model.credentials import KEYS_VARIABLES

_taken: dict[str, str] = {}


def take() -> None:
    """Remove the secret from the environment and keep it. Called once, at the start of the program."""
    for name in KEYS_VARIABLES & os.environ.keys():
        _taken[name] = os.environ.pop(name)


def with_taken() -> dict[str, str]:
    """The environment with the secret, for code that needs the secret."""
    return {**os.environ, **_taken}
