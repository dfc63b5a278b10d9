"""The functions a runner hosts, and how many invocations of them may be live at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from holdfast.model.errors import DuplicateFunction, FunctionNotFound
from holdfast.model.execution import Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import Kind
from holdfast.model.places import Only
from holdfast.store.seam import Hosted, Target

_MORE_THAN_ANY: Final = 10**9


class Capacity:
    """Room for live invocations, shared by one or more functions. `free` is the number of further invocations for which there is room now;
    0 or less means none."""

    __slots__ = ("_room", "free")

    def __init__(self, room: int) -> None:
        self._room = room
        self.free = room

    @property
    def unused(self) -> bool:
        """Whether no invocation takes room of this capacity, and none has reserved room."""
        return self.free == self._room


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function as the engine knows it. The engine does not have its code; the host does."""

    name: str
    version: str = LATEST
    terms: Terms = Terms()
    capacity: Capacity
    kind: Kind = Kind.FUNCTION


def latest(versions: Collection[str]) -> str:
    """The version that is used if the caller names none: `$LATEST` if there is one, else the highest number."""
    return LATEST if LATEST in versions else max(versions, key=int)


class Registry:
    """The functions that one runner hosts, by name and version, and the room for their invocations."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions: dict[tuple[str, str], Function] = {}
        self._capacities: set[Capacity] = set()
        self._is_shut = False
        self.only: Only | None = None
        """Which executions of its functions the runner takes; None: all of them."""
        self.aliases: dict[tuple[str, str], str] = {}
        """By function and alias: the version that the alias stands for."""
        self.gone: set[tuple[str, str]] = set()
        """Functions with versions that were removed here on purpose. An invoke of one fails at once, though the store remembers that a
        runner hosted it."""
        for function in functions:
            if (function.name, function.version) in self._functions:
                raise DuplicateFunction(
                    f"Function {function.name!r} was given twice in version {function.version}. Give it once, or rename one."
                )
            self.put(function)

    def put(self, function: Function) -> None:
        """Host this version of a function from now on. If it is hosted already, it is replaced, for example to change its terms (the limits
        of an execution). Invocations that run now continue with the old one."""
        self._functions[function.name, function.version] = function
        self.gone.discard((function.name, function.version))
        if function.capacity not in self._capacities:
            self._capacities.add(function.capacity)
            function.capacity.free -= _MORE_THAN_ANY if self._is_shut else 0

    def remove(self, name: str, version: str) -> None:
        """Stop hosting a version. Its executions stay in the store and wait for a runner that hosts it. This call does not end invocations
        that run now."""
        self._functions.pop((name, version), None)
        self.gone.add((name, version))

    def get(self, name: str, version: str) -> Function | None:
        """The function with exactly this version; None if it is not hosted here."""
        return self._functions.get((name, version))

    def wanted(self, name: str, version: str | None, kind: Kind = Kind.FUNCTION) -> Function:
        """The function of this name, version and kind that is hosted here. If `version` is None, the version `$LATEST` is taken, or the
        highest number if there is no `$LATEST`.

        Raises FunctionNotFound if no such function is hosted here. The kind is compared, because a run of a worker or a pipeline needs an
        accepted order and cannot be started with only a name and an input.
        """
        found = None if version is None else self._functions.get((name, version))
        if found is not None and found.kind is kind:
            return found
        ours = [f for f in self._functions.values() if f.kind is kind]
        versions = [f.version for f in ours if f.name == name]
        if not versions:
            known = ", ".join(sorted({f.name for f in ours})) or "none"
            raise FunctionNotFound(f"No function {name!r} is registered here. Known functions: {known}.")
        version = version or latest(versions)
        found = self.get(name, version)
        if found is None or found.kind is not kind:
            raise FunctionNotFound(f"Function {name!r} has no version {version} here. Known versions: {', '.join(sorted(versions))}.")
        return found

    def kind_of(self, name: str) -> Kind | None:
        """The kind of the function with this name; None if it is not hosted here. If several versions are hosted here, the one that was
        added first counts. (All versions of a name should have one kind; this is not checked.)"""
        return next((f.kind for f in self._functions.values() if f.name == name), None)

    def targets(self) -> Sequence[Target]:
        """All functions and versions that are hosted here."""
        return [Target(f.name, f.version, self.only) for f in list(self._functions.values())]  # the metrics ask in a thread

    def hosted(self) -> Sequence[Hosted]:
        """All functions and versions that are hosted here, with their terms and kinds."""
        return [Hosted(f.name, f.version, f.terms, f.kind) for f in self._functions.values()]

    def is_full(self) -> bool:
        """Whether at least one function that is hosted here has no room now. Between `shut` and `open` every function counts as one without
        room."""
        return any(f.capacity.free <= 0 for f in self._functions.values())

    def is_unused(self) -> bool:
        """Whether no invocation is live here, and none has reserved room. False between `shut` and `open`."""
        return all(capacity.unused for capacity in self._capacities)

    def by_capacity(self) -> dict[Capacity, list[Target]]:
        """All functions and versions that are hosted here, by the capacity that they share, whether it has room or not."""
        found: dict[Capacity, list[Target]] = {}
        for f in self._functions.values():
            found.setdefault(f.capacity, []).append(Target(f.name, f.version, self.only))
        return found

    def shut(self) -> None:
        """Refuse room to new invocations, until `open` is called."""
        self._is_shut = True
        for capacity in self._capacities:
            capacity.free -= _MORE_THAN_ANY

    def open(self) -> None:
        """Give room to new invocations again. Room that was free before `shut`, and room that became free after it, is free now."""
        self._is_shut = False
        for capacity in self._capacities:
            capacity.free += _MORE_THAN_ANY

    def full(self) -> dict[Capacity, list[Target]]:
        """The functions that have no room now, by the capacity that they share. Empty between `shut` and `open`."""
        return {} if self._is_shut else {capacity: found for capacity, found in self.by_capacity().items() if capacity.free <= 0}

    def claimable(self) -> dict[Capacity, list[Target]]:
        """The functions that have room for another invocation now, by the capacity that they share."""
        return {capacity: found for capacity, found in self.by_capacity().items() if capacity.free > 0}
