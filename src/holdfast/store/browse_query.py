"""The SQL of a search by a person: which index finds the candidates, and which candidates match.

Candidates are the newest executions of some parts. A part is an ordered range of one index: all ids, the ids of one function, and so on. A
statement reads a bounded number of candidates of one part, and returns those that match. So it does not read more rows, even if few of them
match the filter. The texts are in browse.sql of each backend; a line of its filter is kept if the search gives a value for each parameter
of that line, as in list_query.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.model.credentials import DEFAULT_TENANT
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Kind
from holdfast.model.shown_status import ShownStatus
from holdfast.model.summary import PARTIAL
from holdfast.store.browse import Browse
from holdfast.store.list_query import Dialect

FIRST: Final = "0"
LAST: Final = "~"
"""The id of an execution has only letters, digits, `-` and `_`. So each id lies between FIRST and LAST."""
_MOST_PARTS: Final = 50
"""If a filter has more values than this, the search uses another index: it does not read one range of the index for each value."""
_OPEN: Final = frozenset({ShownStatus.RUNNING, ShownStatus.WAITING, ShownStatus.PERSON, ShownStatus.RETRYING, ShownStatus.QUARANTINED})


class IndexRange(NamedTuple):
    """An ordered range of one index: the entries with the value `value` (None: the range is not limited to one value) whose id is at least
    `lower` and less than `upper`."""

    name: str
    """Which SQL of browse.sql it uses: `part_NAME`."""
    value: str | None = None
    lower: str = FIRST
    upper: str = LAST


IndexPlan = Sequence[IndexRange]
"""A list of parts that together contain every execution which the filter can match."""

BY_TEXT: Final = frozenset({"named", "former"})
"""The parts that are ranges of names: `named` has executions that have the name now, `former` those that had it before they were
superseded."""


def id_at(ms: int) -> str:
    """The smallest text with which the id of an execution can begin that was made at this time or later. The time is in milliseconds since
    the epoch. Ids are UUIDs of version 7, which begin with their time."""
    text = f"{min(max(ms, 0), 2**48 - 1):012x}"
    return f"{text[:8]}-{text[8:]}"


def asked_text(text: str) -> str:
    """A text to search for. NUL and lone surrogates are replaced, because Postgres refuses them. No stored text contains them."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def end_of(prefix: str) -> str:
    """A text that is larger than every text that begins with a prefix."""
    return f"{prefix}\U0010ffff"


class IdRange(NamedTuple):
    """The range of ids that a search considers: `lower` and larger ids, but only those smaller than `upper`."""

    lower: str
    upper: str


def bounds_of(wanted: Browse) -> IdRange:
    """The range of ids in which all matches lie."""
    uppers = [LAST] if wanted.until is None else [id_at(wanted.until)]
    if wanted.beyond is not None:
        uppers.append(asked_text(wanted.beyond))
    return IdRange(FIRST if wanted.since is None else id_at(wanted.since), min(uppers))


def plans(wanted: Browse, functions_of_kinds: Sequence[str] | None, bad_outcomes: Sequence[str]) -> Iterator[IndexPlan]:
    """The plans that can answer a search. The plan that probably reads the fewest rows comes first; the last plan reads all executions.

    `functions_of_kinds` are the published functions of the wanted kinds; None if no kind is wanted, or if functions that are not published
    may also be of a wanted kind. `bad_outcomes` are the outcomes other than `ok`.
    """
    for name, values in (
        ("error_code", wanted.error_codes),
        ("pipeline", wanted.pipelines),
        ("queue", wanted.queues),
    ):
        yield from _by_value(name, values)
    if wanted.statuses and ShownStatus.OK not in wanted.statuses:
        parts = tuple(_of_statuses(wanted.statuses, bad_outcomes))
        if len(parts) <= _MOST_PARTS:
            yield parts
    yield from _by_value("function", wanted.functions)
    if functions_of_kinds is not None:
        yield from _by_value("function", functions_of_kinds, empty=True)
    confined = wanted.tenants if wanted.tenant is None else (wanted.tenant,)
    if DEFAULT_TENANT not in confined:  # executions without a tenant are in no index
        yield from _by_value("tenant", confined)
    yield (IndexRange("id"),)


def text_plan(text: str) -> IndexPlan:
    """The parts that contain all executions whose id, name or former name begins with a text."""
    return (IndexRange("named"), IndexRange("former"), IndexRange("id", lower=text, upper=end_of(text)))


def _by_value(name: str, values: Sequence[str], *, empty: bool = False) -> Iterator[IndexPlan]:
    if (values or empty) and len(values) <= _MOST_PARTS:
        yield tuple(IndexRange(name, asked_text(value)) for value in dict.fromkeys(values))


def _of_statuses(statuses: Sequence[ShownStatus], bad_outcomes: Sequence[str]) -> Iterator[IndexRange]:
    if not _OPEN.isdisjoint(statuses):
        yield IndexRange("status", ExecutionStatus.RUNNING.value)
    if ShownStatus.STOPPED in statuses:
        yield IndexRange("status", ExecutionStatus.STOPPED.value)
    if ShownStatus.FAILED in statuses:
        yield IndexRange("status", ExecutionStatus.FAILED.value)
        yield IndexRange("status", ExecutionStatus.TIMED_OUT.value)
        yield from (IndexRange("outcome", outcome) for outcome in bad_outcomes if outcome != PARTIAL)
    if ShownStatus.PARTIAL in statuses:
        yield IndexRange("outcome", PARTIAL)


class BrowseQuery:
    """Makes the statements of a search, in one dialect."""

    def __init__(self, sql: Mapping[str, str], dialect: Dialect) -> None:
        self._sql, self._dialect = sql, dialect

        self.named = sql["browse_named"]
        """The statement that counts the executions whose present or former name begins with a text."""
        self.functions_of_kinds = sql["functions_of_kinds"]
        self.bad_outcomes = sql["bad_outcomes"]

    def last_of(self, part: IndexRange) -> str:
        """The statement that counts the next candidates of a part, below the id that the search has reached. It returns their count and the
        smallest id among them."""
        return self._sql["browse_last"].replace("{part}", self._sql[f"part_{part.name}"])

    def matches(self, name: str, part: IndexRange, asked: Mapping[str, object]) -> str:
        """The statement that finds the matches among the next candidates of a part, below the id that the search has reached. `name` is the
        name of a statement in browse.sql that says which columns are read. `asked` are the parameters of the filter, as the method `asked`
        returns them."""
        kept = self._dialect.kept(self._sql["browse_filter"], asked)
        text = self._sql[name].replace("{filter}", kept).replace("{status}", self._sql["browse_status"])
        return text.replace("{part}", self._sql[f"part_{part.name}"])

    def asked(self, wanted: Browse) -> dict[str, Any]:
        """The parameters of the filter. A field that is not given has no parameter."""
        several: dict[str, Sequence[str]] = {
            "statuses": [status.value for status in wanted.statuses],
            "functions": wanted.functions,
            "pipelines": wanted.pipelines,
            "queues": wanted.queues,
            "error_codes": wanted.error_codes,
            "versions": wanted.versions,
            "tenants": wanted.tenants,
            "kinds": [kind.value for kind in wanted.kinds],
        }
        asked: dict[str, Any] = {
            name: self._dialect.array([asked_text(value) for value in values]) for name, values in several.items() if values
        }
        if wanted.tenant is not None:
            asked["tenant"] = asked_text(wanted.tenant)
        if wanted.text:
            text = asked_text(wanted.text)
            asked |= {"text": text, "text_end": end_of(text)}
        if wanted.roots:
            asked["roots"] = 1
        return asked


def only_published(kinds: Sequence[Kind]) -> bool:
    """Whether every function of these kinds must be a published one. False if no kind is given. False if FUNCTION is among them, because a
    function that no runner has published has the kind FUNCTION."""
    return bool(kinds) and Kind.FUNCTION not in kinds
