"""The schedules of `holdfast serve` and `holdfast runner`: those of Python files, of the operator's file, and of the pages of workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.schedules import Origin

if TYPE_CHECKING:
    from holdfast.cli.serve_workers import ServeWorkers
    from holdfast.lambda_api.serving import Serving
    from holdfast.service.schedule_declarations import Schedule


def schedules_of_file(isolation: str | None, config: Path | None, *, trust: bool) -> Sequence[Schedule]:
    """The schedules of the operator's file, for a command without workers. The file of the current folder is used only if the folder is
    trusted."""
    from holdfast.cli.consent import Consent, operators_settings
    from holdfast.service.operator_files import operator_files

    files = operator_files(config)
    if not files.base.schedules and (files.whole is None or not files.whole.schedules):
        return ()
    settings, _ = operators_settings(isolation, config, Consent(trust=trust))
    return settings.schedules


def declare_served(service: Serving, workers: ServeWorkers | None, of_code: Sequence[Schedule], of_file: Sequence[Schedule]) -> None:
    """Declare the schedules of a server, and let its runner look at them."""
    from holdfast.service.schedules import declare_all

    declared = [(schedule, Origin.TOML) for schedule in of_file] if workers is None else workers.runtime.schedules()
    declare_all(service.engine.store, service.engine.clock, [*((schedule, Origin.CODE) for schedule in of_code), *declared])
    service.engine.look()
