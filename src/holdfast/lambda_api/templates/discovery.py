"""Which durable functions a Python file or module defines, found out in a process of its own: what is imported there is imported afresh.

python -m holdfast.lambda_api.templates.discovery PLACE
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Final

import msgspec

from holdfast.model.errors import FunctionNotLoadable, HoldfastError
from holdfast.model.execution import Terms

_SECONDS: Final = 60


class Discovered(msgspec.Struct, frozen=True):
    """A function as its file defines it."""

    attribute: str
    """Its name in the file."""
    name: str
    terms: Terms


class _Said(msgspec.Struct):
    found: list[Discovered] = []
    error: str | None = None


def discover(place: str) -> list[Discovered]:
    """Import a file or module elsewhere, and tell what it defines."""
    # -P: what lies in the current folder must not stand in for what Holdfast itself imports.
    command = [sys.executable, "-P", "-m", __name__, place]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise FunctionNotLoadable(f"{place} could not be imported within {_SECONDS} s.") from None
    try:
        said = msgspec.json.decode(ran.stdout.rpartition(b"\n")[2], type=_Said)
    except msgspec.MsgspecError:
        raise FunctionNotLoadable(f"{place} could not be imported: {ran.stderr.decode(errors='replace')[-2000:]}") from None
    if said.error is not None:
        raise FunctionNotLoadable(said.error)
    return said.found


def _main(place: str) -> None:
    from holdfast.service.loading import load_all

    out = os.dup(1)
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            said = _Said([Discovered(attribute, found.name, found.terms) for attribute, found in load_all(place).items()])
    except HoldfastError as error:
        said = _Said(error=str(error))
    os.write(out, b"\n" + msgspec.json.encode(said))


if __name__ == "__main__":
    _main(sys.argv[1])
