"""check_replays: replays exported executions, for example from production, with the code as it is now. Made for CI."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.durable.execution import DurableFunction
from holdfast.exports.importing import read
from holdfast.exports.replaying import replay
from holdfast.model.errors import HoldfastError, InvalidParameter


class ReplayDiffers(HoldfastError, AssertionError):
    """The durable calls of the present code do not match recorded executions."""

    code = "replay_differs"


def check_replays(folder: str | Path, functions: Iterable[DurableFunction]) -> int:
    """Replay each export in a folder (`*.json`) with the one of `functions` that has the name and version in the export. Returns the number
    of exports.

    Raises `ReplayDiffers`, which lists all exports that do not match. Raises `InvalidParameter` if `functions` lacks the function of an
    export, or if the folder has no exports, because a check without exports would always pass. Raises `ExportInvalid` if a file is not an
    export, or was exported without data. Make exports with `holdfast executions export`.
    """
    hosted = {(function.name, function.version): function for function in functions}
    found = sorted(Path(folder).glob("*.json"))
    if not found:
        raise InvalidParameter(f"There are no exports (*.json) in {folder}.")
    differ = [said for path in found if (said := _difference(path, hosted)) is not None]
    if differ:
        raise ReplayDiffers("\n".join([f"{len(differ)} of {len(found)} exports do not match today's code:", *differ]))
    return len(found)


def _difference(path: Path, hosted: dict[tuple[str, str], DurableFunction]) -> str | None:
    header = read(path).snapshot.header
    function = hosted.get((header.function, header.version))
    if function is None:
        known = ", ".join(f"{name}:{version}" for name, version in sorted(hosted)) or "none"
        raise InvalidParameter(f"{path.name} is an execution of {header.function}:{header.version}, which was not given. Given: {known}.")
    try:
        told = replay(path, function)
    except NonDeterministicExecutionError as mismatch:
        return f"- {path.name}: {mismatch}"
    return None if told.matches else f"- {path.name}: {told.why}"
