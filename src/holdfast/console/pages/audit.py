"""The audit log: who did what, on what, from where, when, and with which outcome; also as a file for spreadsheets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages, csv_reply
from holdfast.console.query import moment_of
from holdfast.console.rendering import address, iso
from holdfast.console.run_names import short_id, with_short_ids
from holdfast.console.tables import (
    NOTHING,
    Age,
    Cell,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Number,
    StatusMark,
    Table,
    TextCell,
)
from holdfast.model.audit import Noted, NoteFilter, NoteKind
from holdfast.model.errors import InvalidParameter
from holdfast.web.policy import Needs, Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = (
    "Decisions of people and keys, and what the server refused, newest first. A line is never changed; the server removes it "
    "when its retention time is over."
)
_TEXTS: Final = (("who", "Who"), ("what", "What"), ("outcome", "Outcome"))
_COLUMNS: Final = ("number", "at", "kind", "who", "what", "on", "from", "outcome", "tenant", "times")


class AuditPages(TablePages):
    """The pages of the audit log. Only callers who may administer all tenants can open them."""

    def routes(self) -> list[Route]:
        site = self._site
        who: dict[str, Any] = {"needs": Needs.ADMINISTER, "reach": Reach.NONE}
        return [site.page("audit", self.list, "ListAuditPage", **who), site.page("audit.csv", self.file, "DownloadAudit", **who)]

    def list(self, request: PageRequest) -> Reply:
        """A page of the lines of the audit log that match the filter, newest first. If the filter cannot be read, the page says what is
        wrong, and has no lines."""
        problem = ""
        found: Sequence[Noted] = ()
        following: int | None = None
        try:
            found, following = request.source.audit.page(_wanted(request))
        except InvalidParameter as wrong:
            problem = str(wrong)
        given = _given(request)
        table = Table(
            columns=(
                Column("When"),
                Column("Kind"),
                Column("Who"),
                Column("What"),
                Column("On"),
                Column("From"),
                Column("Outcome", fill=True),
                Column("Times", number=True),
            ),
            rows=tuple(_row(noted) for noted in found),
            empty="Nothing is noted." if not any(given.values()) else "No line matches.",
            first=address("audit", **given) if request.text("before") else "",
            following=address("audit", before=following, **given) if following else "",
            following_label="Older",
        )
        page = ConsolePage(
            title="Audit",
            path=address("audit", before=request.text("before"), **given),
            lead=_LEAD,
            filters=_filters(given),
            csv=address("audit.csv", **given),
            problem=problem,
            sections=(ConsoleSection(id="notes", table=table, live=not request.text("before")),),
        )
        return self._tables(request, page)

    def file(self, request: PageRequest) -> Reply:
        """The lines that match the filter, as CSV: the newest, at most 10,000. Raises InvalidParameter if the filter cannot be read."""
        return csv_reply("audit", _COLUMNS, map(_line, request.source.audit.lines(_wanted(request))))


def _given(request: PageRequest) -> dict[str, str]:
    return {name: request.text(name).strip() for name in ("who", "what", "outcome", "kind", "since")}


def _wanted(request: PageRequest) -> NoteFilter:
    given: dict[str, Any] = {name: value or None for name, value in _given(request).items()}
    kind, since, before = given.pop("kind"), given.pop("since"), request.text("before")
    if kind is not None and kind not in set(NoteKind):
        raise InvalidParameter(f"{kind!r:.50} is not a kind: there are {' and '.join(NoteKind)}.")
    wanted = NoteFilter(
        **given, kind=None if kind is None else NoteKind(kind), since=None if since is None else moment_of(since, request.now)
    )
    if not before:
        return wanted
    if not before.isascii() or not before.isdecimal() or len(before) > 18:
        raise InvalidParameter(f"before: {before!r:.50} is not the number of a line of the audit log. Write at most 18 digits.")
    return msgspec.structs.replace(wanted, before=int(before))


def _filters(given: dict[str, str]) -> ConsoleForm:
    texts = tuple(ConsoleField(name=name, label=label, value=given[name]) for name, label in _TEXTS)
    kinds = (("", "all"), *((kind.value, kind.value) for kind in NoteKind))
    kind = ConsoleField(name="kind", label="Kind", value=given["kind"], type="select", options=kinds)
    since = ConsoleField(name="since", label="Since", value=given["since"], placeholder="7d or 2026-01-31")
    return ConsoleForm(to="audit", fields=(*texts, kind, since), submit="Show", get=True, back="audit" if any(given.values()) else "")


def _row(noted: Noted) -> tuple[Cell, ...]:
    note = noted.note
    return (
        Age(note.at),
        StatusMark("failed", note.kind.value) if note.kind is NoteKind.REFUSAL else TextCell(note.kind.value, muted=True),
        LinkCell(note.who, address("audit", who=note.who)),
        LinkCell(note.what, address("audit", what=note.what)),
        _subject(note.on),
        TextCell(note.origin, muted=True) if note.origin else NOTHING,
        TextCell(with_short_ids(note.outcome), title=note.outcome),
        Number(note.times) if note.times > 1 else TextCell(""),
    )


def _subject(on: str) -> Cell:
    """What a line of the audit log is about. A text that looks like the id of an execution becomes a link to the page of that execution."""
    if not on:
        return NOTHING
    short = short_id(on)
    return LinkCell(short, f"runs/{on}", mono=True, title=on) if short != on else TextCell(on, mono=True)


def _line(noted: Noted) -> tuple[object, ...]:
    note = noted.note
    told = (note.who, note.what, note.on, note.origin, note.outcome, note.tenant, note.times)
    return (noted.number, iso(note.at), note.kind.value, *told)
