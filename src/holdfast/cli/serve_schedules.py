"""The queues and schedules of `holdfast serve` and `holdfast runner`: those of Python files, of the operator's file, and of pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.terminal import printable, say
from holdfast.model.schedules import Origin
from holdfast.queues.declarations import Queue, QueueTable, declared_together

if TYPE_CHECKING:
    from holdfast.cli.serve_workers import ServeWorkers
    from holdfast.engine.engine import Engine
    from holdfast.lambda_api.serving import Serving
    from holdfast.lambda_api.templates.descriptions import FoundTargets
    from holdfast.schedules.declarations import Schedule


def schedules_of_file(isolation: str | None, config: Path | None, *, trust: bool) -> Sequence[Schedule]:
    """The schedules of the operator's file, for a command without workers. Those of the current folder's holdfast.toml are used only if the
    folder is trusted. May ask the user for trust."""
    from holdfast.cli.consent import Consent, operators_settings
    from holdfast.operator.files import operator_files

    files = operator_files(config)
    if not files.base.schedules and (files.whole is None or not files.whole.schedules):
        return ()
    settings, _ = operators_settings(isolation, config, Consent(trust=trust))
    return settings.schedules


def warn_of_left_over(engine: Engine, declared: Iterable[Schedule], told: set[str]) -> None:
    """Print a warning for each schedule of a function hosted here that was declared earlier and is not in `declared` now: it goes on,
    although its declaration may be deleted. Schedules that an operator changed, paused or removed are left out. Warnings in `told` are not
    printed again; new ones are added to it."""
    from holdfast.schedules.store_schedules import left_over

    functions = {one.function for one in engine.registry.hosted()}
    for warning in left_over(engine.store, [schedule.name for schedule in declared], functions):
        if warning not in told:
            told.add(warning)
            say(f"warning: {printable(warning)}")


class ServerDeclarations:
    """What a server declares when it starts, and under --reload again after each change."""

    def __init__(self, queues: Mapping[str, QueueTable], schedules: Sequence[Schedule]) -> None:
        self._operators, self._of_file = queues, schedules
        self._told: set[str] = set()

    def queues(self, found: FoundTargets) -> tuple[Queue, ...]:
        """The queues of the targets and of the operator's file."""
        return declared_together(found.queues, self._operators)

    def declare(self, service: Serving, workers: ServeWorkers | None, found: FoundTargets) -> None:
        """Write the queues and schedules that are declared now into the store, and tell the runner of this server to read them. Also warn
        of schedules that are no longer declared."""
        from holdfast.schedules.store_schedules import declare_all

        engine = service.engine
        engine.store.declare([queue.row() for queue in self.queues(found)])
        of_file = [(schedule, Origin.TOML) for schedule in self._of_file] if workers is None else workers.runtime.schedules()
        declared = [*((schedule, Origin.CODE) for schedule in found.schedules), *of_file]
        declare_all(engine.store, engine.clock, declared)
        warn_of_left_over(engine, [schedule for schedule, _ in declared], self._told)
        engine.look_for_work()
