"""The queues of the operator's file, for commands that run only functions: those commands need no other setting of that file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.queues.declarations import QueueTable


def operators_queues(config: Path | None, *, trust: bool) -> Mapping[str, QueueTable]:
    """The tables `[queues.NAME]` that apply, by name. If no file of the operator mentions queues, the result is empty, and the user is not
    asked for trust."""
    if not any(_mentions_queues(path) for path in _places(config)):
        return {}
    from holdfast.cli.consent import Consent, operators_settings  # most commands need no module of workers

    return operators_settings(None, config, Consent(trust=trust))[0].queues


def _places(config: Path | None) -> list[Path]:
    from holdfast.operator.trust import configuration_folder

    named = config or (Path(os.environ["HOLDFAST_CONFIG"]) if os.environ.get("HOLDFAST_CONFIG") else None)
    return [named] if named is not None else [Path("holdfast.toml"), configuration_folder(os.environ) / "holdfast.toml"]


def _mentions_queues(path: Path) -> bool:
    try:
        return b"queues" in path.read_bytes()
    except OSError:
        return False
