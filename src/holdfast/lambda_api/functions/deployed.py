"""The deployed functions: CreateFunction and the other operations that deploy functions, as Python calls.

Each change makes a new entry and writes it to disk. Readers see the new entry only after that. A call that changes something blocks, and
the caller must make such calls one after the other. Reading is allowed at any time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.lambda_api.functions.function_folder import FunctionFolder
from holdfast.lambda_api.functions.function_records import Alias, Code, Config, DeployedFunction, Version
from holdfast.lambda_api.operations.checks import FunctionReference, function_arn
from holdfast.model.clock import Clock
from holdfast.model.deploy_errors import ResourceConflict, RevisionMismatch
from holdfast.model.errors import FunctionNotFound, InvalidParameter
from holdfast.model.ids import LATEST, IdSource, checked_function

PUBLISHED: Final = f"{LATEST}.PUBLISHED"
_ALIAS: Final = re.compile(r"(?![0-9]+$)[a-zA-Z0-9_-]{1,128}")
_CHANGED: Final = (
    "The RevisionId provided does not match the latest RevisionId. Call the {0} API to retrieve the latest RevisionId for your resource."
)


class DeployedFunctions:
    """All deployed functions of one folder. `keeper` writes them to disk."""

    def __init__(self, keeper: FunctionFolder, *, clock: Clock, ids: IdSource) -> None:
        self.keeper = keeper
        self._clock = clock
        self._ids = ids
        self._entries = keeper.read()

    # --- reading

    def entry(self, name: str) -> DeployedFunction | None:
        """The function of this name; None if there is none, or if it was deleted."""
        found = self._entries.get(name)
        return None if found is None or found.latest is None else found

    def entries(self) -> Sequence[DeployedFunction]:
        """All functions that are not deleted, sorted by name."""
        return sorted((entry for entry in self._entries.values() if entry.latest is not None), key=lambda entry: entry.name)

    def everything(self) -> Sequence[DeployedFunction]:
        """All functions, also those that were deleted."""
        return list(self._entries.values())

    def needed(self, name: str) -> DeployedFunction:
        """The function of this name. Raises FunctionNotFound if there is none, or if it was deleted."""
        found = self.entry(name)
        if found is None:
            raise FunctionNotFound(f"Function not found: {function_arn(name)}")
        return found

    def version(self, asked: FunctionReference) -> Version:
        """The version that a qualifier names: by its number, by an alias, or as `$LATEST.PUBLISHED`, the newest published version. Without
        a qualifier it is `$LATEST`. Raises FunctionNotFound if there is none."""
        entry = self.needed(asked.name)
        wanted = asked.qualifier or LATEST
        if wanted == PUBLISHED:
            wanted = str(max(map(int, entry.versions), default=0))
        alias = entry.aliases.get(wanted)
        wanted = alias.version if alias is not None else wanted
        found = entry.latest if wanted == LATEST else entry.versions.get(wanted)
        if found is None:
            raise FunctionNotFound(f"Function not found: {asked.arn}")
        return found

    def folder(self, version: Version) -> Path:
        return self.keeper.code_folder(version.code)

    # --- functions

    def create(self, name: str, config: Config, code: Code, *, tags: Mapping[str, str] | None = None, publish: bool = False) -> Version:
        """CreateFunction. Returns `$LATEST`, or with `publish` the published version. Raises ResourceConflict if the function exists, and
        InvalidParameter if the name or the configuration is not valid."""
        checked_function(name)
        if self.entry(name) is not None:
            raise ResourceConflict(f"Function already exist: {name}")
        before = self._entries.get(name)
        entry = DeployedFunction(
            name=name,
            latest=self._made(LATEST, config.checked(name), code),
            last=0 if before is None else before.last,
            tags=dict(tags or {}),
        )
        return self._kept(entry, publish=publish)

    def update_code(
        self,
        name: str,
        code: Code,
        *,
        architectures: Sequence[str] | None = None,
        revision: str | None = None,
        publish: bool = False,
        dry_run: bool = False,
    ) -> Version:
        """UpdateFunctionCode. Returns the new `$LATEST`, or with `publish` the published version. With `dry_run` nothing is changed, and
        the `$LATEST` that would result is returned. If `architectures` is None, they stay as they are. Raises RevisionMismatch if
        `revision` is given and is not the revision of `$LATEST`."""
        entry, latest = self._current(name, revision)
        config = latest.config
        if architectures is not None:
            config = msgspec.structs.replace(config, other={**config.other, "Architectures": list(architectures)})
        made = self._made(LATEST, config, code)
        return made if dry_run else self._kept(msgspec.structs.replace(entry, latest=made), publish=publish)

    def update_config(self, name: str, changed: Mapping[str, object], *, revision: str | None = None) -> Version:
        """UpdateFunctionConfiguration: members that are not in `changed` stay as they are. Returns the new `$LATEST`. Raises
        RevisionMismatch if `revision` is given and is not the revision of `$LATEST`. Raises InvalidParameter if a new value is not allowed,
        or if it would make a function durable that is not."""
        entry, latest = self._current(name, revision)
        if latest.config.terms is None and changed.get("terms") is not None:
            raise InvalidParameter("You cannot add a durable configuration to an existing function that is not durable; create a new one.")
        config = msgspec.structs.replace(latest.config, **changed).checked(name)
        return self._kept(msgspec.structs.replace(entry, latest=self._made(LATEST, config, latest.code)))

    def publish(self, name: str, *, sha256: str | None = None, description: str | None = None, revision: str | None = None) -> Version:
        """PublishVersion. Returns the new version. If the newest version has the same code and the same configuration as `$LATEST` (their
        descriptions may differ), no version is made, and the newest version is returned. Raises RevisionMismatch if `revision` is given and
        is not that of `$LATEST`. Raises InvalidParameter if `sha256` is given and is not that of `$LATEST`."""
        entry, latest = self._current(name, revision)
        if sha256 is not None and sha256 != latest.code.sha256:
            raise InvalidParameter(
                f"CodeSHA256 ({sha256}) is different from current CodeSHA256 in $LATEST ({latest.code.sha256}). "
                "Please try again with the CodeSHA256 in $LATEST."
            )
        return self._kept(entry, publish=True, description=description)

    def delete(self, name: str, qualifier: str | None = None) -> None:
        """DeleteFunction. Without `qualifier`, deletes the function with all its versions and aliases; else only the version with this
        number. Raises ResourceConflict if an alias names the version. Raises FunctionNotFound if there is no such function or version.
        Raises InvalidParameter if `qualifier` is `$LATEST` or an alias."""
        entry = self.needed(name)
        if qualifier is None:
            self._keep(DeployedFunction(name=name, latest=None, last=entry.last))
            return
        if qualifier == LATEST:
            raise InvalidParameter("$LATEST version cannot be deleted without deleting the function.")
        if qualifier in entry.aliases:
            raise InvalidParameter(f"{qualifier} is an alias; delete a version, or the alias itself.")
        if qualifier not in entry.versions:
            raise FunctionNotFound(f"Function not found: {function_arn(name, qualifier)}")
        users = [alias.name for alias in entry.aliases.values() if qualifier in (alias.version, *alias.weights)]
        if users:
            raise ResourceConflict(f"Unable to delete version because the following aliases reference it: [{', '.join(sorted(users))}]")
        versions = {number: version for number, version in entry.versions.items() if number != qualifier}
        self._keep(msgspec.structs.replace(entry, versions=versions))

    def deploy(
        self, name: str, config: Config, code: Code, *, aliases: Sequence[str] = (), publish: bool = False, tags: Mapping[str, str]
    ) -> DeployedFunction:
        """Make a function equal to this description, as deploying a template does; the function is created if it does not exist. Parts that
        are equal already do not change. With `publish` or `aliases`, `$LATEST` is published as a new version, unless the newest published
        version equals it already. After that, each alias in `aliases` names the newest published version; the other aliases of the function
        stay as they are."""
        checked_function(name)
        before = self._entries.get(name) or DeployedFunction(name=name, latest=None)
        latest = before.latest
        made = self._made(LATEST, config.checked(name), code)
        if latest is not None and latest.same_as(made) and latest.config.description == config.description:
            made = latest
        entry = msgspec.structs.replace(before, latest=made, tags=dict(tags))
        if publish or aliases:
            entry = self._with_published(entry)
            newest = str(max(map(int, entry.versions)))
            for alias in aliases:
                known = entry.aliases.get(self._checked_alias(alias))
                if known is None or known.version != newest:
                    fresh = Alias(name=alias, version=newest, description="" if known is None else known.description, revision=self._id())
                    entry = msgspec.structs.replace(entry, aliases={**entry.aliases, alias: fresh})
        if entry != before:
            self._keep(entry)
        return entry

    def sweep(self, running: Collection[str]) -> None:
        """Remove from disk all code that no version of any function uses. Code whose id is in `running` stays, because processes run it."""
        named = {version.code.id for entry in self._entries.values() for version in entry.everything()}
        self.keeper.sweep({*named, *running})

    # --- aliases

    def alias(self, name: str, alias: str) -> Alias:
        """GetAlias. Raises FunctionNotFound if there is no such function or no such alias."""
        found = self.needed(name).aliases.get(alias)
        if found is None:
            raise FunctionNotFound(f"Cannot find alias arn: {function_arn(name, alias)}")
        return found

    def create_alias(
        self, name: str, alias: str, version: str, *, description: str = "", weights: Mapping[str, float] | None = None
    ) -> Alias:
        """CreateAlias. Raises ResourceConflict if the alias exists. Raises FunctionNotFound if the function, `version` or a version in
        `weights` does not exist. Raises InvalidParameter if the name or the weights are not allowed."""
        entry = self.needed(name)
        if self._checked_alias(alias) in entry.aliases:
            raise ResourceConflict(f"Alias already exists: {function_arn(name, alias)}")
        return self._named(entry, Alias(name=alias, version=version, description=description, weights=weights or {}, revision=self._id()))

    def update_alias(
        self,
        name: str,
        alias: str,
        *,
        version: str | None = None,
        description: str | None = None,
        weights: Mapping[str, float] | None = None,
        revision: str | None = None,
    ) -> Alias:
        """UpdateAlias: of `version`, `description` and `weights`, those that are None stay as they are. Raises RevisionMismatch if
        `revision` is given and is not the alias's revision. Raises FunctionNotFound if the function, the alias or a version does not exist.
        Raises InvalidParameter if the weights are not allowed."""
        known = self.alias(name, alias)
        if revision is not None and revision != known.revision:
            raise RevisionMismatch(_CHANGED.format("GetAlias"))
        changed = Alias(
            name=alias,
            version=known.version if version is None else version,
            description=known.description if description is None else description,
            weights=known.weights if weights is None else weights,
            revision=self._id(),
        )
        return self._named(self.needed(name), changed)

    def delete_alias(self, name: str, alias: str) -> None:
        """DeleteAlias. Deleting an alias that does not exist succeeds. Raises FunctionNotFound if there is no such function."""
        entry = self.needed(name)
        if alias in entry.aliases:
            self._keep(msgspec.structs.replace(entry, aliases={key: one for key, one in entry.aliases.items() if key != alias}))

    def _named(self, entry: DeployedFunction, alias: Alias) -> Alias:
        for version in (alias.version, *alias.weights):
            if version != LATEST and version not in entry.versions:
                raise FunctionNotFound(f"Function not found: {function_arn(entry.name, version)}")
        if alias.weights:
            if LATEST in (alias.version, *alias.weights) or alias.version in alias.weights or len(alias.weights) > 1:
                raise InvalidParameter("RoutingConfig: an alias can have one other version; both versions must be published, and differ.")
            if not all(0 <= weight <= 1 for weight in alias.weights.values()):
                raise InvalidParameter("RoutingConfig: weights must be between 0 and 1.")
        self._keep(msgspec.structs.replace(entry, aliases={**entry.aliases, alias.name: alias}))
        return alias

    @staticmethod
    def _checked_alias(alias: str) -> str:
        if _ALIAS.fullmatch(alias) is None:
            raise InvalidParameter(f"Name: {alias!r:.200} cannot be an alias; use 1 to 128 letters, digits, '-' or '_', not only digits.")
        return alias

    # --- one change

    def _current(self, name: str, revision: str | None) -> tuple[DeployedFunction, Version]:
        entry = self.needed(name)
        assert entry.latest is not None
        if revision is not None and revision != entry.latest.revision:
            raise RevisionMismatch(_CHANGED.format("GetFunction"))
        return entry, entry.latest

    def _kept(self, entry: DeployedFunction, *, publish: bool = False, description: str | None = None) -> Version:
        assert entry.latest is not None
        if not publish:
            self._keep(entry)
            return entry.latest
        entry = self._with_published(entry, description)
        self._keep(entry)
        return entry.versions[str(max(map(int, entry.versions)))]

    def _with_published(self, entry: DeployedFunction, description: str | None = None) -> DeployedFunction:
        latest = entry.latest
        assert latest is not None
        newest = entry.versions.get(str(max(map(int, entry.versions), default=0)))
        if newest is not None and newest.same_as(latest):
            return entry
        number = str(entry.last + 1)
        config = latest.config if description is None else msgspec.structs.replace(latest.config, description=description)
        made = self._made(number, config, latest.code)
        return msgspec.structs.replace(entry, versions={**entry.versions, number: made}, last=entry.last + 1)

    def _made(self, version: str, config: Config, code: Code) -> Version:
        return Version(version=version, config=config, code=code, modified_at=self._clock.now(), revision=self._id())

    def _keep(self, entry: DeployedFunction) -> None:
        self.keeper.write(entry)
        self._entries = {**self._entries, entry.name: entry}

    def _id(self) -> str:
        return self._ids(self._clock.now())
