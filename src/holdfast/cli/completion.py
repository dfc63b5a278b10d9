"""Completion in the shell: it suggests values from the store. It suggests nothing if the store cannot be read within half a second. It
never makes or migrates a store."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from holdfast.store.browse import Completed
    from holdfast.store.seam import ScheduleStore, Store

VARIABLE: Final = "_HOLDFAST_COMPLETE"
"""The environment variable that the shell sets when it asks for completions."""
_TYPED: Final = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
_PATIENCE_SECONDS: Final = 0.5
_MOST: Final = 50


def functions(context: typer.Context, incomplete: str) -> list[str]:
    """Names of functions, workers and pipelines in the store that begin with `incomplete`."""
    from holdfast.store.browse import Completed

    return _values(context, Completed.FUNCTION, incomplete)


def queues(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues in the store that begin with `incomplete`."""
    return _found(context, incomplete, lambda store: [row.name for row in store.queues()])


def tenants(context: typer.Context, incomplete: str) -> list[str]:
    """Names of tenants in the store that begin with `incomplete`."""
    from holdfast.store.browse import Completed

    return _values(context, Completed.TENANT, incomplete)


def schedules(context: typer.Context, incomplete: str) -> list[str]:
    """Names of schedules in the store that begin with `incomplete`."""

    def names(store: ScheduleStore) -> Sequence[str]:
        from holdfast.model.clock import SystemClock
        from holdfast.schedules.store_schedules import Schedules

        return [state.name for state in Schedules(store, SystemClock()).list()]

    return _found(context, incomplete, names)


def is_asked(environment: Mapping[str, str]) -> bool:
    """Whether the shell asks for completions."""
    return VARIABLE in environment


def typed_command(environment: Mapping[str, str]) -> list[str]:
    """The first word after the program's name in the line that the user types, as a list with one element: the command. Empty if the user
    has not typed the whole word yet. If the command is known, the other commands need not be loaded."""
    line = next((environment[name] for name in _TYPED if environment.get(name)), "")
    words = line.split()
    return words[1:2] if len(words) > 2 or line[-1:].isspace() else []


def _values(context: typer.Context, field: Completed, incomplete: str) -> list[str]:
    return _found(context, incomplete, lambda store: store.values(field, incomplete, _MOST))


def _found(context: typer.Context, incomplete: str, ask: Callable[[Store], Sequence[str]]) -> list[str]:
    """At most `_MOST` values that begin with what the user typed. `ask` reads them from the store that the line names. Empty if reading
    takes too long or fails."""
    from holdfast.cli.arguments import StorePlace

    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(Exception):  # a shell shows whatever a completion prints
            place = StorePlace.of(context.params.get("store"), context.params.get("codec"))
            found.extend(_asked(place.where, ask))

    logging.disable(logging.CRITICAL)
    thread = threading.Thread(target=look, name="completion", daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    return [] if thread.is_alive() else sorted(name for name in found if name.startswith(incomplete))[:_MOST]


def _asked(where: str, ask: Callable[[Store], Sequence[str]]) -> Sequence[str]:
    """Read values from a store that exists and has the current schema. For any other store the result is empty: opening an older store
    would migrate it."""
    from holdfast.model.clock import SystemClock
    from holdfast.model.ids import id_at
    from holdfast.service.opened_store import opened_store
    from holdfast.store.backends import open_maintenance

    clock = SystemClock()
    if ("://" not in where and not Path(where).is_file()) or open_maintenance(where, id_at(clock.now())).look(clock).behind:
        return ()
    with opened_store(where, clock) as store:
        return ask(store)
