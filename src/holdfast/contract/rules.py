"""Rules: conditions on a JSON value. Gates, routes and `when=` use the same form. A rule raises no error for any JSON value.

| op | the rule holds if the value at the path |
|---|---|
| `equals`, `differs` | is (is not) the rule's value; 1 and 1.0 are equal, 1 and true are not |
| `less`, `at_most`, `more`, `at_least` | is less than, at most, more than, at least the rule's value; both are numbers, or both are texts |
| `in`, `not_in` | is (is not) an element of the rule's value, a list |
| `exists`, `missing` | is there, also as null; is not there |
| `matches` | is a text in which the rule's RE2 pattern is found |
| `length_at_least`, `length_at_most` | is a text, a list or an object with at least (at most) this length |

If there is no value at the path, every rule except `missing` is broken; the reason has the code `missing`, unless the rule has a code of
its own. A path with `[*]` means every element of a list: the rule holds if it holds for each element, and each element that breaks it gives
a reason of its own (`broken` returns at most MAX_REASONS). For an empty list the rule holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from holdfast.contract.equality import equal, identity
from holdfast.contract.paths import EACH, PathInvalid, ValuePath, path_of, text_of

Severity: TypeAlias = Literal["error", "warning"]
Operator: TypeAlias = Literal[
    "equals",
    "differs",
    "less",
    "at_most",
    "more",
    "at_least",
    "in",
    "not_in",
    "exists",
    "missing",
    "matches",
    "length_at_least",
    "length_at_most",
]
"""The operators of rules. The value of `matches` is an RE2 pattern."""

MAX_REASONS: Final = 100
"""`broken` returns at most this many reasons for one value."""
DEFAULT_CODE: Final = "rule_broken"
MISSING: Final = "missing"


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One condition on a JSON value. If the value breaks it, the reason has `code`, `message` and `severity`. An empty `message` is
    replaced by one that says what is wrong. If there is no value at the path and `code` is `rule_broken`, the code is `missing`."""

    path: str
    """The place in the value: `.field`, `[0]`, `[*].field`; empty for the value itself."""
    op: Operator
    value: Any = None
    code: str = "rule_broken"
    message: str = ""
    severity: Severity = "error"


RULE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path", "op"],
    "properties": {
        "path": {"type": "string"},
        "op": {"enum": list(get_args(Operator))},
        "value": True,
        "code": {"type": "string"},
        "message": {"type": "string"},
        "severity": {"enum": list(get_args(Severity))},
    },
}
"""The JSON Schema of a rule."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a value breaks a rule or a gate."""

    code: str
    path: str = ""
    """The place in the value: `.offers[3].price`."""
    message: str = ""
    severity: Severity = "error"


def broken(rules: Sequence[Rule], value: Any) -> list[Reason]:
    """The reasons why a value breaks the rules, errors and warnings, in the order of the rules; at most MAX_REASONS. Empty if all rules
    hold. Warnings never hide that an error exists: if the first MAX_REASONS are all warnings, the first error replaces the last of them."""
    reasons: list[Reason] = []
    has_error = False
    for rule in rules:
        is_error = rule.severity == "error"
        if len(reasons) == MAX_REASONS and (has_error or not is_error):
            continue
        for reason in _broken(rule, value):
            if len(reasons) == MAX_REASONS:
                if is_error and not has_error:
                    reasons[-1], has_error = reason, True
                break
            reasons.append(reason)
            has_error |= is_error
    return reasons


def holds(rules: Sequence[Rule], value: Any) -> bool:
    """Whether a value breaks no rule of severity `error`. Broken rules of severity `warning` are ignored."""
    return not any(reason.severity == "error" for rule in rules for reason in _broken(rule, value))


def flaw_of(rule: Rule) -> str | None:
    """What is wrong with a rule, as a sentence: its path, or a value that does not fit its operator. None if the rule is valid."""
    try:
        path_of(rule.path)
    except PathInvalid as wrong:
        return str(wrong)
    match rule.op:
        case "matches":
            return _pattern_flaw(rule.value)
        case "in" | "not_in":
            if not isinstance(rule.value, list | tuple):
                return f"`{rule.op}` needs a list as its value."
        case "less" | "at_most" | "more" | "at_least":
            if not _is_number(rule.value) and not isinstance(rule.value, str):
                return f"`{rule.op}` needs a number or a text as its value."
        case "length_at_least" | "length_at_most":
            if not _is_number(rule.value):
                return f"`{rule.op}` needs a number as its value."
        case _:
            pass
    return None


def _pattern_flaw(value: Any) -> str | None:
    from holdfast.contract.patterns import MAX_CHARACTERS, matcher  # loaded with the first pattern: most files of pipelines have none

    if not isinstance(value, str):
        return "`matches` needs a pattern, a text, as its value."
    return None if matcher(value) else f"{value!r:.80} is not an RE2 pattern of at most {MAX_CHARACTERS} characters."


class _Nothing:
    """The type of `_NOTHING`, which stands for the value at a path where there is no value."""


_NOTHING: Final = _Nothing()


class _Reached(NamedTuple):
    value: Any
    path: ValuePath


def _broken(rule: Rule, value: Any) -> Iterator[Reason]:
    try:
        path = path_of(rule.path)
    except PathInvalid as wrong:
        yield Reason(code=rule.code, message=str(wrong), severity=rule.severity)
        return
    fits = _question(rule)
    for reached in _places(value, path):
        if rule.op == "missing":
            if not isinstance(reached.value, _Nothing):
                yield _reason(rule, rule.code, reached.path, "must not be there.")
        elif isinstance(reached.value, _Nothing):
            yield _reason(rule, MISSING if rule.code == DEFAULT_CODE else rule.code, reached.path, "is missing.")
        elif not fits(reached.value):
            yield _reason(rule, rule.code, reached.path, f"must {_DEMANDS[rule.op]}{_shown(rule)}.")


def _reason(rule: Rule, code: str, path: ValuePath, told: str) -> Reason:
    where = text_of(path)
    return Reason(code=code, path=where, message=rule.message or f"{where or 'The value'} {told}", severity=rule.severity)


def _shown(rule: Rule) -> str:
    return "" if rule.op == "exists" else f" {rule.value!r:.80}"


def _places(value: Any, path: ValuePath) -> Iterator[_Reached]:
    """Every place that a path names, in order; a place that is not there has the value `_NOTHING`."""
    waiting = [(value, 0, ())]  # type: list[tuple[Any, int, ValuePath]]
    while waiting:
        found, at, done = waiting.pop()
        while at < len(path) and path[at] != EACH:
            found = _inside(found, path[at])
            done = (*done, path[at])
            at += 1
            if isinstance(found, _Nothing):
                break
        if at == len(path) or isinstance(found, _Nothing):
            yield _Reached(found, done)
        elif isinstance(found, list):
            waiting.extend((element, at + 1, (*done, index)) for index, element in reversed(list(enumerate(found))))
        else:
            yield _Reached(_NOTHING, (*done, EACH))


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(part, str):
        return value.get(part, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value[part] if isinstance(value, list) and part < len(value) else _NOTHING


# --- one question for each operator -----------------------------------------------------------------------------------------------


def _question(rule: Rule) -> Callable[[Any], bool]:
    """A function that says whether a value fits the rule. The list of `in` and `not_in` is prepared once, for all values."""
    if rule.op in ("in", "not_in"):
        options = frozenset(map(identity, rule.value)) if isinstance(rule.value, list | tuple) else None
        return lambda value: options is not None and (identity(value) in options) == (rule.op == "in")
    ask = _OPERATORS[rule.op]
    return lambda value: ask(value, rule.value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ask(value: Any, limit: Any) -> bool:
        comparable = (_is_number(value) and _is_number(limit)) or (isinstance(value, str) and isinstance(limit, str))
        return comparable and compare(value, limit)

    return ask


def _of_length(compare: Callable[[int, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, limit: isinstance(value, str | list | dict) and _is_number(limit) and compare(len(value), limit)


def _matches(value: Any, pattern: Any) -> bool:
    from holdfast.contract.patterns import matcher  # loaded with the first pattern

    found = matcher(pattern) if isinstance(pattern, str) and isinstance(value, str) else None
    try:
        return found is not None and found.search(value) is not None
    except UnicodeError:  # a lone surrogate: Python's json reads one
        return False


_OPERATORS: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    "equals": equal,
    "differs": lambda value, other: not equal(value, other),
    "less": _ordered(lambda value, limit: value < limit),
    "at_most": _ordered(lambda value, limit: value <= limit),
    "more": _ordered(lambda value, limit: value > limit),
    "at_least": _ordered(lambda value, limit: value >= limit),
    "exists": lambda value, _: True,
    "missing": lambda value, _: False,
    "matches": _matches,
    "length_at_least": _of_length(lambda length, limit: length >= limit),
    "length_at_most": _of_length(lambda length, limit: length <= limit),
}
_DEMANDS: Final[Mapping[Operator, str]] = {
    "equals": "be",
    "differs": "not be",
    "less": "be less than",
    "at_most": "be at most",
    "more": "be more than",
    "at_least": "be at least",
    "in": "be one of",
    "not_in": "be none of",
    "exists": "be there",
    "missing": "not be there",
    "matches": "match",
    "length_at_least": "have a length of at least",
    "length_at_most": "have a length of at most",
}
