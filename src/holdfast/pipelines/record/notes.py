"""A short text for people about a node that ended, in addition to its state: which item failed, where parts disagree, who decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.contract.notes import shown

_MOST_NAMED: Final = 3
_MOST_CHOICES: Final = 8
_MOST_TEXT: Final = 300
_DECIDED: Final = {"approve": "approved", "reject": "rejected", "answer": "answered"}


def note_of(document: Mapping[str, Any] | None) -> str | None:
    """A note about the result document of a node; None if there is nothing to say. Values in artifacts are ignored."""
    if document is None:
        return None
    parts = [*_failed(document), *_merged(document), *_judged(document), *_decided(document), *_chosen(document), *_repeated(document)]
    return shown("; ".join(parts), _MOST_TEXT) if parts else None


def _failed(document: Mapping[str, Any]) -> list[str]:
    failed = _rows(document.get("failed")) if "counts" in document else []
    return [f"item {row.get('index')}: {_error(row.get('error'))}" for row in failed[:_MOST_NAMED]] + _more(failed)


def _error(error: Any) -> str:
    return f"{error.get('error_code')}: {error.get('message')}" if isinstance(error, dict) else "no error was given"


def _merged(document: Mapping[str, Any]) -> list[str]:
    conflicts, missing = _rows(document.get("conflicts")), document.get("missing")
    told = []
    if conflicts:
        paths = ", ".join(str(conflict.get("path") or "the whole") for conflict in conflicts[:_MOST_NAMED])
        many = "1 conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
        told.append(f"{many}: {paths}{', …' if len(conflicts) > _MOST_NAMED else ''}")
    if isinstance(missing, list) and missing:
        told.append(f"missing: {', '.join(map(str, missing[:_MOST_NAMED]))}{', …' if len(missing) > _MOST_NAMED else ''}")
    return told


def _judged(document: Mapping[str, Any]) -> list[str]:
    reasons = _rows(document.get("reasons"))
    return [f"{reason.get('code')}: {reason.get('message')}" for reason in reasons[:_MOST_NAMED]] + _more(reasons)


def _decided(document: Mapping[str, Any]) -> list[str]:
    if "decided_by" not in document:
        return []
    said = f": {document['comment']}" if document.get("comment") else ""
    verdict = str(document.get("verdict"))
    return [f"{_DECIDED.get(verdict, verdict)} by {document['decided_by']}{said}"]


def _chosen(document: Mapping[str, Any]) -> list[str]:
    return [f"chose {document['label']}"] if isinstance(document.get("label"), str) else []


def _repeated(document: Mapping[str, Any]) -> list[str]:
    """For a supervise node: what the supervisor chose. For an `until` node: how often it ran its worker. Empty for other nodes."""
    chosen = [str(row.get("choice")) for row in _rows(document.get("choices")) if "turns" in document]
    told = [f"chose {', '.join(chosen[-_MOST_CHOICES:])}" + (f" (the last of {len(chosen)})" if len(chosen) > _MOST_CHOICES else "")]
    times = document.get("times")
    return (told if chosen else []) + ([f"{times} run{'' if times == 1 else 's'}"] if isinstance(times, int) else [])


def _rows(value: Any) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _more(rows: list[dict[str, Any]]) -> list[str]:
    return [f"and {len(rows) - _MOST_NAMED} more"] if len(rows) > _MOST_NAMED else []
