"""Reads a unified diff, as git and diff write it: files, hunks, and the number of each line in the new file.

The end of a hunk is found by the counts in its head and not by the form of its lines, because an added line may look like a head. A diff
that is cut off, or whose counts are wrong, is refused: a review of half a change would look like a review of the whole. Every line is read
once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE: Final = re.compile(r"\\([0-7]{3}|.)")
_SIGNS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NOTHING: Final = "/dev/null"


class DiffIncomplete(Exception):
    """The text is not a complete unified diff. `line` is the line of the problem, from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class Hunk:
    """One changed place of a file."""

    first: int
    """The number of the hunk's first line in the new file, from 1. If the hunk shows no line of the new file: the number of the line before
    it, or 0."""
    count: int = 0
    """How many lines of the new file the hunk shows."""
    lines: list[tuple[str, int, str]] = field(default_factory=list)
    """The lines of the hunk. Each has its sign (` `, `+` or `-`), its number in the new file (0 for a removed line) and its text."""


@dataclass
class File:
    """One file of a diff, under its new name; a deleted file is under its old name."""

    path: str
    hunks: list[Hunk] = field(default_factory=list)


def read_diff(text: str) -> list[File]:
    """The files of a diff. Files without hunks (only renamed, binary, or only another mode) are left out. Empty if the text has no hunk.

    Raises DiffIncomplete if a hunk is cut off, has an invalid head, does not fit its head, or has no file name before it. Also raises it
    for the combined diff of a merge.
    """
    lines = text.split("\n")
    files: dict[str, File] = {}
    old = new = ""
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        if line.startswith("--- "):
            old, new = _path(line[4:]), ""
        elif line.startswith("+++ "):
            new = _path(line[4:])
        elif line.startswith("@@@"):
            raise DiffIncomplete(at + 1, "a combined diff of a merge has no single old file; send the diff against one parent")
        elif line.startswith("@@"):
            path = old if new == _NOTHING else new
            if not path or path == _NOTHING:
                raise DiffIncomplete(at + 1, "a hunk has no file: the lines that begin with --- and +++ are missing")
            hunk, at = _hunk(lines, at)
            files.setdefault(path, File(path)).hunks.append(hunk)
            continue
        elif line.startswith("diff "):
            old = new = ""
        at += 1
    return list(files.values())


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    """The hunk whose head is at the index `at`, and the index of the line after the hunk. Raises DiffIncomplete if it is cut off, its head
    is invalid, or it does not fit its head."""
    head = _HUNK.match(lines[at])
    if head is None:
        raise DiffIncomplete(at + 1, "the head of a hunk is not of the form @@ -1,2 +3,4 @@")
    old_left, new_left = int(head[2] or 1), int(head[4] or 1)
    hunk = Hunk(int(head[3]), new_left)
    number, start = hunk.first, at + 1
    at += 1
    while old_left or new_left:
        if at == len(lines) or (at == len(lines) - 1 and not lines[at]):
            raise DiffIncomplete(start, f"the hunk ends too early: {old_left} old and {new_left} new lines are missing")
        text = lines[at].rstrip("\r")
        sign = text[:1] or " "  # some mail programs remove the space of an empty line
        if sign == "\\":
            at += 1
            continue
        if sign not in " +-" or (sign != "+" and not old_left) or (sign != "-" and not new_left):
            raise DiffIncomplete(at + 1, "the line does not begin with a space, + or -, or the hunk has more lines than its head says")
        hunk.lines.append((sign, 0 if sign == "-" else number, text[1:]))
        old_left -= sign != "+"
        new_left -= sign != "-"
        number += sign != "-"
        at += 1
    return hunk, at


def _path(told: str) -> str:
    """The path in a line that begins with `---` or `+++`: without the time, without quotes, and without git's `a/` and `b/`."""
    told = told.split("\t")[0].strip()
    if told.startswith('"') and told.endswith('"') and len(told) > 1:
        told = _unquoted(told[1:-1])
    return told if told == _NOTHING else told[2:] if told[:2] in ("a/", "b/") else told


def _unquoted(told: str) -> str:
    """A path that git has quoted, with the escapes undone: git writes bytes that are not printable ASCII as octal numbers."""

    def plain(hit: re.Match[str]) -> str:
        sign = hit[1]
        return chr(int(sign, 8) & 0xFF) if len(sign) == 3 else _SIGNS.get(sign, sign)

    found = _ESCAPE.sub(plain, told)
    try:
        return found.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return found
