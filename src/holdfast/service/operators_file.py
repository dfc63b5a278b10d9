"""Which holdfast.toml is the operator's, and what the one of the current folder may say where that folder is not trusted.

    named by --config or $HOLDFAST_CONFIG      the operator's; no other file is read
    ./holdfast.toml of a trusted folder        the operator's
    holdfast.toml of the user's configuration  the operator's, where neither of those is there
    ./holdfast.toml of any other folder        tightens what the operator's says, and its other settings are ignored and named

A folder that a stranger wrote may have a holdfast.toml in it: without this rule, entering the folder would turn the jail off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.service.operator import FILE, isolated, load_toml, settings_of
from holdfast.service.tightening import tightened
from holdfast.service.trust import check_fit, configuration_folder
from holdfast.service.worker_runtime import WorkerSettings


class OperatorsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files that could speak for the operator."""

    base: WorkerSettings
    """What the operator's own file says, or the defaults."""
    file: Path
    """The operator's own file, or where the user would write one."""
    local: Path | None = None
    """The file of the current folder, where it could apply."""
    whole: WorkerSettings | None = None
    """What the file of the current folder says, if it is the operator's."""
    tight: WorkerSettings | None = None
    """The operator's settings with what the file of the current folder may say in any case."""
    ignored: tuple[str, ...] = ()
    """The settings of that file that apply only where the folder is trusted."""

    def settings(self, *, trusted: bool, isolation: str | None) -> WorkerSettings:
        """What applies."""
        if self.local is None:
            return isolated(self.base, isolation)
        found = self.whole if trusted else self.tight
        assert found is not None
        return isolated(found, isolation)


def operators_files(config: Path | None, environment: Mapping[str, str] = os.environ) -> OperatorsFiles:
    """Read them. A file that was named must be there, and one that is wrong is an error, trusted or not."""
    named = config or (Path(environment["HOLDFAST_CONFIG"]) if environment.get("HOLDFAST_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise InvalidParameter(f"There is no file {named}.")
        return OperatorsFiles(base=settings_of(load_toml(named), named, environment), file=named)
    users = configuration_folder(environment) / FILE
    said: dict[str, Any] = {}
    if users.is_file():
        check_fit(users.parent, [users])
        said = load_toml(users)
    base = settings_of(said, users, environment)
    local = Path(FILE)
    if not local.is_file():
        return OperatorsFiles(base=base, file=users)
    told = load_toml(local)
    whole = settings_of(told, local, environment)
    tight, ignored = tightened(base, whole, told)
    return OperatorsFiles(base=base, file=users, local=local, whole=whole, tight=tight, ignored=tuple(ignored))
