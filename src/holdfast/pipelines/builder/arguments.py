"""The arguments that several verbs of a Pipeline share: each function turns the form that authors write into the fields of a node. A wrong
form is refused with PipelineInvalid."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypedDict

import msgspec

from holdfast.model import json_structs
from holdfast.pipelines.builder.expressions import Condition, Expression, constant_of, template_of
from holdfast.pipelines.builder.handles import Handle
from holdfast.pipelines.graph.durations import seconds_of
from holdfast.pipelines.graph.graph import After, Caps, FailureAction, MergePart, Rule, Template, Then, Undo, When
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import THIS

_ACTIONS: Final = ("fail", "skip", "escalate")
_PERCENT: Final = re.compile(r"(100|[1-9]?[0-9])%", re.ASCII)


class Common(TypedDict, total=False):
    """The arguments that every node accepts by name.

    `after`: a node, `route.to("label")`, or a list of them; they must end before this node begins. The node is skipped if a gate or a
    person among them refuses, or if the route chose another label · `when`: a condition (`ref.equals(…)`), or a list of conditions; the
    node is skipped if one does not hold · `on_failure`: what happens if the node fails: `fail` (the run fails), `skip` (the run continues
    without the node's result) or `escalate` (a person decides); or a dict from error codes to these, with `*` for all other codes ·
    `timeout` (`"10m"`), `max_tokens`, `max_cost_usd`: limits of this node.
    """

    after: Any
    when: Any
    on_failure: str | Mapping[str, str] | None
    timeout: str | None
    max_tokens: int | None
    max_cost_usd: Decimal | float | str | None


_COMMON: Final = tuple(Common.__annotations__)


def common_of(name: Any, given: Common) -> dict[str, Any]:
    """The name of a new node, and the arguments that every node accepts, as fields of the node."""
    if not isinstance(name, str):
        raise PipelineInvalid(f"The name of a node is {name!r:.80}; it must be a text, and the first argument.")
    for key in given:
        if key not in _COMMON:
            near = difflib.get_close_matches(key, _COMMON, 1)
            raise PipelineInvalid(
                f"{key}= is unknown here.{f' Did you mean {near[0]}=?' if near else ''} "
                "In addition to its own arguments, every node accepts after=, when=, on_failure=, timeout=, max_tokens= and max_cost_usd=."
            )
    return {
        "name": name,
        "after": after_of(given.get("after", ())),
        "when": when_of(given.get("when")),
        "on_failure": failure_of(given.get("on_failure")),
        "caps": caps_of(given.get("timeout"), given.get("max_tokens"), given.get("max_cost_usd")),
    }


def safety_of(fallback: Any, undo: Any, this: str | None = None) -> dict[str, Any]:
    """`fallback=` and `undo=` as fields of a node. `this` is the name of the node: in the inputs of the undo, references to `p.this` become
    references to this node. If `this` is None, they stay."""
    return {"fallback": texts_of(fallback, "fallback="), "undo": undo_of(undo, this)}


def name_of(node: Any, what: str) -> str:
    """The name of a node that the author gave as its handle, or as its name. `what` is the beginning of the error's sentence."""
    if isinstance(node, Handle):
        return node.name
    if isinstance(node, str):
        return node
    raise PipelineInvalid(f"{what} is {node!r:.120}; give the node itself, for instance what p.worker(…) returned, or its name.")


def after_of(after: Any) -> tuple[After, ...]:
    """The value of `after=` as Afters. The author gives a node, `route.to("label")`, or several of them."""
    each = after if isinstance(after, list | tuple) else (after,)
    return tuple(one if isinstance(one, After) else After(name_of(one, "after=")) for one in each)


def texts_of(given: Any, what: str) -> tuple[str, ...]:
    """A list of texts as a tuple. A single text becomes a tuple of one. `what` is the beginning of the error's sentence."""
    each = (given,) if isinstance(given, str) else given
    if not isinstance(each, list | tuple) or not all(isinstance(one, str) for one in each):
        raise PipelineInvalid(f"{what} is {given!r:.120}; it must be a list of texts.")
    return tuple(each)


def workers_of(given: Any, what: str) -> dict[str, str]:
    """A copy of a dict from labels to ids of workers. `what` is the beginning of the error's sentence."""
    if not isinstance(given, Mapping) or not all(isinstance(one, str) for pair in given.items() for one in pair):
        raise PipelineInvalid(f"{what} is {given!r:.120}; it must be a dict from labels to workers: {{'search': 'search-worker'}}.")
    return dict(given)


def rules_of(given: Any, what: str) -> tuple[Rule, ...]:
    """The rules that an author gave, as Rules: one rule or a list, each a dict `{path, op, value, code, message, severity}` or a Rule.
    `what` is the beginning of the error's sentence."""
    each = given if isinstance(given, list | tuple) else (given,)
    return tuple(_rule(one, what) for one in each)


def _rule(given: Any, what: str) -> Rule:
    if isinstance(given, Rule):
        return given
    if not isinstance(given, Mapping):
        raise PipelineInvalid(f"{what} has {given!r:.120}; a rule is a dict: {{'path': '.price', 'op': 'at_most', 'value': 100}}.")
    try:
        return json_structs.converted({"path": "", **given}, Rule)
    except (msgspec.ValidationError, TypeError) as wrong:
        raise PipelineInvalid(
            f"{what} has a wrong rule: {str(wrong)[:300]}. A rule needs op; path, value, code, message and severity are optional."
        ) from None


def when_of(when: Any) -> When | None:
    """The value of `when=` as a When; None if it is None. The author gives a condition (`ref.equals(1)`), a list of conditions that must
    all hold, or a pair of a value and rules for it."""
    if when is None:
        return None
    if isinstance(when, tuple) and len(when) == 2 and isinstance(when[0], Expression | Handle):
        return When(value=template_of(when[0], "when="), rules=rules_of(when[1], "when="))
    conditions = when if isinstance(when, list | tuple) else [when]
    if not conditions or not all(isinstance(condition, Condition) for condition in conditions):
        told = "ref.equals(…), ref.at_least(…) …, a list of them, or a pair (ref, [{'path': …, 'op': …, 'value': …}])"
        raise PipelineInvalid(f"when= is {when!r:.120}; it must be {told}.")
    values, rules = joined({"when": conditions})
    return When(value=values, rules=rules["when"])


def joined(asked: Mapping[str, Sequence[Condition]]) -> tuple[Template, dict[str, tuple[Rule, ...]]]:
    """Join the conditions of all labels. Returns one value, and for each label the rules for that value. If the conditions are about
    several values, the value is the list of them."""
    values: list[Template] = []
    for condition in (condition for conditions in asked.values() for condition in conditions):
        if condition.value not in values:
            values.append(condition.value)
    if len(values) == 1:
        return values[0], {label: tuple(each.rule for each in conditions) for label, conditions in asked.items()}
    rules = {
        label: tuple(msgspec.structs.replace(each.rule, path=f"[{values.index(each.value)}]{each.rule.path}") for each in conditions)
        for label, conditions in asked.items()
    }
    return values, rules


def route_of(rules: Any, value: Any) -> tuple[Template, dict[str, tuple[Rule, ...]]]:
    """The value that a route judges, and the rules of each label. `rules` has conditions, which name their values, or rules for `value`."""
    if not isinstance(rules, Mapping) or not rules:
        raise PipelineInvalid(
            f"rules= is {rules!r:.120}; it must be a dict from labels to conditions: {{'small': p.inputs.pages.at_most(10)}}."
        )
    asked = {str(label): given if isinstance(given, list | tuple) else [given] for label, given in rules.items()}
    if all(isinstance(each, Condition) for given in asked.values() for each in given):
        return joined(asked)
    if value is None:
        raise PipelineInvalid("Rules that are dicts need the value that they judge: p.route(name, inputs=ref, rules={…}).")
    return template_of(value, "inputs"), {label: rules_of(given, f"rules= of {label!r:.80}") for label, given in asked.items()}


def failure_of(on_failure: Any) -> dict[str, FailureAction]:
    """The value of `on_failure=` as a dict from error codes (`*` for all others) to actions. The author gives one action for all errors, or
    such a dict; None gives an empty dict."""
    if on_failure is None:
        return {}
    given = {"*": on_failure} if isinstance(on_failure, str) else on_failure
    if not isinstance(given, Mapping) or not all(isinstance(code, str) for code in given):
        raise PipelineInvalid(
            f"on_failure= is {on_failure!r:.120}; it must be 'fail', 'skip' or 'escalate', "
            "or a dict from error codes to these: {'access_denied': 'skip', '*': 'escalate'}."
        )
    return {code: action_of(action, f"on_failure= of {code!r}") for code, action in given.items()}


def action_of(action: Any, what: str) -> FailureAction:
    """The action itself, if it is `fail`, `skip` or `escalate`; any other value is refused. `what` is the beginning of the error's
    sentence."""
    if action not in _ACTIONS:
        raise PipelineInvalid(f"{what} is {action!r:.80}; it must be 'fail', 'skip' or 'escalate'.")
    chosen: FailureAction = action
    return chosen


def undo_of(undo: Any, this: str | None = None) -> Undo | None:
    """The value of `undo=` as an Undo; None if it is None. The author gives the id of a worker, or a pair of the id and inputs. `this` is
    the name of the node: in the inputs, references to `p.this` become references to this node. If `this` is None, they stay."""
    if undo is None:
        return None
    if isinstance(undo, str):
        return Undo(worker=undo)
    if isinstance(undo, tuple) and len(undo) == 2 and isinstance(undo[0], str):
        inputs = template_of(undo[1], "undo=")
        return Undo(worker=undo[0], inputs=inputs if this is None else _named(inputs, this))
    raise PipelineInvalid(f"undo= is {undo!r:.120}; it must be the id of a worker, or a pair (id, inputs).")


def _named(template: Template, this: str) -> Template:
    if isinstance(template, list):
        return [_named(inner, this) for inner in template]
    if not isinstance(template, dict) or "$const" in template:
        return template
    if "$from" in template:
        return {**template, "$from": this} if template["$from"] == THIS else template
    return {key: _named(inner, this) for key, inner in template.items()}


def tolerate_of(tolerate: Any) -> tuple[int, bool]:
    """Read `tolerate=`: how many items may fail, as a number or as a percentage (`"20%"`). Returns the number, and whether it is a
    percentage."""
    if isinstance(tolerate, int) and not isinstance(tolerate, bool):
        return tolerate, False
    share = _PERCENT.fullmatch(tolerate) if isinstance(tolerate, str) else None
    if share is None:
        raise PipelineInvalid(f"tolerate= is {tolerate!r:.80}; it must be a whole number of items, or a whole percentage as a text: '20%'.")
    return int(share[1]), True


def conflicts_of(conflicts: str) -> dict[str, Any]:
    """`conflicts=` of a merge, as fields of the node: `report`, `fail` or `escalate`; every other text is the id of the worker that
    decides."""
    known = conflicts in ("report", "fail", "escalate")
    return {"conflicts": conflicts if known else "worker", "resolver": None if known else conflicts}


def asked_of(form: Any, votes: int, then: Any, risk: Any) -> dict[str, Any]:
    """`form=`, `votes=`, `then=` and `risk=` of a human node, as fields of the node."""
    answer = None if form is None else constant_of(form, "form=")
    return {"form": answer, "votes": integer_of(votes, "votes="), "then": then_of(then), "risk": risk}


def then_of(then: Any) -> tuple[Then, ...]:
    """The value of `then=` as Thens. The author gives pairs of a duration and approvers; their order is kept."""
    each = then if isinstance(then, list | tuple) else (then,)
    found = []
    for part in each:
        if not isinstance(part, tuple | list) or len(part) != 2:
            raise PipelineInvalid(
                f"then= has {part!r:.120}; each part is a duration and a list of approvers: ('4h', ['head-of-research'])."
            )
        found.append(Then(seconds_of(part[0], "A duration of then="), texts_of(part[1], "The approvers of then=")))
    return tuple(found)


def caps_of(timeout: str | None, max_tokens: int | None, max_cost_usd: object) -> Caps:
    """`timeout=`, `max_tokens=` and `max_cost_usd=` of a node, as Caps. None: the node has no such limit."""
    seconds = None if timeout is None else seconds_of(timeout, "timeout=")
    tokens = None if max_tokens is None else integer_of(max_tokens, "max_tokens=")
    return Caps(timeout_seconds=seconds, max_tokens=tokens, max_cost_usd=None if max_cost_usd is None else _amount(max_cost_usd))


def _amount(given: object) -> Decimal:
    try:
        if isinstance(given, str | int | float | Decimal) and not isinstance(given, bool):
            return Decimal(str(given))
    except InvalidOperation:
        pass
    raise PipelineInvalid(f"max_cost_usd= is {given!r:.80}; it must be an amount in US dollars, 0.50 for instance.")


def integer_of(given: Any, what: str) -> int:
    """The value itself, if it is a whole number; any other value is refused. `what` is the beginning of the error's sentence."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise PipelineInvalid(f"{what} is {given!r:.80}; it must be a whole number.")
    return given


def parts_of(parts: Any) -> tuple[MergePart, ...]:
    """The parts of a merge as MergeParts. The author gives a list of nodes and references, or a dict from names (sources) to values. In a
    list, the source of a part is the name of the node to which it refers."""
    if isinstance(parts, Mapping):
        return tuple(MergePart(str(source), template_of(value, f"The part {source}")) for source, value in parts.items())
    if not isinstance(parts, list | tuple):
        raise PipelineInvalid(
            f"The parts of a merge are {parts!r:.120}; give a list of nodes, or a dict: {{'web': facts, 'files': other}}."
        )
    return tuple(MergePart(_source(part), template_of(part, "A part")) for part in parts)


def _source(part: Any) -> str:
    if isinstance(part, Handle):
        return part.name
    template = part.template() if isinstance(part, Expression) else None
    if isinstance(template, dict) and "$from" in template:
        return str(template["$from"])
    raise PipelineInvalid(f"A part of a merge is {part!r:.120}, which has no name. Give the parts as a dict: {{'web': …, 'files': …}}.")
