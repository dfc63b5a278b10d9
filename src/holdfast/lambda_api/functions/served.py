"""The functions that the API finds and shows: deployed functions, and those that the program itself registered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.engine.registry import Registry
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.function_records import Version, about
from holdfast.lambda_api.operations.checks import FunctionReference
from holdfast.lambda_api.operations.lookup import FoundFunction, RegisteredFunctions
from holdfast.model.errors import CodeChanged, FunctionNotFound, ResourceConflict


class ServedFunctions:
    """Deployed functions and functions of the program as one lookup. Where both have a name, the program's function is found."""

    def __init__(self, deployed: DeployedFunctions, own: Registry, chance: Callable[[], float], reserved: Collection[str] = ()) -> None:
        """`reserved` are the names of workers; no function may have one of these."""
        self._deployed = deployed
        self._own = RegisteredFunctions(own)
        self.reserved = frozenset(reserved)
        self._names = {hosted.function for hosted in own.hosted()} | self.reserved
        self._chance = chance
        self.changed: dict[tuple[str, str], str] = {}
        """Why a version does not run: its code on disk is not the code that was deployed."""

    def find(self, asked: FunctionReference) -> FoundFunction:
        """The function that a request names."""
        if asked.name in self._names:
            try:
                return self._own.find(asked)
            except FunctionNotFound:
                if self._deployed.entry(asked.name) is None:
                    raise
        return self._shown(asked.name, self._deployed.version(asked))

    def draw(self, asked: FunctionReference) -> FoundFunction:
        """The function for one invocation. An alias with weights gives some invocations to its second version."""
        entry = self._deployed.entry(asked.name)
        alias = None if entry is None or asked.qualifier is None else entry.aliases.get(asked.qualifier)
        if alias is not None:
            for version, weight in alias.weights.items():
                if self._chance() < weight:
                    return self._runnable(self.find(asked._replace(qualifier=version)))
        return self._runnable(self.find(asked))

    def _runnable(self, found: FoundFunction) -> FoundFunction:
        why = self.changed.get((found.name, found.version))
        if why is not None:
            raise CodeChanged(why)
        return found

    def all(self) -> Sequence[FoundFunction]:
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
        """Whether a function of this name exists."""
        return name in self._names or self._deployed.entry(name) is not None

    def check_deployed(self, name: str) -> None:
        """Refuse to change a function that is part of the program and was not deployed."""
        if name in self._names:
            what = "A worker of this name" if name in self.reserved else f"Function {name}"
            raise ResourceConflict(f"{what} is part of the program that serves it: change its file there.")

    def is_own(self, name: str, version: str) -> bool:
        """Whether the program itself has this version."""
        return any((found.name, found.version) == (name, version) for found in self._own.all())

    def _shown(self, name: str, version: Version) -> FoundFunction:
        location = self._deployed.folder(version).as_uri()
        return FoundFunction(
            name=name,
            version=version.version,
            terms=version.config.terms,
            about=about(version),
            code={"RepositoryType": "Local", "Location": location},
            tags=self._deployed.needed(name).tags,
        )
