"""Reads sinks from a file, so that a server can have sinks without code.

[failures]                                   # the name of the subscriber; the store remembers under it which signal was delivered last
sink = "webhook"
url = "https://hooks.example/orders"
secrets = ["ORDERS_HOOK_SECRET"]             # names of environment variables that contain the secrets
pattern = { detail = { status = ["FAILED", "TIMED_OUT"] } }
dead_letters = "dead.jsonl"

[all]
sink = "file"
path = "events.jsonl"

[aws]
sink = "eventbridge"
bus = "orders"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import InvalidParameter, PatternInvalid
from holdfast.model.signals import Subscriber, check_subscriber
from holdfast.signals.eventbridge import EventBridge
from holdfast.signals.sinks import JsonLines
from holdfast.signals.webhook import Webhook

_KINDS: Final[Mapping[type, str]] = {str: "a text", int: "a whole number", list: "a list of texts", dict: "a table"}


def read_sinks(
    path: str | os.PathLike[str], environment: Mapping[str, str] = os.environ, clock: Clock | None = None
) -> dict[str, Subscriber]:
    """The sinks that a TOML file describes, by the names of their subscribers. A relative path in the file is a path from the folder of
    that file. `environment` has the variables whose values are the secrets. `clock` None means the clock of this machine. Raises
    InvalidParameter or PatternInvalid if the file cannot be read or has a mistake, and ExtraMissing if a sink needs a package that is not
    installed."""
    where = Path(path)
    try:
        found = tomllib.loads(where.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"{where} could not be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{where} is not TOML: {error}.") from None
    sinks: dict[str, Subscriber] = {}
    for name, table in found.items():
        if not isinstance(table, dict):
            raise InvalidParameter(f"{where}: {name} must be a table that describes a sink.")
        try:
            sinks[name] = _sink(_Table(table, where.parent, environment), clock or SystemClock())
            check_subscriber(name, sinks[name])
        except (InvalidParameter, PatternInvalid) as error:
            raise type(error)(f"{where}, [{name}]: {error}") from None
    return sinks


class _Table:
    """The description of one sink in the file. An option is checked and taken out when it is read. `end` raises InvalidParameter if an
    option is left, because this kind of sink does not have it."""

    def __init__(self, table: dict[str, Any], folder: Path, environment: Mapping[str, str]) -> None:
        self._left = dict(table)
        self._folder = folder
        self._environment = environment

    def take(self, name: str, kind: type, *, needed: bool = False) -> Any:
        if needed and name not in self._left:
            raise InvalidParameter(f"{name} is missing.")
        value = self._left.pop(name, None)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InvalidParameter(f"{name} must be {_KINDS[kind]}.")
        return value

    def given(self, *names: tuple[str, type]) -> dict[str, Any]:
        """Take these options out of the table, each checked for its type, and return those that the table has. `names` are pairs of name
        and type."""
        found = {name: self.take(name, kind) for name, kind in names}
        return {name: value for name, value in found.items() if value is not None}

    def path(self, name: str, *, needed: bool = False) -> Path | None:
        value = self.take(name, str, needed=needed)
        return None if value is None else self._folder / value

    def secrets(self) -> list[str]:
        names = self.take("secrets", list, needed=True)
        for name in names:
            if not isinstance(name, str) or not self._environment.get(name):
                raise InvalidParameter(f"secrets must be names of environment variables that are set; {name!r} is not the name of one.")
        return [self._environment[name] for name in names]

    def end(self) -> None:
        if self._left:
            raise InvalidParameter(f"there is no option {sorted(self._left)[0]!r} for this sink.")


def _webhook(table: _Table, clock: Clock) -> Callable[[], Subscriber]:
    url, secrets = table.take("url", str, needed=True), table.secrets()
    options = table.given(("pattern", dict), ("tries", int), ("timeout_seconds", int))
    letters = table.path("dead_letters")
    return lambda: Webhook(url, secrets, dead_letters=letters, clock=clock, **options)


def _file(table: _Table, clock: Clock) -> Callable[[], Subscriber]:
    path = table.path("path", needed=True)
    assert path is not None
    options = table.given(("pattern", dict), ("max_bytes", int), ("keep", int))
    return lambda: JsonLines(path, **options)


def _eventbridge(table: _Table, clock: Clock) -> Callable[[], Subscriber]:
    options = table.given(("bus", str), ("source", str), ("region", str), ("pattern", dict), ("tries", int))
    letters = table.path("dead_letters")
    return lambda: EventBridge(**options, dead_letters=letters, clock=clock)


_SINKS: Final[Mapping[str, Callable[[_Table, Clock], Callable[[], Subscriber]]]] = {
    "webhook": _webhook,
    "file": _file,
    "eventbridge": _eventbridge,
}


def _sink(table: _Table, clock: Clock) -> Subscriber:
    kind = table.take("sink", str, needed=True)
    if kind not in _SINKS:
        raise InvalidParameter(f"there is no sink {kind!r}. There are {', '.join(_SINKS)}.")
    made = _SINKS[kind](table, clock)
    table.end()
    return made()
