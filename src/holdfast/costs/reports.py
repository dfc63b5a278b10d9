"""Reports of what runs have cost, from the ledger: sums by node, model, tenant and more."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, Protocol

import msgspec

from holdfast.model import json_structs
from holdfast.model.errors import ExecutionNotFound, InvalidParameter
from holdfast.model.ledger import DAY_MS, NANO, CostFilter, CostSum, Dimension, EntryState
from holdfast.store.seam import CounterStore, ExecutionStore, LedgerStore

_SPAN: Final = re.compile(r"([0-9]{1,5})d")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST_LINES: Final = 10_000
_MOST_DEPTH: Final = 64


class CallTotals(msgspec.Struct, frozen=True):
    """The sum of all calls in one state."""

    calls: int = 0
    tokens: int = 0
    nanos: int = 0
    """Money, in billionths of a dollar."""

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(self.calls + other.calls, self.tokens + other.tokens, self.nanos + other.nanos)

    def document(self) -> dict[str, Any]:
        """The sum as a JSON object."""
        return {"calls": self.calls, "tokens": self.tokens, "cost_usd": self.nanos / NANO}


class CostLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one group of calls has cost."""

    group: tuple[str, ...] = ()
    """The value of each dimension, in the order of the report."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    settled: CallTotals = CallTotals()
    """Calls for which the model's server or the tool said what they used."""
    unknown: CallTotals = CallTotals()
    """Calls for which it is not known what they used, with the estimated amounts."""
    open: CallTotals = CallTotals()
    """Calls that have begun and not ended, with the amount that they have reserved."""
    released: int = 0
    """How many calls have ended and certainly cost nothing."""

    @property
    def calls(self) -> int:
        """How many calls have ended: with a known cost (settled), with an estimated cost (unknown), or without cost (released)."""
        return self.settled.calls + self.unknown.calls + self.released

    @property
    def nanos(self) -> int:
        """What was spent, in billionths of a dollar: the sum of settled and unknown calls."""
        return self.settled.nanos + self.unknown.nanos

    def __add__(self, other: CostLine) -> CostLine:
        return CostLine(
            group=self.group,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            settled=self.settled + other.settled,
            unknown=self.unknown + other.unknown,
            open=self.open + other.open,
            released=self.released + other.released,
        )

    def document(self, by: Sequence[Dimension] = ()) -> dict[str, Any]:
        """The line as a JSON object. `by` has the dimensions of the report, under whose names the values of `group` are shown."""
        tokens = {
            "input": self.input_tokens,
            "output": self.output_tokens,
            "cached": self.cached_tokens,
            "reasoning": self.reasoning_tokens,
        }
        return {
            **{name.value: value for name, value in zip(by, self.group, strict=True)},
            "calls": self.calls,
            "tokens": tokens,
            "cost_usd": self.nanos / NANO,
            "settled": self.settled.document(),
            "unknown": self.unknown.document(),
            "open": self.open.document(),
        }


class CostReport(msgspec.Struct, frozen=True, kw_only=True):
    """Sums by group, and the sum of all groups."""

    by: tuple[Dimension, ...]
    lines: tuple[CostLine, ...]
    total: CostLine
    """The sum of all calls that fit the question, including those whose lines are left out."""
    truncated: bool = False
    """Whether lines are left out, because there are more groups than a report may have lines."""

    def document(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "by": [name.value for name in self.by],
            "lines": [line.document(self.by) for line in self.lines],
            "total": self.total.document(),
            "truncated": self.truncated,
        }


class CostQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks about costs, as texts. A member that is None does not restrict the question; for `by`, None means the usual
    dimensions."""

    by: str | None = None
    """The dimensions to sum by, with commas between them: `node,model`. None: pipeline, worker and model; for one run also node."""
    since: str | None = None
    """The first UTC day: 2026-11-01, or `30d` for the last 30 days, today included."""
    until: str | None = None
    """The last UTC day that is counted, such as 2026-11-01."""
    tenant: str | None = None
    pipeline: str | None = None
    worker: str | None = None
    run: str | None = None


class CostStore(ExecutionStore, LedgerStore, CounterStore, Protocol):
    """The part of a store that says what runs have used."""


def cost_report(store: CostStore, asked: CostQuestion, now: int, most_lines: int = _MOST_LINES) -> CostReport:
    """The answer to a question about costs: the `most_lines` groups with the highest cost, the highest first. With the dimension `day`: the
    first `most_lines` groups by day and name. Raises InvalidParameter if the question is not allowed, and ExecutionNotFound if its run is
    not known."""
    by = dimensions(asked.by, _usual(asked))
    if asked.run is None and Dimension.RUN in by:
        raise InvalidParameter("Costs can be summed by run only for one run and the runs below it: name that run.")
    if asked.run is not None and (asked.since or asked.until or asked.pipeline or asked.worker):
        raise InvalidParameter("The cost of a run is the sum of all its calls: leave out the days, the pipeline and the worker.")
    until = None if asked.until is None else _last_day(asked.until) + 1
    wanted = CostFilter(
        by=by,
        since_day=None if asked.since is None else _first_day(asked.since, now),
        until_day=until,
        tenant=asked.tenant,
        pipeline=asked.pipeline,
        worker=asked.worker,
        run=asked.run,
        root=None if asked.run is None else root_of(store, asked.run),
        limit=most_lines * len(EntryState) + 1,  # enough rows for this many whole groups, and for the first row of one more
    )
    lines = _lines(store.cost(wanted), by)
    truncated = len(lines) > most_lines
    counted = _lines(store.cost(msgspec.structs.replace(wanted, by=())), ()) if truncated else lines
    kept = sorted(lines[:most_lines], key=lambda line: (-line.nanos, line.group) if Dimension.DAY not in by else (0, line.group))
    return CostReport(by=by, lines=tuple(kept), total=sum(counted, CostLine()), truncated=truncated)


def _lines(sums: Sequence[CostSum], by: tuple[Dimension, ...]) -> list[CostLine]:
    """One line for each group, in the order in which the groups first come in `sums`."""
    lines: dict[tuple[str, ...], CostLine] = {}
    for one in sums:
        group = tuple(_shown(name, value) for name, value in zip(by, one.group, strict=True))
        lines[group] = lines.get(group, CostLine(group=group)) + _line(one)
    return list(lines.values())


def _line(one: CostSum) -> CostLine:
    """The line for the sum of the ledger entries of one state. An entry that ends a call also subtracts the call from `open`: one call, and
    the amount that it had reserved."""
    tokens = one.input_tokens + one.output_tokens
    held = CallTotals(0, one.held_tokens, one.held_nanos)
    amounts: dict[str, Any] = {
        "input_tokens": one.input_tokens,
        "output_tokens": one.output_tokens,
        "cached_tokens": one.cached_tokens,
        "reasoning_tokens": one.reasoning_tokens,
    }
    match one.state:
        case EntryState.RESERVED:
            return CostLine(open=held + CallTotals(one.calls))
        case EntryState.SETTLED:
            return CostLine(**amounts, settled=CallTotals(one.calls, tokens, one.nanos), open=held + CallTotals(-one.calls))
        case EntryState.UNKNOWN:
            return CostLine(**amounts, unknown=CallTotals(one.calls, tokens, one.nanos), open=held + CallTotals(-one.calls))
        case _:
            return CostLine(released=one.calls, open=held + CallTotals(-one.calls))


def root_of(store: CostStore, run: str) -> str:
    """The id under which the ledger has the calls of a run and of the runs below it: that of the outermost execution above the run when it
    was asked for, or of the run itself. Retention may have removed all of them. If the ledger has no such calls: the id of the outermost
    execution that the store has above the run. Raises ExecutionNotFound if neither the store nor the ledger has the run."""
    if entries := store.ledger(run, 1):
        return entries[0].root
    ids, header = [run], store.find(run)
    for _ in range(_MOST_DEPTH):
        if header is None or header.parent is None:
            break
        ids.append(header.parent)
        header = store.find(header.parent)
    for root in ids:
        if store.cost(CostFilter(run=run, root=root, limit=1)):
            return root
    if header is not None:
        return header.id
    if (found := store.ledger_root(run)) is not None:
        return found
    if len(ids) > 1:
        return ids[-1]
    raise ExecutionNotFound(f"There is no run {run}, and the ledger has no calls of it.")


def dimensions(text: str | None, usual: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """The dimensions that a text names, with commas between them; `usual` if the text is None. Raises InvalidParameter for an unknown name,
    and for a text without a name."""
    if text is None:
        return usual
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {name.value: name for name in Dimension}
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise InvalidParameter(f"Costs are summed by {', '.join(known)}; {', '.join(wrong) or text!r:.100} is none of these.")
    return tuple(dict.fromkeys(known[name] for name in names))


def _usual(asked: CostQuestion) -> tuple[Dimension, ...]:
    if asked.run is not None:
        return (Dimension.PIPELINE, Dimension.NODE, Dimension.WORKER, Dimension.MODEL)
    return (Dimension.PIPELINE, Dimension.WORKER, Dimension.MODEL)


def _first_day(text: str, now: int) -> int:
    """The number of the UTC day that `since` names, counted from 1970-01-01. `30d` names the first of the last 30 days, today included.
    Raises InvalidParameter for another text."""
    if (span := _SPAN.fullmatch(text)) is not None:
        return max(0, now // DAY_MS - int(span[1]) + 1)
    day = _day(text)
    if day is None:
        raise InvalidParameter(f"{text!r:.50} is not a day: write 2026-11-01, or 30d for the last 30 days.")
    return day


def _last_day(text: str) -> int:
    """The number of the UTC day that `until` names, counted from 1970-01-01. Raises InvalidParameter if the text is not a day."""
    day = _day(text)
    if day is None:
        raise InvalidParameter(
            f"{text!r:.50} is not a day: write the last day that is counted, such as 2026-11-01. A span such as 30d is only for `since`."
        )
    return day


def _day(text: str) -> int | None:
    try:
        return (date.fromisoformat(text) - date(1970, 1, 1)).days if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _shown(name: Dimension, value: str | int | None) -> str:
    if name is Dimension.DAY and isinstance(value, int):
        return day_text(value)
    return "" if value is None else str(value)


def day_text(day: int) -> str:
    """The date of a UTC day whose number is counted from 1970-01-01: `2026-11-01`."""
    return datetime.fromtimestamp(day * DAY_MS / 1000, UTC).strftime("%Y-%m-%d")


def csv_rows(report: CostReport) -> list[list[str]]:
    """The report as rows of a table for spreadsheets, the names of the columns first. Money is in dollars."""
    names = [name.value for name in report.by]
    columns = ["calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_usd"]
    apart = ["settled_cost_usd", "unknown_calls", "unknown_cost_usd", "open_calls", "open_cost_usd"]
    return [[*names, *columns, *apart], *([*map(_safe, line.group), *_cells(line)] for line in report.lines)]


def _cells(line: CostLine) -> list[str]:
    tokens = (line.input_tokens, line.cached_tokens, line.output_tokens, line.reasoning_tokens)
    apart = (line.unknown.calls, dollars(line.unknown.nanos), line.open.calls, dollars(line.open.nanos))
    return [str(line.calls), *map(str, tokens), dollars(line.nanos), dollars(line.settled.nanos), *map(str, apart)]


def _safe(text: str) -> str:
    """The text, in a form that a spreadsheet does not read as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def dollars(nanos: int) -> str:
    """Billionths of a dollar as an exact amount of dollars, without zeros at its end: `0.0125`."""
    whole, part = divmod(abs(nanos), NANO)
    text = f"{whole}.{part:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if nanos < 0 else text


def question_of(told: Mapping[str, str | None]) -> CostQuestion:
    """A question from texts by name. The names are the fields of CostQuestion; other names are ignored."""
    return json_structs.converted(dict(told), CostQuestion)
