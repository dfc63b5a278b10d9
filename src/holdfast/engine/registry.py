"""The functions a runner hosts, and how many invocations of them may be live at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from holdfast.model.errors import DuplicateFunction, FunctionNotFound
from holdfast.model.execution import Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import Kind
from holdfast.store.seam import Hosted, Target

_MORE_THAN_ANY: Final = 10**9


class Capacity:
    """Room for live invocations, shared by the functions that run in one place."""

    __slots__ = ("_room", "free")

    def __init__(self, room: int) -> None:
        self._room = room
        self.free = room

    @property
    def unused(self) -> bool:
        """Nothing is live here, nor about to be."""
        return self.free == self._room


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function as the engine knows it; its code is the host's."""

    name: str
    version: str = LATEST
    terms: Terms = Terms()
    slots: Capacity
    kind: Kind = Kind.FUNCTION


def latest(versions: Collection[str]) -> str:
    """The version that is meant where none is named: `$LATEST` if there is one, else the highest."""
    return LATEST if LATEST in versions else max(versions, key=int)


class Registry:
    """Functions by name and version."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions: dict[tuple[str, str], Function] = {}
        self._slots: set[Capacity] = set()
        self._is_shut = False
        self.aliases: dict[tuple[str, str], str] = {}
        """Versions by function and alias."""
        self.gone: set[tuple[str, str]] = set()
        """Versions that were removed on purpose: nobody shall wait for them, though the store remembers that somebody had them."""
        for function in functions:
            if (function.name, function.version) in self._functions:
                raise DuplicateFunction(f"Function {function.name!r} was given twice in version {function.version}.")
            self.put(function)

    def put(self, function: Function) -> None:
        """Have a function from now on, or its new terms; what runs goes on."""
        self._functions[function.name, function.version] = function
        self.gone.discard((function.name, function.version))
        if function.slots not in self._slots:
            self._slots.add(function.slots)
            function.slots.free -= _MORE_THAN_ANY if self._is_shut else 0

    def remove(self, name: str, version: str) -> None:
        """Have a version no longer: its executions stay, and wait for whoever has it."""
        self._functions.pop((name, version), None)
        self.gone.add((name, version))

    def get(self, name: str, version: str) -> Function | None:
        """A function of exactly this version."""
        return self._functions.get((name, version))

    def wanted(self, name: str, version: str | None, kind: Kind = Kind.FUNCTION) -> Function:
        """The function a caller means: the version named, else `$LATEST`, else the highest there is.

        What is of another kind is not there for this caller: a worker takes orders that were accepted, and cannot be started by its name.
        """
        ours = [f for f in self._functions.values() if f.kind is kind]
        versions = [f.version for f in ours if f.name == name]
        if not versions:
            known = ", ".join(sorted({f.name for f in ours})) or "none"
            raise FunctionNotFound(f"No function {name!r} is registered here. Known functions: {known}.")
        version = version or latest(versions)
        found = self.get(name, version)
        if found is None:
            raise FunctionNotFound(f"Function {name!r} has no version {version} here. Known versions: {', '.join(sorted(versions))}.")
        return found

    def targets(self) -> Sequence[Target]:
        """Everything hosted here."""
        return [Target(f.name, f.version) for f in self._functions.values()]

    def hosted(self) -> Sequence[Hosted]:
        """Everything hosted here, with its terms."""
        return [Hosted(f.name, f.version, f.terms, f.kind) for f in self._functions.values()]

    def is_full(self) -> bool:
        """Whether there is a function here that has no room at all now."""
        return any(f.slots.free <= 0 for f in self._functions.values())

    def is_unused(self) -> bool:
        """Whether nothing at all is live here."""
        return all(slots.unused for slots in self._slots)

    def shut(self) -> None:
        """Have no room for anything new, until it is opened again."""
        self._is_shut = True
        for slots in self._slots:
            slots.free -= _MORE_THAN_ANY

    def open(self) -> None:
        """Have room again: what was there, and what became free meanwhile."""
        self._is_shut = False
        for slots in self._slots:
            slots.free += _MORE_THAN_ANY

    def claimable(self) -> dict[Capacity, list[Target]]:
        """What could be claimed now, by the room it needs."""
        found: dict[Capacity, list[Target]] = {}
        for f in self._functions.values():
            if f.slots.free > 0:
                found.setdefault(f.slots, []).append(Target(f.name, f.version))
        return found
