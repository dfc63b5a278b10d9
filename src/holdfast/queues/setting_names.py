"""What an operator sets for a queue. Converts names and values from the command line and from HTTP to members of the stored settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.model.errors import InvalidParameter
from holdfast.queues.declarations import seconds_of

_LEVELS: Final = {"": "limits", "per_tenant": "per_tenant", "per_key": "per_key"}
MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    **{f"{said}.{limit}" if said else limit: (level, limit) for said, level in _LEVELS.items() for limit in ("at_once", "rates")},
    "waiting": ("waiting",),
    "ordered": ("ordered",),
    "most_waiting": ("most_waiting",),
    "most_waiting_usd": ("most_waiting_usd",),
    "oldest": ("oldest_seconds",),
    "ttl": ("ttl_seconds",),
    "parks": ("parks",),
}
"""The names of all settings, each with its path in the stored settings."""
_WHOLE: Final = frozenset({"at_once", "most_waiting"})
_TRUTHS: Final = {"true": True, "yes": True, "false": False, "no": False}


def read_assignment(text: str) -> tuple[str, Any]:
    """A name and a value from `NAME=VALUE`, as people write it on the command line. The value `none` removes a limit. Raises
    InvalidParameter if there is no `=`, if the name is unknown, or if a number or a boolean is wrong. Other values are checked later."""
    name, equals, said = text.partition("=")
    name, said = name.strip(), said.strip()
    if not equals:
        raise InvalidParameter(f"{text!r:.100} is not NAME=VALUE. Names are {', '.join(MEMBERS)}.")
    _place(name)
    last = name.rpartition(".")[2]
    if said.lower() == "none":
        return name, [] if last == "rates" else None
    if last == "rates":
        return name, [part.strip() for part in said.split(",") if part.strip()]
    if last in ("ordered", "parks"):
        if said.lower() not in _TRUTHS:
            raise InvalidParameter(f"{name} is {said!r:.50}; write true or false.")
        return name, _TRUTHS[said.lower()]
    if last == "most_waiting_usd":
        try:
            return name, float(said)
        except ValueError:
            raise InvalidParameter(f"{name} is {said!r:.50}; write dollars as a number, such as 12.5, or none for no limit.") from None
    if last in _WHOLE and not (said.isascii() and said.isdigit()):
        raise InvalidParameter(f"{name} is {said!r:.50}; write a whole number, or none for no limit.")
    return name, int(said) if (last in _WHOLE or last in ("oldest", "ttl")) and said.isascii() and said.isdigit() else said


def flattened(document: Mapping[str, Any]) -> dict[str, Any]:
    """Names and values from a JSON object, in which `per_tenant` and `per_key` may be objects: `{"per_key": {"at_once": 1}}` becomes
    `{"per_key.at_once": 1}`. Raises InvalidParameter for an unknown name."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name in ("per_tenant", "per_key") and isinstance(value, Mapping):
            found |= {f"{name}.{limit}": each for limit, each in value.items()}
        else:
            found[name] = value
    for name in found:
        _place(name)
    return found


def changed(operator: Mapping[str, Any], said: Mapping[str, Any], reset: Sequence[str] = ()) -> dict[str, Any]:
    """The operator's stored settings after these changes. `said` has new values by name. A name in `reset` is removed, so that the declared
    value is in force again. Raises InvalidParameter for an unknown name or a wrong duration."""
    after = {name: dict(value) if isinstance(value, Mapping) else value for name, value in operator.items()}
    for name, value in said.items():
        place = _place(name)
        meant = (
            seconds_of(value, name) if name in ("oldest", "ttl") else [value] if place[-1] == "rates" and isinstance(value, str) else value
        )
        if len(place) == 1:
            after[place[0]] = meant
        else:
            after.setdefault(place[0], {})[place[1]] = [] if place[1] == "rates" and meant is None else meant
    for name in reset:
        place = _place(name)
        if len(place) == 1:
            after.pop(place[0], None)
        elif place[0] in after:
            after[place[0]].pop(place[1], None)
            if not after[place[0]]:
                del after[place[0]]
    return after


def setting_at(document: Mapping[str, Any], name: str) -> Any:
    """The value of a setting in stored settings; Python's Ellipsis (`...`) if they do not have it. Raises InvalidParameter for an unknown
    name."""
    found: Any = document
    for part in _place(name):
        if not isinstance(found, Mapping) or part not in found:
            return ...
        found = found[part]
    return found


def _place(name: str) -> tuple[str, ...]:
    place = MEMBERS.get(name)
    if place is None:
        raise InvalidParameter(f"{name!r:.100} is not a setting of a queue. There are {', '.join(MEMBERS)}.")
    return place
