"""Prints queues and parked runs for people."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.terminal import distance, print_table, say, shortened, span_of
from holdfast.queues.documents import setting_text, settings_document
from holdfast.queues.setting_names import MEMBERS
from holdfast.queues.store_queues import ParkedRun, QueueView


def queues_table(found: Sequence[QueueView], now: int) -> None:
    """Print a table of queues. If there are none, print a line that says how a queue is made. `now` is in milliseconds since 1970."""
    if not found:
        say("no queues: an engine declares one with queues=[holdfast.Queue(…)], and a run that is enqueued makes one")
        return
    rows = [
        (
            view.row.name,
            view.row.mode.value,
            f"{view.state.waiting:,}",
            f"{view.state.delayed:,}",
            f"{view.state.held:,}{'' if view.settings.limits.at_once is None else f' of {view.settings.limits.at_once:,}'}",
            "-" if view.state.oldest_at is None else span_of(max(now - view.state.oldest_at, 0)),
            f"{view.state.per_minute:,.0f}/min",
            f"{view.state.parked:,}",
        )
        for view in found
    ]
    print_table(("QUEUE", "MODE", "WAITING", "DELAYED", "HELD", "OLDEST", "DRAINS", "PARKED"), rows, folds="QUEUE")


def queue_page(view: QueueView, now: int) -> None:
    """Print everything about one queue: its counts, the declared and the operator's settings side by side, and its lanes."""
    state = view.state
    oldest = "nothing waits" if state.oldest_at is None else f"enqueued {distance(state.oldest_at, now)}"
    print(f"queue {view.row.name}, {view.row.mode.value}")
    facts = [
        ("waiting", f"{state.waiting:,}, and {state.delayed:,} delayed"),
        ("oldest", oldest),
        ("held", f"{state.held:,} slots{_of(view.settings.limits.at_once)}"),
        ("drains", f"{state.per_minute:,.1f} a minute, {state.admitted:,} admitted in all"),
        ("next admission", view.next_admission),
        ("parked", f"{state.parked:,}"),
    ]
    for name, value in facts:
        print(f"  {name:<14}  {value}")
    print()
    told = settings_document(view.row)
    rows = [
        (
            name,
            setting_text(told["declared"].get(name, "")),
            setting_text(told["operator"].get(name, "")),
            setting_text(told["counts"][name]),
        )
        for name in MEMBERS
    ]
    print_table(("SETTING", "DECLARED", "OPERATOR", "COUNTS"), rows, folds="COUNTS")
    if view.lanes:
        print()
        lanes = [
            (
                lane.key,
                lane.level,
                "-" if lane.at_once is None else f"{lane.at_once:,}",
                f"{lane.held:,}",
                f"{lane.waiting:,}",
                "-" if lane.closed_until is None or lane.closed_until <= now else distance(lane.closed_until, now),
            )
            for lane in view.lanes
        ]
        print_table(("LANE", "LEVEL", "AT ONCE", "HELD", "WAITING", "OPENS"), lanes, folds="LANE")
    if view.more_lanes:
        say(f"and more lanes than {len(view.lanes)}: --lanes N shows more")


def parked_table(found: Sequence[ParkedRun], now: int) -> None:
    """Print a table of parked runs. If there are none, print a line that says so. `now` is in milliseconds since 1970."""
    if not found:
        say("nothing is parked")
        return
    rows = [
        (
            run.header.id,
            f"{run.header.function}/{run.header.name}",
            "-" if run.header.place is None else run.header.place.queue,
            "-" if run.header.ended_at is None else distance(run.header.ended_at, now),
            run.error_code,
            shortened(run.message, 200),
        )
        for run in found
    ]
    print_table(("RUN", "NAME", "QUEUE", "PARKED", "CODE", "MESSAGE"), rows, folds="MESSAGE")


def _of(most: int | None) -> str:
    return "" if most is None else f" of {most:,}"
