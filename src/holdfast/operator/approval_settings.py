"""Reads settings about approvals from `holdfast.toml`: the groups of persons ([groups]), what each risk demands ([risks.high]), and the
address with which links to approvals begin (policy.link_base)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

import msgspec

from holdfast.model import json_structs
from holdfast.model.errors import InvalidParameter
from holdfast.workers.demands import MOST_VOTES
from holdfast.workers.policy import Policy, Risk, RiskRule

_MOST_GROUPS: Final = 1000
_MOST_MEMBERS: Final = 1000
_LONGEST: Final = 256


def with_people(policy: Policy, told: Mapping[str, Any], path: Path) -> Policy:
    """The policy, in which the groups and risks are those of a file, and no others. `told` is the content of the file, and `path` its path.
    Raises InvalidParameter if the groups, the risks or the policy's link_base are wrong."""
    if policy.link_base is not None:
        _check_base(policy.link_base, path)
    groups = _groups(told.get("groups", {}), path)
    return msgspec.structs.replace(policy, groups=groups, risks=_risks(told.get("risks", {}), groups, path))


def _check_base(base: str, path: Path) -> None:
    """Raise InvalidParameter if links cannot begin with this address. It must be http or https and have a host. It must not have a user
    name, a password, a wrong port, `?`, `#`, a space or a character that cannot be printed. `path` is the file's path, for the message."""
    try:
        parts = urlsplit(base)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not (parts.username or parts.password)
    except ValueError:
        fits = False
    if not fits or "?" in base or "#" in base or not base.isprintable() or " " in base:
        raise InvalidParameter(
            f"{path}: policy.link_base is {base!r:.100}; write the address of the server, with http or https, and without a user name, "
            "`?` and `#`: https://holdfast.example."
        )


def _groups(told: Any, path: Path) -> dict[str, tuple[str, ...]]:
    try:
        groups = json_structs.converted(told, dict[str, tuple[str, ...]])
    except msgspec.ValidationError as error:
        raise InvalidParameter(f'{path}: [groups] is wrong: {error}. Write a list of persons for each group: leads = ["ann"].') from None
    if len(groups) > _MOST_GROUPS:
        raise InvalidParameter(f"{path}: [groups] has {len(groups)} groups; at most {_MOST_GROUPS:,} are allowed.")
    for name, members in groups.items():
        if not members or len(members) > _MOST_MEMBERS:
            raise InvalidParameter(f"{path}: the group {name!r:.80} has {len(members)} members; it may have 1 to {_MOST_MEMBERS:,}.")
        for text in (name, *members):
            if not text or len(text) > _LONGEST or not text.isprintable():
                raise InvalidParameter(
                    f"{path}: [groups] has the name {text!r:.80}; the name of a group or a person has 1 to {_LONGEST} printable characters."
                )
        inner = next((member for member in members if member in groups), None)
        if inner is not None:
            raise InvalidParameter(f"{path}: the group {name!r} has the member {inner!r}, which is a group. Name its persons instead.")
    return groups


def _risks(told: Any, groups: Mapping[str, tuple[str, ...]], path: Path) -> dict[Risk, RiskRule]:
    found: dict[Risk, RiskRule] = {}
    known: dict[str, Risk] = {risk: risk for risk in get_args(Risk)}
    for name, table in told.items() if isinstance(told, dict) else [("", told)]:
        if name not in known:
            raise InvalidParameter(f"{path}: [risks] has {name!r:.80}; it may have {', '.join(known)}, each as a table: [risks.high].")
        unknown = [key for key in table if key not in RiskRule.__struct_fields__] if isinstance(table, dict) else []
        if unknown:
            raise InvalidParameter(
                f"{path}: [risks.{name}] has {', '.join(unknown)}, which Holdfast does not know; "
                f"it may have {', '.join(RiskRule.__struct_fields__)}."
            )
        try:
            rule = json_structs.converted(table, RiskRule)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"{path}: risks.{name} is wrong: {error}.") from None
        if not 1 <= rule.votes <= MOST_VOTES:
            raise InvalidParameter(f"{path}: risks.{name}.votes is {rule.votes}; it must be at least 1 and at most {MOST_VOTES}.")
        if rule.group is not None and rule.group not in groups:
            raise InvalidParameter(
                f"{path}: risks.{name}.group is {rule.group!r:.80}, and [groups] has no such group. Add it there, or name another group."
            )
        found[known[name]] = rule
    return found
