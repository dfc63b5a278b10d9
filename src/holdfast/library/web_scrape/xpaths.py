"""XPath-like paths: the part of XPath that people write for pages, over the parsed page.

    //table[@id='t']/tr[2]/td[last()]/text()      //a[contains(@href, 'shop')]/@href      .//li[not(@hidden)]      ../h2

Steps `/` and `//`, names or `*`, `.` and `..`; predicates: a number, `last()`, `@a`, `@a='v'`, `@a!='v'`, `text()='v'`, `.='v'`,
`contains(x, 'v')`, `starts-with(x, 'v')` (x is `@a`, `text()`, `.` or `normalize-space()`), `not(…)`; at the end `@attribute` or `text()`.
`//@href` is the attribute of every element that has it, and `//text()` the text of every element that has a text of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from selectolax.lexbor import LexborNode

_MOST_VISITED: Final = 500_000
_MOST_STEPS: Final = 50
_NAME: Final = r"[A-Za-z_*][\w:-]*"
_STEP: Final = re.compile(rf"(?P<slash>//?)?(?P<test>\.\.|\.|text\(\)|@{_NAME}|{_NAME})")
_VALUE: Final = rf"(?P<what>@{_NAME}|text\(\)|\.|normalize-space\(\))"
_QUOTED: Final = r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)")"""
_COMPARE: Final = re.compile(rf"{_VALUE}\s*(?P<how>!?=)\s*{_QUOTED}")
_CALL: Final = re.compile(rf"(?P<how>contains|starts-with)\(\s*{_VALUE}\s*,\s*{_QUOTED}\s*\)")
_HAS: Final = re.compile(rf"@(?P<name>{_NAME})")


class XPathInvalid(Exception):
    """The text of a path is not valid. The message says what is wrong."""


class PathTooCostly(Exception):
    """The path would visit too many nodes of this page."""


class XPathTest(Struct, frozen=True):
    """One predicate, in square brackets: `how` names the kind of condition."""

    how: str
    what: str = ""
    value: str = ""
    number: int = 0
    inner: XPathTest | None = None


class XPathStep(Struct, frozen=True):
    """One step of a path: for which element it looks, and under which conditions."""

    deep: bool
    """Whether it looks at all levels below (`//`), and not only at the children (`/`). With the name `.`: at the place itself and at all
    levels below."""
    name: str
    tests: tuple[XPathTest, ...] = ()


class XPath(Struct, frozen=True):
    """A whole path; `take` is what is read at its end: an attribute (`@href`), `text()`, or (if it is empty) the element itself."""

    absolute: bool
    steps: tuple[XPathStep, ...]
    take: str = ""

    def find(self, root: LexborNode, scope: LexborNode) -> list[LexborNode]:
        """The elements that the steps of the path lead to, each once; `take` is not read here. An absolute path begins at `root`, any other
        at `scope`. Raises PathTooCostly if the search visits too many nodes."""
        walk = _Walk()
        found = [root] if self.absolute else [scope]
        for at, step in enumerate(self.steps):
            found = walk.step(found, step, from_root=self.absolute and at == 0)
        return found


def path_of(text: str) -> XPath:
    """Parse the text of a path through a page. Raises XPathInvalid if it is not a valid path."""
    steps: list[XPathStep] = []
    take, at = "", 0
    while at < len(text):
        hit = _STEP.match(text, at)
        if hit is None or (at > 0 and not hit.group("slash")):
            raise XPathInvalid(f"{text[at : at + 20]!r} is not a valid step of a path")
        if take:
            raise XPathInvalid(f"{take} may stand only at the end of a path")
        at, test = hit.end(), hit.group("test")
        tests: list[XPathTest] = []
        while at < len(text) and text[at] == "[":
            inside, at = _bracket(text, at)
            tests.append(_test(inside.strip()))
        if test.startswith("@") or test == "text()":
            if tests:
                raise XPathInvalid(f"{test} cannot have a predicate")
            take = test.lower()
            if hit.group("slash") == "//":  # it is read at all levels: at the place itself and at every element below that has it
                steps.append(XPathStep(True, ".", (XPathTest("has", take[1:]) if take.startswith("@") else XPathTest("!=", take),)))
        else:
            if tests and test in (".", ".."):
                raise XPathInvalid(f"{test} cannot have a predicate")
            steps.append(XPathStep(hit.group("slash") == "//", test.lower(), tuple(tests)))
    if len(steps) > _MOST_STEPS or (not steps and not take):
        raise XPathInvalid(f"it has {len(steps)} steps; 1 to {_MOST_STEPS} are allowed")
    return XPath(text.startswith("/"), tuple(steps), take)


def _bracket(text: str, at: int) -> tuple[str, int]:
    quote = ""
    for end in range(at + 1, len(text)):
        char = text[end]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "]":
            return text[at + 1 : end], end + 1
    raise XPathInvalid("a bracket is not closed")


def _test(text: str) -> XPathTest:
    if text.isdecimal() and 0 < len(text) < 7:
        return XPathTest("position", number=int(text))
    if text in ("last()", "position()=last()"):
        return XPathTest("last")
    if text.startswith("not(") and text.endswith(")"):
        inner = _test(text[4:-1].strip())
        if inner.how in ("position", "last", "not"):
            raise XPathInvalid("not() needs a condition; a position or another not() is not allowed")
        return XPathTest("not", inner=inner)
    if hit := _HAS.fullmatch(text):
        return XPathTest("has", hit.group("name").lower())
    if hit := _COMPARE.fullmatch(text) or _CALL.fullmatch(text):
        value = hit.group("single") if hit.group("single") is not None else hit.group("double")
        return XPathTest(hit.group("how"), hit.group("what").lower(), value)
    raise XPathInvalid(
        f"the predicate [{text[:40]}] is not known; use a number, last(), @a, @a='v', contains(x, 'v'), starts-with(x, 'v') or not(…)"
    )


class _Walk:
    """One search, with a limit on how many nodes it visits."""

    def __init__(self) -> None:
        self._visited = 0

    def step(self, places: list[LexborNode], step: XPathStep, *, from_root: bool) -> list[LexborNode]:
        found: dict[int, LexborNode] = {}
        searched: set[int] = set()
        for place in places:
            if step.deep and place.mem_id in searched:
                continue  # a search from a place above has visited this one. Without this, nested places cost quadratic time
            for node in self._of(place, step, from_root, searched):
                found.setdefault(node.mem_id, node)
        return list(found.values())

    def _of(self, place: LexborNode, step: XPathStep, from_root: bool, searched: set[int]) -> Iterable[LexborNode]:
        if step.name == ".":
            return self._passed(self._below(place, searched), step) if step.deep else [place]
        if step.name == "..":
            parent = place.parent
            return [parent] if parent is not None and not _is_document(parent) else []
        groups: list[list[LexborNode]] = []
        if from_root:  # the first step may find the root itself, which is no child of a node
            groups.append([place])
        if step.deep:
            groups += [self._children(node) for node in self._below(place, searched)]
        elif not from_root:
            groups.append(self._children(place))
        return (node for group in groups for node in self._passed(group, step))

    def _below(self, place: LexborNode, searched: set[int]) -> list[LexborNode]:
        """The place itself and all elements below it, also those that are in `searched` already. All are added to `searched`."""
        below = list(place.traverse())
        self._count(len(below))
        searched.update(node.mem_id for node in below)
        return below

    def _children(self, node: LexborNode) -> list[LexborNode]:
        children = list(node.iter())
        self._count(len(children))
        return children

    def _passed(self, group: list[LexborNode], step: XPathStep) -> list[LexborNode]:
        kept = [node for node in group if step.name in ("*", ".", node.tag)]
        for test in step.tests:
            if test.how == "position":
                kept = kept[test.number - 1 : test.number]
            elif test.how == "last":
                kept = kept[-1:]
            else:
                kept = [node for node in kept if _holds(node, test)]
        return kept

    def _count(self, more: int) -> None:
        self._visited += more
        if self._visited > _MOST_VISITED:
            raise PathTooCostly


def _is_document(node: LexborNode) -> bool:
    return (node.tag or "").startswith("-")


def _holds(node: LexborNode, test: XPathTest) -> bool:
    if test.inner is not None:
        return not _holds(node, test.inner)
    attributes = node.attributes
    if test.how == "has":
        return test.what in attributes
    value = (attributes.get(test.what[1:]) or "") if test.what.startswith("@") else _text(node, test.what)
    match test.how:
        case "=":
            return value == test.value
        case "!=":
            return value != test.value
        case "contains":
            return test.value in value
        case _:
            return value.startswith(test.value)


def _text(node: LexborNode, what: str) -> str:
    return " ".join(node.text(deep=what != "text()").split())
