"""Reads the constraints of a page from its spec and from its JSON, compares them, and makes limits of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from holdfast.contract.jsonblocks import JsonBlock
from holdfast.contract.notes import PageNotes, meant, shown
from holdfast.contract.page import CONSTRAINTS
from holdfast.contract.spec import BOUNDS, GROUPS, Given
from holdfast.contract.terms import BUILT_IN_TOOLS, RateLimit, Retries, RunLimits, ToolGrant
from holdfast.contract.words import rate_of, unquoted, value_of, without_comment, without_optional
from holdfast.model.durations import parsed
from holdfast.model.schedule_errors import ScheduleInvalid

_YEAR = 366 * 86_400
_MOST = 2**53
_BACKOFFS = ("exponential", "linear", "fixed", "none")
_LONGEST_SCHEDULE = 200
_TOOL = re.compile(r"[A-Za-z_][\w.-]{0,127}")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(
    rf"(?=.{{1,259}}$)(?:(?:\*\.)?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::[1-9][0-9]{{0,4}})?|[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*"
)


class Bounds(msgspec.Struct, frozen=True):
    """The constraints of a page, read and checked. `has_timeout`: whether the page gives a `timeout_seconds`. The other fields are those of
    the Contract."""

    limits: RunLimits
    egress: tuple[str, ...] | None
    approvals_required: tuple[str, ...]
    retries: Retries
    rate_limit: RateLimit | None
    schedule: str | None
    has_timeout: bool


class _Wrong(Exception):
    """A value is not accepted. The text of this error says why, as the second half of a sentence that begins with the name of the value."""


class _Read(NamedTuple):
    value: Any
    given: Given


def bounds_of(groups: Mapping[str, dict[str, Given]], block: JsonBlock | None, tools: Collection[str], notes: PageNotes) -> Bounds:
    """The constraints of the spec and of the JSON together. An error is noted for each value that is not valid, and for each constraint to
    which the spec and the JSON give different values (the result then has the value of the JSON). `groups` has the values of the spec,
    under `constraints` and `retries`; `block` is the JSON, or None if the page has none. `tools` are the names of known tools that are not
    built in."""
    own, other = _given(block, notes)
    read = _agreed(_decoded(groups["constraints"], notes), _decoded(own, notes), notes)
    retries = _agreed(_decoded(groups["retries"], notes), _decoded(other, notes), notes)
    values = {key: one.value for key, one in read.items()}
    _compare_tools(read, tools, notes)
    if "rate_limit" in read and values["rate_limit"].was_example:
        rate, given = values["rate_limit"], read["rate_limit"].given
        holds = f"{rate.count} runs in {rate.per_seconds:g} s for each {rate.per}"
        told = f"The rate is only an example, and is enforced as {holds}. Write the rate you mean: `10/min per tenant`."
        notes.warning("rate_limit_example", given.section, given.line, told)
    named = {key: values[key] for key in RunLimits.__struct_fields__ if key in values}
    return Bounds(
        RunLimits(**named, tools=values.get("tools_allowed", ())),
        values.get("egress"),
        values.get("approvals_required", ()),
        Retries(**{key: one.value for key, one in retries.items()}),
        values.get("rate_limit"),
        values.get("schedule"),
        "timeout_seconds" in read,
    )


def _given(block: JsonBlock | None, notes: PageNotes) -> tuple[dict[str, Given], dict[str, Given]]:
    """The values of the Constraints JSON by their keys, and the values of the object `retries` inside it by their keys. Unknown keys are
    noted as problems."""
    own: dict[str, Given] = {}
    retries: dict[str, Given] = {}
    if block is None:
        return own, retries
    if not isinstance(block.value, dict):
        notes.error(
            "constraints_invalid", CONSTRAINTS, block.line, 'The constraints are not a JSON object. Write {"timeout_seconds": 60, …}.'
        )
        return own, retries
    for key, value in block.value.items():
        line = block.at(key)
        if key == "retries" and isinstance(value, dict):
            for name, one in value.items():
                at = block.at("retries", name)
                if _known(name, GROUPS["retries"], "`retries`", at, notes) and one is not None:
                    retries[name] = Given(one, at, CONSTRAINTS)
        elif key == "retries":
            notes.error("bad_value", CONSTRAINTS, line, '`retries` must be an object: {"max_attempts": 2, "backoff": "exponential"}.')
        elif _known(key, BOUNDS, "the constraints", line, notes) and value is not None:
            own[key] = Given(value, line, CONSTRAINTS)
    return own, retries


def _known(key: str, known: Collection[str], where: str, line: int, notes: PageNotes) -> bool:
    if key in known:
        return True
    told = f"`{shown(key)}` is not a field of {where}, and is ignored.{meant(key, (*known, 'retries'))}"
    notes.warning("unknown_field", CONSTRAINTS, line, told)
    return False


def _decoded(given: Mapping[str, Given], notes: PageNotes) -> dict[str, _Read]:
    read: dict[str, _Read] = {}
    for key, one in given.items():
        if key not in _DECODERS or (one.value is None and not one.items and key not in _EMPTY):
            continue
        try:
            read[key] = _Read(_DECODERS[key](one), one)
        except _Wrong as wrong:
            notes.error("bad_value", one.section, one.line, f"`{key}` {wrong}")
    return read


def _agreed(spec: dict[str, _Read], own: dict[str, _Read], notes: PageNotes) -> dict[str, _Read]:
    for key in spec.keys() & own.keys():
        here, there = spec[key], own[key]
        if _comparable(here.value) != _comparable(there.value):
            told = (
                f"`{key}`: the spec says {shown(_told(here))} ({here.given.section}, line {here.given.line}), the constraints say "
                f"{shown(_told(there))} ({there.given.section}, line {there.given.line}). Make them say the same."
            )
            notes.error("spec_and_constraints_differ", there.given.section, there.given.line, told)
    return {**spec, **own}


def _comparable(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, tuple) else value


def _told(read: _Read) -> str:
    if isinstance(read.value, tuple):
        words = (f"{one.name}{' (optional)' * one.optional}" if isinstance(one, ToolGrant) else str(one) for one in read.value)
        return f"[{', '.join(words)}]"
    return str(read.given.value if read.given.value is not None else read.value)


def _compare_tools(read: Mapping[str, _Read], tools: Collection[str], notes: PageNotes) -> None:
    """Warn about names of unknown tools, and about approvals and quotas for tools that the worker may not use."""
    known = BUILT_IN_TOOLS | set(tools)
    allowed = read.get("tools_allowed")
    names = [tool.name for tool in allowed.value] if allowed else []
    for name in names:
        if allowed and name not in known:
            hint = meant(name, known)
            told = f"`{shown(name)}` is not a built-in tool, so the worker's file must provide it with `@tool`.{hint}"
            notes.warning("unknown_tool", allowed.given.section, allowed.given.line, told)
    for key in ("approvals_required", "tool_quotas"):
        for name in read[key].value if key in read else ():
            if name not in names:
                told = f"`{key}` names `{shown(name)}`, which `tools_allowed` does not allow.{meant(name, names)}"
                notes.warning("unknown_tool", read[key].given.section, read[key].given.line, told)


# --- one decoder for each kind of value; a _Wrong has the end of a sentence that begins with the key ------------------------------


def _number(given: Given) -> int | float:
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        digits = re.match(r"\d+(\.\d+)?", str(value))
        raise _Wrong(f"is `{shown(value)}`. Write a number without unit or quotes{f', such as {digits.group()}' if digits else ''}.")
    return value


def _seconds(given: Given) -> float:
    value = _number(given)
    if not 0 < value <= _YEAR:
        raise _Wrong(f"is {shown(value)}. Write a number of seconds above 0 and up to {_YEAR} (a year).")
    return value


def _count(given: Given) -> int:
    value = _number(given)
    if value != int(value) or not 0 <= value <= _MOST:
        raise _Wrong(f"is {shown(value)}. Write a whole number from 0 to {_MOST}.")
    return int(value)


def _positive(given: Given) -> int:
    if (value := _count(given)) < 1:
        raise _Wrong(f"is 0. Write a whole number from 1 to {_MOST}.")
    return value


def _cost(given: Given) -> Decimal:
    value = _number(given)
    if not 0 <= value <= _MOST:
        raise _Wrong(
            f"is {shown(value)}, which is {'negative' if value < 0 else 'too large'}. "
            f"Write an amount in US dollars from 0 to {_MOST}, such as 0.05."
        )
    return Decimal(str(value))


def _flag(given: Given) -> bool:
    if not isinstance(given.value, bool):
        raise _Wrong(f"is `{shown(given.value)}`. Write true or false.")
    return given.value


def _texts(given: Given) -> Iterator[str]:
    if given.value is None:
        yield from (unquoted(without_comment(str(item.value))) for item in given.items)
    elif isinstance(given.value, list) and all(isinstance(item, str) for item in given.value):
        yield from given.value
    else:
        raise _Wrong(f"is `{shown(given.value)}`. Write a list of names, [a, b].")


def _grants(given: Given) -> tuple[ToolGrant, ...]:
    grants: dict[str, ToolGrant] = {}
    for text in _texts(given):
        name, optional = without_optional(text)
        _check_tool(name, text)
        grants.setdefault(name, ToolGrant(name, optional))
    return tuple(grants.values())


def _check_tool(name: str, text: str) -> None:
    """Raise _Wrong if a tool cannot have this name. `text` is what the page says."""
    if not _TOOL.fullmatch(name):
        raise _Wrong(
            f"contains `{shown(text)}`, which is not a valid name of a tool. "
            "Use at most 128 letters, digits, _ . or -, and begin with a letter or _."
        )


def _tool_names(given: Given) -> tuple[str, ...]:
    return tuple(grant.name for grant in _grants(given))


def _quotas(given: Given) -> dict[str, int]:
    pairs: dict[str, Any] = {}
    if isinstance(given.value, dict):
        pairs = given.value
    elif given.value is None:
        for item in given.items:
            name, colon, count = str(item.value).partition(":")
            pairs[unquoted(name)] = value_of(count) if colon else None
    else:
        raise _Wrong(f"is `{shown(given.value)}`. Write a number for each tool, {{fetch_url: 5}}.")
    for name in pairs:
        _check_tool(name, name)
    try:
        return {name: _count(Given(count, given.line)) for name, count in pairs.items()}
    except _Wrong as wrong:
        raise _Wrong(f"contains a number that {wrong}") from None


def _domains(given: Given) -> tuple[str, ...]:
    domains = [text.strip().lower().rstrip(".") for text in _texts(given)]
    for domain in domains:
        if not _DOMAIN.fullmatch(domain):
            raise _Wrong(
                f"contains `{shown(domain)}`. Write domains, `shop.example` or `*.shop.example`, perhaps with a port: no scheme, no path."
            )
    return tuple(dict.fromkeys(domains))


def _rate(given: Given) -> RateLimit:
    rate = rate_of(given.value) if isinstance(given.value, str) else None
    if rate is None:
        raise _Wrong(f"is `{shown(given.value)}`, and no rate can be read from it. Write `10/min per tenant`, or leave it out.")
    return rate


def _schedule(given: Given) -> str:
    """The schedule that a value names, with its words separated by single spaces. It is a cron expression, with or without a time zone
    after it, or `every` and an interval. Raises _Wrong if the value is not a valid schedule."""
    from holdfast.model.schedule_times import Timing, checked  # only a page with a schedule needs it

    words = given.value.split() if isinstance(given.value, str) and len(given.value) <= _LONGEST_SCHEDULE else []
    every = parsed(words[1]) if len(words) == 2 and words[0] == "every" else None
    try:
        if every is not None:
            checked(Timing(every=every))
        elif len(words) in (5, 6):
            checked(Timing(cron=" ".join(words[:5]), zone=words[5] if len(words) == 6 else "UTC"))
        else:
            raise _Wrong(f"is `{shown(given.value)}`. Write `0 2 * * * Europe/Berlin` for 02:00 of every day there, or `every 15m`.")
    except ScheduleInvalid as invalid:
        raise _Wrong(f"is not a valid schedule. {invalid}") from None
    return " ".join(words)


def _backoff(given: Given) -> str:
    if given.value not in _BACKOFFS:
        raise _Wrong(f"is `{shown(given.value)}`. Write one of {', '.join(_BACKOFFS)}.{meant(str(given.value), _BACKOFFS)}")
    return str(given.value)


_EMPTY = ("tools_allowed", "egress", "approvals_required")  # an empty value means an empty list, which is not the same as no value
_DECODERS: Mapping[str, Callable[[Given], Any]] = {
    "timeout_seconds": _seconds,
    "run_timeout_seconds": _seconds,
    "idle_timeout_seconds": _seconds,
    "max_tokens": _count,
    "max_cost_usd": _cost,
    "max_tool_calls": _count,
    "tool_quotas": _quotas,
    "max_cpu_seconds": _seconds,
    "max_memory_mb": _positive,
    "allow_subprocess": _flag,
    "tools_allowed": _grants,
    "egress": _domains,
    "approvals_required": _tool_names,
    "rate_limit": _rate,
    "schedule": _schedule,
    "max_attempts": _positive,
    "backoff": _backoff,
    "initial_delay_seconds": _seconds,
    "max_delay_seconds": _seconds,
}
