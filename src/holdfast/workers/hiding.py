"""Secrets of a run's inputs, kept out of its log: the texts in places that the schema marks with `writeOnly` or `x-redact`.

The caller chooses how many there are and how long, the body how many lines it logs, and everybody else waits meanwhile. So there is a
bound to both: a run with more secrets than can be looked for has a log without texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.contract.redacting import REDACTED, has_marks, redacted
from holdfast.workers.tools.secrets import Redactor

MOST_SECRETS: Final = 100
MOST_CHARACTERS: Final = 16 * 1024
"""Of all secrets of one run together."""
_RUNNERS: Final = ("tool", "error_code", "tokens")
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class Hiding:
    """The secrets of one run's inputs."""

    def __init__(self, inputs: Any, schema: Mapping[str, Any]) -> None:
        secrets = secrets_in(inputs, schema)
        self._redactor = None if secrets is None else Redactor(secrets)
        """None where there are too many secrets to look for each."""

    def text(self, text: str) -> str:
        """A text without them."""
        return REDACTED if self._redactor is None else self._redactor.text(text)

    def line(self, record: dict[str, Any]) -> dict[str, Any]:
        """A line of the log without them."""
        if self._redactor is None:
            return _withheld(record)
        kept: dict[str, Any] = self._redactor.value(record)
        return kept

    async def line_beside(self, record: dict[str, Any]) -> dict[str, Any]:
        """The same on the loop of a server: a line that takes long is looked at in a thread."""
        if self._redactor is None:
            return _withheld(record)
        kept: dict[str, Any] = await self._redactor.cleaned(record)
        return kept


def _withheld(record: Mapping[str, Any]) -> dict[str, Any]:
    """A line with its names, and of its values only those that the runner gave."""
    kept: dict[str, Any] = dict.fromkeys(record, REDACTED)
    kept["attempt"] = record.get("attempt")
    if record.get("level") in _LEVELS:
        kept["level"] = record["level"]
    if "event" in record:  # no line of a body has one
        kept |= {name: record[name] for name in ("event", *_RUNNERS) if name in record}
    return kept


def secrets_in(inputs: Any, schema: Mapping[str, Any]) -> dict[str, str] | None:
    """The texts in marked places of the inputs, by the names of those places; None where they are more than can be looked for."""
    if not has_marks(schema):
        return {}
    found: dict[str, str] = {}
    characters = 0
    for name, text in _collected(inputs, redacted(inputs, schema), "input"):
        characters += len(text)
        if len(found) >= MOST_SECRETS or characters > MOST_CHARACTERS:
            return None
        found[f"{name}.{len(found)}" if name in found else name] = text
    return found


def _collected(value: Any, shown: Any, name: str) -> Iterable[tuple[str, str]]:
    if shown == REDACTED:
        yield from ((name, text) for text in _texts(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _collected(item, shown[key], str(key))
    elif isinstance(value, list | tuple):
        for item, also in zip(value, shown, strict=True):
            yield from _collected(item, also, name)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
