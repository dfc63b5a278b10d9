"""Expressions: what an author writes for values that are known only when the pipeline runs. An expression has no value while the pipeline
is built, so a comparison, a loop or an f-string with a reference raises PipelineInvalid, which says what to write instead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from holdfast.model import codec
from holdfast.pipelines.graph.graph import Operator, Rule, Template
from holdfast.pipelines.graph.paths import EACH, flaw_of, text_of
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import MAX_DEPTH, Reference, constant_flaw

_UNKNOWN: Final = "has no value while the pipeline is built, only when the pipeline runs"


class Valued(ABC):
    """The base class of expressions and handles. An author may give them wherever a node takes a value, in addition to JSON."""

    __slots__ = ()

    @abstractmethod
    def template(self) -> Template:
        """The value as a template of the graph."""


class Expression(Valued):
    """A value that is known only when the pipeline runs. Use it wherever a node takes a value, also inside lists and dicts."""

    __slots__ = ("_template",)

    def __init__(self, template: Template) -> None:
        self._template = template

    def template(self) -> Template:
        """The expression as a template of the graph."""
        return self._template

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.template()!r:.200}>"

    def __bool__(self) -> NoReturn:
        _mistaken(self, "`if`, `and` and `or` cannot use it. Give the node when=ref.equals(…), or use a route.")

    def __eq__(self, other: object) -> NoReturn:
        _mistaken(self, "`==` cannot compare it. Write ref.equals(…), .differs(…), .less(…) … and give it to when=.")

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __iter__(self) -> Iterator[Any]:
        _mistaken(self, "`for` cannot loop over it. Use p.map(…) to run a worker for each element, or ref.each for all of them.")

    def __len__(self) -> int:
        _mistaken(self, "`len` cannot count it. Write ref.length.")

    def __contains__(self, item: object) -> bool:
        _mistaken(self, "`in` cannot search it. Write ref.is_in([…]), and give it to when=.")

    def __str__(self) -> str:
        _mistaken(self, 'str() and f-strings cannot show it. Write p.text("… {} …", ref).')

    def __format__(self, spec: str) -> str:
        return str(self)

    __hash__ = object.__hash__


def _mistaken(what: object, cure: str) -> NoReturn:
    raise PipelineInvalid(f"{what!r:.120} {_UNKNOWN}, so {cure}")


class Ref(Expression):
    """A reference: a value inside the pipeline's inputs, or inside the result of a node.

    `ref.field` and `ref["field"]` refer to a field of an object, `ref[0]` to an element of a list, and `ref.each` to all elements of a list
    (`ref.each.price` is the list of their prices). For a field that has the name of a method or property of this class, such as `length`,
    write `ref["length"]`.

    The methods from `equals` to `matches` make conditions. If there is no value at the path and the reference has no default, only
    `missing` holds; a condition on `.length` fails the node then. After `.each` (without `.default` and `.length`), a condition must hold
    for every element; for an empty list it holds.
    """

    __slots__ = ("_reference",)

    def __init__(self, reference: Reference) -> None:
        super().__init__(None)
        self._reference = reference

    def template(self) -> Template:
        """The reference as a template of the graph."""
        return _from(self._reference)

    def __repr__(self) -> str:
        return f"<{self._reference.source}{text_of(self._reference.path)}{'.length' * self._reference.length}>"

    def __getattr__(self, name: str) -> Ref:
        if name.startswith("_"):
            raise AttributeError(f"{self!r} has no {name!r}; a field of that name is reached with ref[{name!r}].")
        return self._longer(name)

    def __getitem__(self, part: str | int) -> Ref:
        if part == EACH:
            raise PipelineInvalid('Write ref.each for "each element", not ref["*"].')
        return self._longer(part)

    @property
    def each(self) -> Ref:
        """All elements of a list: `offers.each.price` is the list of their prices. If an element may have no price, add `.default(…)`; else
        a node that uses the reference as a value fails."""
        return self._longer(EACH)

    @property
    def length(self) -> Ref:
        """The length of the text, the list or the object to which this reference leads."""
        return Ref(replace(self._reference, length=True))

    def default(self, value: Any) -> Ref:
        """Use this JSON if there is no value: the node has no result, or there is nothing at the path. After `.each`, it is used for each
        element in which there is nothing at the rest of the path; with `.length`, it is used for the length as a whole."""
        return Ref(replace(self._reference, has_default=True, default=constant_of(value)))

    def equals(self, value: Any) -> Condition:
        """The condition that the value is equal to this JSON. 1 and 1.0 are equal; 1 and true are not."""
        return self._asked("equals", value)

    def differs(self, value: Any) -> Condition:
        """The condition that there is a value, and that it is not equal to this JSON."""
        return self._asked("differs", value)

    def less(self, value: Any) -> Condition:
        """The condition that the value is less than this number or text. It does not hold for values of another type."""
        return self._asked("less", value)

    def at_most(self, value: Any) -> Condition:
        """The condition that the value is this number or text, or less. It does not hold for values of another type."""
        return self._asked("at_most", value)

    def more(self, value: Any) -> Condition:
        """The condition that the value is more than this number or text. It does not hold for values of another type."""
        return self._asked("more", value)

    def at_least(self, value: Any) -> Condition:
        """The condition that the value is this number or text, or more. It does not hold for values of another type."""
        return self._asked("at_least", value)

    def is_in(self, values: Any) -> Condition:
        """The condition that the value is equal to an element of this list."""
        return self._asked("in", values)

    def not_in(self, values: Any) -> Condition:
        """The condition that there is a value, and that it is equal to no element of this list."""
        return self._asked("not_in", values)

    def exists(self) -> Condition:
        """The condition that there is a value at the path. null is a value."""
        return self._asked("exists", None)

    def missing(self) -> Condition:
        """The condition that there is no value at the path."""
        return self._asked("missing", None)

    def matches(self, pattern: str) -> Condition:
        """The condition that the value is a text in which this RE2 pattern is found."""
        return self._asked("matches", pattern)

    def _longer(self, part: str | int) -> Ref:
        if self._reference.length or self._reference.has_default:
            raise PipelineInvalid(f"{self!r}: .length and .default(…) end a reference; write the path before them.")
        path = (*self._reference.path, part)
        if (flaw := flaw_of(path)) is not None:
            raise PipelineInvalid(f"The path {self!r:.120}[{part!r:.40}] {flaw}.")
        return Ref(replace(self._reference, path=path))

    def _asked(self, op: Operator, value: Any) -> Condition:
        """The condition that this operator holds for the value of this reference and `value`. If the reference has no default and no
        length, its path becomes part of the rule. Then a missing value only breaks the rule. In a template, a missing value would fail the
        node."""
        reference = self._reference
        whole = reference.length or reference.has_default
        inner = self.template() if whole else _from(Reference(source=reference.source))
        return Condition(inner, Rule(path="" if whole else text_of(reference.path), op=op, value=constant_of(value)))


class Items(Ref):
    """The items of a map: those that succeeded, those that failed, or all. `.outputs` is the list of their outputs, `[0]` the first item,
    and `.length` the number of items."""

    __slots__ = ()

    def _longer(self, part: str | int) -> Ref:
        if isinstance(part, str) and part != EACH:
            return super()._longer(EACH)._longer(part)
        return super()._longer(part)


class Condition:
    """A condition on a value, for `when=` and for the rules of a route. If its reference has no default and is to a node without a result,
    the node that has the condition is skipped, whatever the condition is: also with `missing` and `exists`."""

    __slots__ = ("rule", "value")

    def __init__(self, value: Template, rule: Rule) -> None:
        self.value = value
        self.rule = rule

    def __bool__(self) -> NoReturn:
        raise PipelineInvalid(
            f"A condition {_UNKNOWN}, so `if`, `and` and `or` cannot use it. Give when= a list of conditions, all of which must hold."
        )


def _from(reference: Reference) -> Template:
    template: dict[str, Any] = {"$from": reference.source}
    if reference.path:
        template["path"] = list(reference.path)
    if reference.has_default:
        template["default"] = reference.default
    if reference.length:
        template["length"] = True
    return template


def template_of(value: Any, what: str = "A value", depth: int = 1) -> Template:
    """Turn a Python value into a template. The value is JSON that may contain expressions and handles. Raises PipelineInvalid if it is
    anything else, if it has a key that begins with `$`, and if it is nested too deep or has a text that is too long. `what` is the
    beginning of the error's sentence; `depth` is the level of the value in the whole template, from 1."""
    if depth > MAX_DEPTH:
        raise PipelineInvalid(f"{what} is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, Valued):
        return value.template()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise PipelineInvalid(f"{what} has the key {key!r:.80}; the keys of an object must be texts.")
            if key.startswith("$"):
                raise PipelineInvalid(
                    f"{what} has the key {key!r:.80}. Keys that begin with $ are reserved for references: write p.const({{…}}) around it."
                )
        return {key: template_of(inner, f"{what}.{key}", depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [template_of(inner, f"{what}[{at}]", depth + 1) for at, inner in enumerate(value)]
    if isinstance(value, Condition):
        raise PipelineInvalid(f"{what} is a condition. Conditions are allowed in when= and in the rules of a route.")
    if value is not None and not isinstance(value, str | int | float):
        raise PipelineInvalid(f"{what} is of the type {type(value).__name__}, which is neither JSON nor a reference.")
    return constant_of(value, what)


def constant_of(value: Any, what: str = "A constant") -> Any:
    """A Python value as a constant of the graph: JSON of at most 64 KiB. Raises PipelineInvalid if it is anything else. `what` is the
    beginning of the error's sentence."""
    if isinstance(value, Valued):
        raise PipelineInvalid(f"{what} is {value!r:.120}, which is known only when the pipeline runs. A constant must be JSON.")
    if (flaw := constant_flaw(value)) is not None:
        raise PipelineInvalid(f"{what}: {flaw}")
    return codec.loads(codec.dumps(value, sort=False))
