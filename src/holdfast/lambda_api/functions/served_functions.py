"""The functions that the API finds and shows: deployed functions, and those that the program itself registered with the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.engine.registry import Registry
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.function_records import Version, about
from holdfast.lambda_api.operations.checks import FunctionReference
from holdfast.lambda_api.operations.lookup import FoundFunction, RegisteredFunctions, list_order
from holdfast.model.deploy_errors import CodeChanged, ResourceConflict
from holdfast.model.errors import FunctionNotFound


class ServedFunctions:
    """Deployed functions and functions of the program as one lookup. If both have the version that a request names, the program's function
    is found."""

    def __init__(self, deployed: DeployedFunctions, own: Registry, chance: Callable[[], float], reserved: Collection[str] = ()) -> None:
        """`own` has the functions of the program. `chance` returns a random number from 0 to 1. `reserved` has the names of workers: no
        function of such a name can be deployed."""
        self._deployed = deployed
        self._own = RegisteredFunctions(own)
        self.reserved = frozenset(reserved)
        self._names = {hosted.function for hosted in own.hosted()} | self.reserved
        self._chance = chance
        self.changed: dict[tuple[str, str], str] = {}
        """The versions that are not run, because their code on disk is not the code that was deployed. For each function and version: the
        error for a caller."""

    def find(self, asked: FunctionReference) -> FoundFunction:
        """The function in the version that a request names by a version or an alias. Without a qualifier it is `$LATEST`. If a function of
        the program has no `$LATEST`, it is the highest version of this function. Raises FunctionNotFound if there is none."""
        if asked.name in self._names:
            try:
                return self._own.find(asked)
            except FunctionNotFound:
                if self._deployed.entry(asked.name) is None:
                    raise
        return self._shown(asked.name, self._deployed.version(asked))

    def draw(self, asked: FunctionReference) -> FoundFunction:
        """The function version that runs one invocation: the one that `find` returns. But if the request names an alias with a second
        version, that version is returned as often as its weight says, at random. Raises FunctionNotFound if there is none, and CodeChanged
        if its code on disk is not what was deployed."""
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
        """Every version of every function, sorted by name, then by version number; `$LATEST` comes before the numbers."""
        own = self._own.all()
        taken = {(found.name, found.version) for found in own}
        deployed = [
            self._shown(entry.name, version)
            for entry in self._deployed.entries()
            for version in entry.everything()
            if (entry.name, version.version) not in taken
        ]
        return sorted([*own, *deployed], key=list_order)

    def knows(self, name: str) -> bool:
        """Whether there is a function or a worker of this name."""
        return name in self._names or self._deployed.entry(name) is not None

    def check_deployed(self, name: str) -> None:
        """Raise ResourceConflict if the program itself has a function or a worker of this name: such a function cannot be deployed or
        changed."""
        if name in self._names:
            what = "A worker of this name" if name in self.reserved else f"Function {name}"
            raise ResourceConflict(f"{what} is part of the program that serves it. Change it in the program's file, or use another name.")

    def is_own(self, name: str, version: str) -> bool:
        """Whether the program itself has this version of a function."""
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
