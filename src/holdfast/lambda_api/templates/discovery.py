"""Discovery: which durable functions a Python file or module defines, and which queues and schedules it declares beside them. A new process
imports the file or module, so that the import is always fresh.

python -m holdfast.lambda_api.templates.discovery PLACE
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Final

import msgspec

from holdfast.model import json_structs
from holdfast.model.errors import FunctionNotLoadable, HoldfastError
from holdfast.model.execution import Terms
from holdfast.queues.declarations import Queue
from holdfast.schedules.declarations import Schedule, sendable

_SECONDS: Final = 60


class Discovered(msgspec.Struct, frozen=True):
    """A function as its file defines it."""

    attribute: str
    """The name of the variable in the file that has the function."""
    name: str
    terms: Terms


class DiscoveredFile(msgspec.Struct, frozen=True):
    """What a file defines and declares."""

    functions: list[Discovered] = []
    queues: list[Queue] = []
    schedules: list[Schedule] = []


class _DiscoveryReply(msgspec.Struct):
    found: DiscoveredFile = DiscoveredFile()
    error: str | None = None


def discover(place: str) -> DiscoveredFile:
    """Import a file or module in another process, and return what it defines and declares. Raises FunctionNotLoadable if the import fails
    or takes longer than 60 seconds."""
    # -P: a file in the current folder must not replace a module that Holdfast imports.
    command = [sys.executable, "-P", "-m", __name__, place]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise FunctionNotLoadable(f"{place} could not be imported within {_SECONDS} s.") from None
    try:
        said = json_structs.decoded(ran.stdout.rpartition(b"\n")[2], _DiscoveryReply)
    except msgspec.MsgspecError:
        raise FunctionNotLoadable(f"{place} could not be imported: {ran.stderr.decode(errors='replace')[-2000:]}") from None
    if said.error is not None:
        raise FunctionNotLoadable(said.error)
    return said.found


def _main(place: str) -> None:
    from holdfast.author_files.declared_beside import queues_beside, schedules_beside
    from holdfast.author_files.function_loader import load_module

    out = os.dup(1)
    # Python trusts bytecode whose source has the same second of change and the same length. The next discovery would read the old code.
    sys.dont_write_bytecode = True
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            module, found = load_module(place)
            functions = [Discovered(attribute, function.name, function.terms) for attribute, function in found.items()]
            schedules = [sendable(one) for one in schedules_beside(found.values(), module)]
            said = _DiscoveryReply(DiscoveredFile(functions, list(queues_beside(found.values(), module)), schedules))
    except HoldfastError as error:
        said = _DiscoveryReply(error=str(error))
    os.write(out, b"\n" + msgspec.json.encode(said))


if __name__ == "__main__":
    _main(sys.argv[1])
