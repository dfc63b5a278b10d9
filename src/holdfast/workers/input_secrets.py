"""Secrets in the inputs of a run, which are removed from its log: the values at places that the input schema marks with `writeOnly` or
`x-redact`.

The caller chooses how many secrets there are and how long they are, and the body chooses how many lines it logs. To search the lines for
the secrets costs time of the runner. So there is a limit on the secrets: if a run has more, every text in its log that comes from the body
is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.contract.redaction import REDACTED, has_marks, redacted
from holdfast.workers.tools.secrets import Redactor

MOST_SECRETS: Final = 100
MOST_CHARACTERS: Final = 16 * 1024
"""The most characters of all secrets of one run together."""
_RUNNERS: Final = ("tool", "error_code", "tokens")
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class InputSecrets:
    """The secrets in the inputs of one run."""

    def __init__(self, inputs: Any, schema: Mapping[str, Any]) -> None:
        self.secrets = secrets_in(inputs, schema)
        """The secrets, each under the name of the field that contains it; None if there are too many."""
        self._redactor = None if self.secrets is None else Redactor(self.secrets)
        """None if there are too many secrets."""

    def text(self, text: str) -> str:
        """The text with the secrets replaced; if there are too many secrets, the whole text is replaced."""
        return REDACTED if self._redactor is None else self._redactor.text(text)

    def line(self, record: dict[str, Any]) -> dict[str, Any]:
        """The log line with the secrets replaced; if there are too many secrets, almost all of its values are replaced (`_withheld`)."""
        if self._redactor is None:
            return _withheld(record)
        kept: dict[str, Any] = self._redactor.value(record)
        return kept

    async def line_in_thread(self, record: dict[str, Any]) -> dict[str, Any]:
        """The log line with the secrets replaced; if there are too many secrets, almost all of its values are replaced. A long line is
        searched in a thread, so that the event loop does not wait."""
        if self._redactor is None:
            return _withheld(record)
        kept: dict[str, Any] = await self._redactor.cleaned(record)
        return kept


def _withheld(record: Mapping[str, Any]) -> dict[str, Any]:
    """The line with all its field names. All its values are replaced, except the attempt, a level that is one of the usual words, and, in a
    line that the runner wrote, some values that the runner set."""
    kept: dict[str, Any] = dict.fromkeys(record, REDACTED)
    kept["attempt"] = record.get("attempt")
    if record.get("level") in _LEVELS:
        kept["level"] = record["level"]
    if "event" in record:  # a line of a body never has this field
        kept |= {name: record[name] for name in ("event", *_RUNNERS) if name in record}
    return kept


def secrets_in(inputs: Any, schema: Mapping[str, Any]) -> dict[str, str] | None:
    """The secrets: the values at those places of the inputs that the schema marks, as texts, each under the name of the field that contains
    it. Values that are true, false or null are left out. None if there are more secrets, or more characters of them, than the limits
    allow."""
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
