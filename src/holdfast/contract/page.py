"""Splits a page into its parts: the title, the problem, and the content under each heading. The page may be Markdown, or text that was
copied from the web site.

A heading is `## Worker spec` (Markdown), `Worker spec#` (from the web site) or only the words of a known heading on a line of their own.
The lines of fenced blocks are kept apart from other lines. Line numbers are those of the text, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.contract.notes import PageNotes, meant, shown

KEY_IDEAS, DIAGRAM, SPEC, PIPELINE_SPEC = "Key ideas", "Diagram", "Worker spec", "Pipeline spec"
INPUT_SCHEMA, OUTPUT_SCHEMA, CONSTRAINTS = "Input schema", "Output schema", "Constraints"
FAILURES, SIGNALS, SEE_ALSO, FAQ = "Failure modes & handling", "Observability signals", "See also", "FAQ"
HEADINGS = (KEY_IDEAS, DIAGRAM, SPEC, PIPELINE_SPEC, INPUT_SCHEMA, OUTPUT_SCHEMA, CONSTRAINTS, FAILURES, SIGNALS, SEE_ALSO, FAQ)

_KNOWN = {name.lower(): name for name in HEADINGS} | {"failure modes": FAILURES, "failure modes and handling": FAILURES}
_LINE_END = re.compile(r"\r\n|\r|\n")  # not str.splitlines: it also splits at characters that may stand inside a JSON string
_MARKDOWN = re.compile(r" {0,3}(#{1,6})[ \t](.*)")
_SITE = re.compile(r" {0,3}(\S[^#]*?)[ \t]?#")
_SITE_UNKNOWN = re.compile(r"[A-Z][\w &/,'()?-]{0,60}")
_FENCE = re.compile(r"[ \t]*(`{3,}+|~{3,}+)([^`]*)")
_UNDERLINE = re.compile(r"[ \t]*(-{3,}|={3,})[ \t]*")
_PROBLEM = re.compile(r"[ \t]*[*_]{0,2}Problem[*_]{0,2}:[*_]{0,2}[ \t]*(.*)", re.I)
_LONGEST_TITLE = 200
_SITE_LINE = re.compile(r"\bworker\.md$", re.I)


class PageLine(NamedTuple):
    """One line and its number."""

    number: int
    text: str


class Fence(msgspec.Struct, frozen=True):
    """A fenced block: the line of its opening fence, the first word after the fence, its lines, and whether it has a closing fence."""

    line: int
    info: str
    lines: tuple[PageLine, ...]
    closed: bool


class Section(msgspec.Struct, frozen=True):
    """The lines and blocks under one heading."""

    name: str
    line: int
    lines: tuple[PageLine, ...]
    """The lines outside of fences."""
    fences: tuple[Fence, ...]

    def block(self, *kinds: str) -> tuple[PageLine, ...]:
        """The lines of the section's first fenced block of one of these kinds, such as `json`; else of its first fenced block; else its
        lines outside of fences."""
        for fence in self.fences:
            if fence.info.lower() in kinds:
                return fence.lines
        return self.fences[0].lines if self.fences else self.lines


class Page(msgspec.Struct, frozen=True):
    """The parts of a page."""

    title: str
    problem: str
    sections: dict[str, Section]

    last: str
    """The heading of the last section of the page; empty if the page has no heading."""

    def section(self, name: str) -> Section | None:
        """The section under a heading of HEADINGS; None if the page does not have it."""
        return self.sections.get(name)


_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.{0,20000}?\n)---[ \t]*(\r?\n|$)", re.S)
_FRONT_KEY: Final = re.compile(r"^(name|description|tools|model)[ \t]*:", re.M)
_MENTION: Final = re.compile(rb"^ {0,3}(#{1,6}[ \t]+)?[*_]*pipeline[ \t]+spec", re.I | re.M)


def mentions_pipeline(data: bytes) -> bool:
    """Whether a page may have a Pipeline spec. The check is quick. It may return True for a page without one, for example if a fenced block
    of the page shows such a heading."""
    return _MENTION.search(data.replace(b"\r", b"\n")) is not None


def defines_agent(text: str) -> bool:
    """Whether a page is the definition of a coding agent: whether its front matter has a `name` and a `description`."""
    front = _FRONT.match(text)
    return front is not None and {"name", "description"} <= {hit[1] for hit in _FRONT_KEY.finditer(front[1])}


class _Heading(NamedTuple):
    title: str
    level: int
    """The number of hash signs before it; 0 for none."""
    marked: bool

    @property
    def known(self) -> str | None:
        words = re.sub(r"\{#[^}]*\}|[*_`¶]", "", self.title).replace("&amp;", "&")
        return _KNOWN.get(" ".join(words.lower().split()))


def parted(text: str, notes: PageNotes) -> Page:
    """Split a page into its parts. Problems, such as a second section with the same heading, are noted."""
    lines = [PageLine(number, line) for number, line in enumerate(_LINE_END.split(text), 1)]
    return _Parting(lines, notes).page()


class _Parting:
    """Reads the lines of a page once, in order. A section ends at the next heading."""

    def __init__(self, lines: Sequence[PageLine], notes: PageNotes) -> None:
        self._all = lines
        self._notes = notes
        self._sections: dict[str, Section] = {}
        self._name, self._line = "", 1
        self._lines: list[PageLine] = []
        self._fences: list[Fence] = []
        self._closings: dict[str, int] = {}

    def page(self) -> Page:
        index = 0
        while index < len(self._all):
            line = self._all[index]
            if opening := _FENCE.fullmatch(line.text):
                index = self._fenced(index, opening.group(1), (opening.group(2).split() or [""])[0])
                continue
            if (heading := _heading(line.text)) and self._begins(heading, line.number):
                self._close()
                self._name, self._line = heading.known or heading.title, line.number
                if heading.level == 1 and heading.known is None and "title" not in self._sections:
                    self._sections["title"] = Section(heading.title, line.number, (), ())
            elif not (_UNDERLINE.fullmatch(line.text) and not self._lines):
                self._lines.append(line)
            index += 1
        self._close()
        return self._made()

    def _begins(self, heading: _Heading, line: int) -> bool:
        """Whether a section begins at this heading. No section begins at a comment in the spec, or at a sentence that only looks like a
        heading. Warns about an unknown heading that is similar to a known one."""
        if known := heading.known:
            return heading.marked or (known not in self._sections and known != self._name)
        if heading.level == 1:
            return self._name not in (SPEC, PIPELINE_SPEC)
        if heading.marked and (hint := meant(heading.title, HEADINGS)):
            title = shown(heading.title)
            self._notes.warning("unknown_section", title, line, f"`{title}` is not a section of a worker.md.{hint}")
        return heading.marked

    def _fenced(self, start: int, mark: str, info: str) -> int:
        """Read a fenced block, and return the index of the line after it. A block without a closing fence ends at the next known heading
        with two or more hash signs. A block may contain such headings and other fences if its own fence has more than three characters and
        is closed."""
        closing = re.compile(rf"[ \t]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*")
        whole = len(mark) > 3 and self._last_closing(mark, closing) > start
        for end in range(start + 1, len(self._all)):
            text = self._all[end].text
            if closing.fullmatch(text):
                self._fences.append(Fence(self._all[start].number, info, tuple(self._all[start + 1 : end]), True))
                return end + 1
            heading = _heading(text)
            if heading and heading.level >= 2 and heading.known and not whole:
                break
        else:
            end = len(self._all)
        self._notes.warning("fence_not_closed", self._name, self._all[start].number, f"This block is never closed. End it with `{mark}`.")
        self._fences.append(Fence(self._all[start].number, info, tuple(self._all[start + 1 : end]), False))
        return end

    def _last_closing(self, mark: str, closing: re.Pattern[str]) -> int:
        """The index of the last line of the page that could close a fence with this `mark`; -1 if there is none. `closing` matches such
        lines."""
        if mark not in self._closings:
            self._closings[mark] = max((at for at, line in enumerate(self._all) if closing.fullmatch(line.text)), default=-1)
        return self._closings[mark]

    def _close(self) -> None:
        name = self._name
        if first := self._sections.get(name):
            if name in HEADINGS:
                told = f"The page has a second section `{name}`; the first is on line {first.line}. Keep one."
                self._notes.error("duplicate_section", name, self._line, told)
        else:
            self._sections[name] = Section(name, self._line, tuple(self._lines), tuple(self._fences))
        self._lines, self._fences = [], []

    def _made(self) -> Page:
        title = self._sections.pop("title", None)
        before = self._sections[""].lines
        if title and title.name in self._sections:
            before += self._sections[title.name].lines
        flat = not any(not line.text.strip() for line in self._all[:-1])
        problem, above = _problem(before, flat)
        if not problem and (section := self._sections.get("Problem")):
            problem = _paragraph(section.lines, flat)
        sections = {name: section for name, section in self._sections.items() if name in HEADINGS}
        return Page(title.name if title else _title(above), problem, sections, self._name)


def _heading(text: str) -> _Heading | None:
    if len(text) > _LONGEST_TITLE:
        return None
    if hit := _MARKDOWN.fullmatch(text):
        title = hit.group(2).strip().rstrip("#").rstrip()
        return _Heading(title, len(hit.group(1)), True) if title else None
    if hit := _SITE.fullmatch(text):
        heading = _Heading(hit.group(1), 0, True)
        return heading if heading.known or _SITE_UNKNOWN.fullmatch(hit.group(1)) else None
    heading = _Heading(text, 0, False)
    return heading if heading.known else None


def _problem(lines: Sequence[PageLine], flat: bool) -> tuple[str, list[str]]:
    """The paragraph that begins with `Problem:`, without that word, and the lines above it. The paragraph is empty if there is none."""
    above: list[str] = []
    for index, line in enumerate(lines):
        if hit := _PROBLEM.fullmatch(line.text):
            return _paragraph([PageLine(line.number, hit.group(1)), *lines[index + 1 :]], flat), above
        if line.text.strip():
            above.append(line.text.strip())
    return "", above


def _paragraph(lines: Sequence[PageLine], flat: bool) -> str:
    """The first paragraph, as one line. If the page has no blank lines (`flat`), its first line."""
    found: list[str] = []
    for line in lines:
        if line.text.strip():
            found.append(line.text.strip())
        if found and (flat or not line.text.strip()):
            break
    return " ".join(found)


def _title(above: Sequence[str]) -> str:
    """The title of a page that has no heading for it: the first of the lines `above` its problem. The line `worker.md`, which the web site
    puts above each page, does not count if there is another line."""
    rest = [line for line in above if not _SITE_LINE.search(line)]
    return (rest or list(above) or [""])[0]
