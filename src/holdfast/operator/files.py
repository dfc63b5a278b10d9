"""Which holdfast.toml is the operator's, and which settings of ./holdfast.toml apply if the current folder is not trusted.

    named by --config or $HOLDFAST_CONFIG      the operator's; no other file is read
    ./holdfast.toml of a trusted folder        the operator's
    holdfast.toml of the user's configuration  the operator's, if neither of those exists
    ./holdfast.toml of any other folder        may tighten the operator's settings; its other settings are ignored, and a message lists them

A downloaded folder may contain a holdfast.toml. Without this rule, that file could switch the jail off for a command in the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.operator.holdfast_toml import FILE, isolated, load_toml, settings_of
from holdfast.operator.trust import check_fit, configuration_folder
from holdfast.operator.untrusted_settings import tightened
from holdfast.service.runtimes.worker_runtime import WorkerSettings


class OperatorFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that were read from the operator's file and from the holdfast.toml of the current folder. Which of the latter apply is
    decided later: that depends on whether the folder is trusted."""

    base: WorkerSettings
    """The settings of the operator's file (`file`); the defaults if it does not exist."""
    file: Path
    """The path of the file that was named, or else of the holdfast.toml in the user's configuration, which need not exist."""
    local: Path | None = None
    """./holdfast.toml; None if there is none, or if another file was named."""
    whole: WorkerSettings | None = None
    """The settings that apply if the current folder is trusted: those of ./holdfast.toml. None if `local` is None."""
    tight: WorkerSettings | None = None
    """The settings that apply if the current folder is not trusted: `base`, made stricter by ./holdfast.toml. None if `local` is None."""
    ignored: tuple[str, ...] = ()
    """The names of the settings in the folder's file that apply only if the folder is trusted."""

    def settings(self, *, trusted: bool, isolation: str | None) -> WorkerSettings:
        """The settings that apply. `trusted` says whether the current folder is trusted; `isolation`, if it is given, replaces that of the
        files."""
        if self.local is None:
            return isolated(self.base, isolation)
        found = self.whole if trusted else self.tight
        assert found is not None
        return isolated(found, isolation)


def operator_files(config: Path | None, environment: Mapping[str, str] = os.environ) -> OperatorFiles:
    """Read the files. `config` is the file that --config names, or None. Raises InvalidParameter if a named file does not exist. Raises
    InvalidParameter or ScheduleInvalid if a file that was read is not valid, also in a folder that is not trusted. Raises TrustRefused if
    another user could change the file in the user's configuration."""
    named = config or (Path(environment["HOLDFAST_CONFIG"]) if environment.get("HOLDFAST_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise InvalidParameter(f"There is no file {named}.")
        return OperatorFiles(base=settings_of(load_toml(named), named, environment), file=named)
    users = configuration_folder(environment) / FILE
    said: dict[str, Any] = {}
    if users.is_file():
        check_fit(users.parent, [users])
        said = load_toml(users)
    base = settings_of(said, users, environment)
    local = Path(FILE)
    if not local.is_file():
        return OperatorFiles(base=base, file=users)
    told = load_toml(local)
    whole = settings_of(told, local, environment)
    tight, ignored = tightened(base, whole, told)
    return OperatorFiles(base=base, file=users, local=local, whole=whole, tight=tight, ignored=tuple(ignored))
