"""Deployed functions and those of the program itself, as the API finds and shows them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.engine.registry import Registry
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.records import Version, about
from holdfast.lambda_api.operations.checks import FunctionAsked
from holdfast.lambda_api.operations.lookup import Found, RegisteredFunctions
from holdfast.model.errors import CodeChanged, FunctionNotFound, ResourceConflict


class ServedFunctions:
    """Both as one catalog; a function of the program comes first."""

    def __init__(self, deployed: DeployedFunctions, own: Registry, chance: Callable[[], float], reserved: Collection[str] = ()) -> None:
        """`reserved` are names that no function may have, because workers have them."""
        self._deployed = deployed
        self._own = RegisteredFunctions(own)
        self.reserved = frozenset(reserved)
        self._names = {hosted.function for hosted in own.hosted()} | self.reserved
        self._chance = chance
        self.changed: dict[tuple[str, str], str] = {}
        """Why a version is not run, where its code is not what was deployed."""

    def find(self, asked: FunctionAsked) -> Found:
        """The function that is meant."""
        if asked.name in self._names:
            try:
                return self._own.find(asked)
            except FunctionNotFound:
                if self._deployed.entry(asked.name) is None:
                    raise
        return self._shown(asked.name, self._deployed.version(asked))

    def draw(self, asked: FunctionAsked) -> Found:
        """The function that one invocation gets: an alias that shares its invocations means another version now and then."""
        entry = self._deployed.entry(asked.name)
        alias = None if entry is None or asked.qualifier is None else entry.aliases.get(asked.qualifier)
        if alias is not None:
            for version, weight in alias.weights.items():
                if self._chance() < weight:
                    return self._runnable(self.find(asked._replace(qualifier=version)))
        return self._runnable(self.find(asked))

    def _runnable(self, found: Found) -> Found:
        why = self.changed.get((found.name, found.version))
        if why is not None:
            raise CodeChanged(why)
        return found

    def all(self) -> Sequence[Found]:
        """Every version of every function."""
        own = self._own.all()
        taken = {(found.name, found.version) for found in own}
        deployed = [
            self._shown(entry.name, version)
            for entry in self._deployed.entries()
            for version in entry.everything()
            if (entry.name, version.version) not in taken
        ]
        return sorted([*own, *deployed], key=lambda found: (found.name, int(found.version) if found.version.isdigit() else 0))

    def knows(self, name: str) -> bool:
        """Whether there is such a function."""
        return name in self._names or self._deployed.entry(name) is not None

    def check_deployed(self, name: str) -> None:
        """Refuse to change what is not deployed but a part of the program."""
        if name in self._names:
            what = "A worker of this name" if name in self.reserved else f"Function {name}"
            raise ResourceConflict(f"{what} is part of the program that serves it: change its file there.")

    def is_own(self, name: str, version: str) -> bool:
        """Whether the program itself has this version."""
        return any((found.name, found.version) == (name, version) for found in self._own.all())

    def _shown(self, name: str, version: Version) -> Found:
        location = self._deployed.folder(version).as_uri()
        return Found(
            name=name,
            version=version.version,
            terms=version.config.terms,
            about=about(version),
            code={"RepositoryType": "Local", "Location": location},
            tags=self._deployed.needed(name).tags,
        )
