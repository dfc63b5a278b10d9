"""Queues, lanes and parked executions as JSON objects, the same for the command line and for HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.model.ledger import NANO
from holdfast.model.queues import LaneState, QueueRow, QueueSettings
from holdfast.queues.setting_names import MEMBERS, setting_at
from holdfast.queues.store_queues import ParkedRun, QueueView


def queue_document(view: QueueView) -> dict[str, Any]:
    """A queue as one entry of a list: its mode and its numbers, without its lanes. Of its settings it has only `at_once`. If the view is of
    one tenant, the numbers that the store has only for all tenants together are left out."""
    state, of_all = view.state, view.tenant is None
    return {
        "queue": view.row.name,
        "mode": view.row.mode.value,
        "waiting": state.waiting,
        "delayed": state.delayed,
        "held": state.held,
        "at_once": view.settings.limits.at_once,
        **({"oldest_at": time_of(state.oldest_at)} if of_all else {}),
        "parked": state.parked,
        **({"admitted": state.admitted} if of_all else {}),
        "admitted_per_minute": round(state.per_minute, 1),
        **({} if view.settings.most_waiting_usd is None or not of_all else {"waiting_usd": state.money / NANO}),
    }


def queue_page(view: QueueView) -> dict[str, Any]:
    """Everything about a queue: its numbers, its settings and its lanes."""
    return {
        **queue_document(view),
        "next_admission": view.next_admission,
        "settings": settings_document(view.row),
        "lanes": [lane_document(lane) for lane in view.lanes],
        "more_lanes": view.more_lanes,
    }


def settings_document(row: QueueRow) -> dict[str, Any]:
    """The declared settings, the operator's settings, and the settings in force (`counts`), under the names that `queues set` accepts."""
    return {"declared": _said(row.declared), "operator": _said(row.operator), "counts": counting(row.settings())}


def setting_text(value: Any) -> str:
    """A value of a settings document, for a person: `none`, `true`, `100/m, 20/s`."""
    if value is None or value in ([], ()):
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def counting(settings: QueueSettings) -> dict[str, Any]:
    """These settings as a JSON object. Settings with their default value are included."""
    whole = msgspec.to_builtins(settings)
    return {name: setting_at(whole, name) for name in MEMBERS}


def _said(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name in MEMBERS if (value := setting_at(document, name)) is not ...}


def lane_document(lane: LaneState) -> dict[str, Any]:
    """A lane as a JSON object."""
    return {
        "lane": lane.key,
        "level": lane.level,
        "at_once": lane.at_once,
        "held": lane.held,
        "waiting": lane.waiting,
        "closed_until": time_of(lane.closed_until),
    }


def parked_document(run: ParkedRun) -> dict[str, Any]:
    """A parked execution as a JSON object."""
    header = run.header
    return {
        "id": header.id,
        "function": header.function,
        "version": header.version,
        "name": header.name,
        "queue": None if header.place is None else header.place.queue,
        "tenant": header.tenant,
        "error_code": run.error_code,
        "message": run.message,
        "started_at": time_of(header.started_at),
        "ended_at": time_of(header.ended_at),
    }


def time_of(at: int | None) -> str | None:
    """A time in ISO 8601, in UTC, from milliseconds since 1970-01-01 UTC; None for None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
