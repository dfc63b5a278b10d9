"""Merges: make one result from several parts. There are no side effects: the same parts give the same result everywhere.

    merged([("facts", {"name": "Acme", "price": 10}), ("prices", {"price": 12})], "best_effort")
    → Merged(outputs={"name": "Acme", "price": 10}, conflicts=(Conflict(".price", …),), completeness=1.0, missing=())

Objects are merged field by field, at every level; `union` also merges lists, element by element. Any other value is chosen as a whole, by
the policy:

- `strict`: all parts that have a value at this place must have the same value. If the values differ, that is a conflict, and the value is
  left out. A conflict or a missing part fails the merge (`failure_of`).
- `best_effort`: the value that the largest number of parts has; if several values have the same number, the one of the source whose name
  sorts first. Different values are reported as a conflict. null is ignored if another part has a value.
- `majority`: the value that more parts have than any other value. If several values have the same largest number of parts, that is a
  conflict, and the value is left out. null is a value like others.
- `union`: like `best_effort`, but lists become one list with each element once. Elements of two parts are the same if their field `key` is
  the same; then they are merged field by field. Without a key, or without that field, they are the same if they are equal. Two equal
  elements of one part stay two elements.
- `first`: the first part that is not missing, unchanged. The other parts are not read, so there are no conflicts.

Order: only `first` depends on the order of the parts, which is the order in the graph. All other policies read the parts sorted by source,
and the elements of a union have that order, too. No policy depends on when a part arrived.

Values are compared as JSON: 1 and 1.0 are equal, 1 and true are not, and the order of fields does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.contract.equality import identity
from holdfast.contract.paths import EACH, text_of

MergePolicy: TypeAlias = Literal["strict", "best_effort", "first", "majority", "union"]

MERGE_CONFLICT: Final = "merge_conflict"
MAX_DEPTH: Final = 64
"""Objects (with `union` also lists) are merged member by member up to this depth. A deeper object or list is chosen as a whole."""
MAX_PATH: Final = 500
"""A path has at most this many characters; a longer one is cut and ends in `…`. Ten thousand conflicts may have the same long name in their
paths."""
NO_CHOICES: Final[Mapping[str, str]] = MappingProxyType({})
_CUT: Final = "…"


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""Stands for the value of a part that has none, for example because its node was skipped."""


class Candidate(msgspec.Struct, frozen=True):
    """The name of one source of a merge, and the value of this source: its whole value, or the value of one field or element."""

    source: str
    value: Any


class Conflict(msgspec.Struct, frozen=True):
    """A place where sources differ, and the value of each source."""

    path: str
    """The place in the result: `.field`, `[0]`, `["a field"]`; empty for the result itself."""
    values: tuple[Candidate, ...]


class Merged(msgspec.Struct, frozen=True):
    """The result of a merge."""

    outputs: Any
    """The merged value. None if all parts are missing, or if the parts are not all objects, differ, and the policy chooses none of them."""
    conflicts: tuple[Conflict, ...] = ()
    completeness: float = 1.0
    """A number from 0 to 1: the share of parts that are not missing, multiplied by the share of places whose value was not left out. With
    the policy `first`: 1 if any part has a value, else 0."""
    missing: tuple[str, ...] = ()
    """The sources whose part is missing, then the paths of values that were left out."""

    @property
    def document(self) -> dict[str, Any]:
        """The result as a dictionary of JSON values."""
        conflicts = [
            {"path": found.path, "values": [{"source": said.source, "value": said.value} for said in found.values]}
            for found in self.conflicts
        ]
        return {"outputs": self.outputs, "conflicts": conflicts, "completeness": self.completeness, "missing": list(self.missing)}


def merged(
    parts: Sequence[tuple[str, Any]], policy: MergePolicy, key: str | None = None, choices: Mapping[str, str] = NO_CHOICES
) -> Merged:
    """The merge of several parts, each with its source. Conflicts and missing parts raise nothing: they are in the result. `failure_of`
    says whether the policy accepts the result. `key` is for `union`: the field by which it finds the same element in several lists.

    `choices` decide conflicts: the key is the path of a conflict, the value is the source whose value is used. A decided conflict is not in
    the result. A choice is ignored if there is no conflict at its path, or if its source has no value there.
    """
    there = [Candidate(source, value) for source, value in parts if value is not MISSING]
    absent = sorted(source for source, value in parts if value is MISSING)
    if not there:
        return Merged(None, (), 0.0, tuple(absent))
    if policy == "first":
        return Merged(there[0].value, (), 1.0, tuple(absent))
    work = _Merge(policy, key, choices)
    outputs = work.value(_sorted(there), "", 0)
    completeness = len(there) / len(parts) * (1 - len(work.left_out) / max(work.places, 1))
    return Merged(None if outputs is MISSING else outputs, tuple(work.conflicts), completeness, (*absent, *work.left_out))


def failure_of(policy: MergePolicy, result: Merged) -> str | None:
    """The error code for a result that the policy does not accept; None if it accepts the result. `strict` does not accept a result with
    conflicts or missing parts. Every other policy accepts every result."""
    return MERGE_CONFLICT if policy == "strict" and (result.conflicts or result.missing) else None


class _Merge:
    def __init__(self, policy: MergePolicy, key: str | None, choices: Mapping[str, str]) -> None:
        self._policy = policy
        self._key = key
        self._choices = choices
        self.places = 0
        self.conflicts: list[Conflict] = []
        self.left_out: list[str] = []

    def value(self, said: Sequence[Candidate], path: str, depth: int) -> Any:
        """The value at one place; MISSING if the policy chooses none."""
        if self._policy in ("best_effort", "union"):
            said = [one for one in said if one.value is not None] or said
        if len(said) == 1:
            self.places += 1
            return said[0].value
        if depth < MAX_DEPTH and all(isinstance(one.value, dict) for one in said):
            return self._object(said, path, depth)
        if depth < MAX_DEPTH and self._policy == "union" and all(isinstance(one.value, list | tuple) for one in said):
            return self._list(said, path, depth)
        return self._chosen(said, path)

    def _object(self, said: Sequence[Candidate], path: str, depth: int) -> dict[str, Any]:
        fields: dict[str, list[Candidate]] = {}
        for one in said:
            for name, value in one.value.items():
                fields.setdefault(name, []).append(Candidate(one.source, value))
        values = {name: self.value(found, _below(path, name), depth + 1) for name, found in fields.items()}
        return {name: value for name, value in values.items() if value is not MISSING}

    def _list(self, said: Sequence[Candidate], path: str, depth: int) -> list[Any]:
        elements: dict[Hashable, list[Candidate]] = {}
        for one in said:
            for name, element in _numbered((self._name(element), element) for element in one.value):
                elements.setdefault(name, []).append(Candidate(one.source, element))
        return [self.value(found, _cut(f"{path}[{at}]"), depth + 1) for at, found in enumerate(elements.values())]

    def _name(self, element: Any) -> Hashable:
        """The name of an element of a list. Elements of two different parts are merged into one if they have the same name, and the same
        number among the elements of this name in their part (`_numbered`)."""
        if self._key is not None and isinstance(element, dict) and self._key in element:
            return ("key", identity(element[self._key]))
        return ("equal", identity(element))

    def _chosen(self, said: Sequence[Candidate], path: str) -> Any:
        """The whole value of one of the sources; MISSING if the policy chooses none. If the values differ, a conflict is noted, except in
        two cases: a choice decides it, or the policy is `majority` and more sources gave one value than any other value."""
        self.places += 1
        groups: dict[Hashable, list[Candidate]] = {}
        for one in said:
            groups.setdefault(identity(one.value), []).append(one)
        most = max(groups.values(), key=len)
        if len(groups) == 1:
            return most[0].value
        if self._policy == "majority" and sum(len(group) == len(most) for group in groups.values()) == 1:
            return most[0].value
        source = None if path.endswith(_CUT) else self._choices.get(path)
        if (settled := next((one for one in said if one.source == source), None)) is not None:
            return settled.value
        self.conflicts.append(Conflict(path, tuple(said)))
        if self._policy in ("best_effort", "union"):
            return most[0].value
        self.left_out.append(path)
        return MISSING


def _sorted(there: Sequence[Candidate]) -> list[Candidate]:
    """The parts, sorted by source. Several parts with the same source are sorted by their values, so that the order in which they arrived
    has no effect."""
    if len({one.source for one in there}) == len(there):
        return sorted(there, key=lambda one: one.source)
    return sorted(there, key=lambda one: (one.source, repr(identity(one.value))))


class _Name(NamedTuple):
    name: Hashable
    occurrence: int


def _numbered(named: Iterable[tuple[Hashable, Any]]) -> Iterator[tuple[_Name, Any]]:
    """The elements of one part, each with its name and a number. The number differs for elements with the same name."""
    seen: dict[Hashable, int] = {}
    for name, element in named:
        seen[name] = seen.get(name, 0) + 1
        yield _Name(name, seen[name]), element


def _below(path: str, name: str) -> str:
    return _cut(path + ('["*"]' if name == EACH else text_of((name[:MAX_PATH],))))


def _cut(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 1] + _CUT
