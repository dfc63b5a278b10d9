"""A page of documentation, done as a reader would do it: its files written, its code run, its commands typed, its output compared.

Above a fence, a comment may say how it is meant:

    file: NAME, add to: NAME     the block is (or ends) a file in the reader's folder
    keeps running                the block's last command goes on in the first terminal while the page goes on in the second
    goes on                      what the first terminal prints after that, until its command has ended
    drawn: KIND                  the state diagram of this kind of operation, as tests/drawings/states.py draws it
    not run: REASON              nothing is done; the test counts these

and anywhere `varies: TOKEN REGEX`: the token stands for what differs each time; commands get what was printed in its place.
Times, spans and UUIDs are known to vary. A `text` block is what the `python` block above it prints. `$ cd NAME` goes there for good.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.drawings import states as drawing
from tests.surface.cli_program import PATIENCE_SECONDS, until

_COMMENT_OR_FENCE = re.compile(r"<!--\s*(?P<comment>.*?)\s*-->|```(?P<language>\S*)")
_SHAPES = {
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "span": r"\b\d+ (?:ms|s|min|h|d)\b(?: \d+ (?:ms|s|min|h)\b)?",
    "blank": r" +",
}
ROOT_WARNING = "warning: this runs as root"
"""A page is written for a user, and may be read by root, who is warned."""


@dataclass(frozen=True)
class Block:
    """One fence of a page; `about` is what its mark says after the colon."""

    line: int
    language: str
    text: str
    mark: str
    about: str


@dataclass
class Page:
    """A page's fences in order, and what it says varies."""

    path: Path
    blocks: list[Block] = field(default_factory=list)
    varies: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Page:
        """Take a page apart."""
        page, mark = cls(path), ("", "")
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for number, line in lines:
            found = _COMMENT_OR_FENCE.fullmatch(line)
            if found is None:
                mark = mark if line == "" else ("", "")
            elif found["comment"] is None:
                page.blocks.append(Block(number, found["language"], _fenced(lines), *mark))
                mark = ("", "")
            elif found["comment"].startswith("varies: "):
                token, shape = found["comment"].removeprefix("varies: ").split(maxsplit=1)
                page.varies[token] = shape
            else:
                name, _, about = found["comment"].partition(": ")
                mark = (name, about)
        return page


def _fenced(lines: Iterator[tuple[int, str]]) -> str:
    body: list[str] = []
    for _, line in lines:
        if line == "```":
            return "".join(f"{text}\n" for text in body)
        body.append(line)
    raise AssertionError("a fence is never closed")


class Terminal:
    """A command that goes on while the reader does something else."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if not line.startswith(ROOT_WARNING):
                    self._lines.append(line)

    def take(self, count: int) -> str:
        """The next lines it prints."""
        until(lambda: len(self._lines) >= count or not self._listener.is_alive())
        taken, self._lines[:count] = self._lines[:count], []
        return "".join(taken)

    def end(self) -> tuple[int, str]:
        """Wait for its end; its exit code (negative for a signal) and what it still printed."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._listener.join(PATIENCE_SECONDS)
        return code, "".join(self._lines)

    def close(self) -> None:
        """End it, for a reader who gives up."""
        self._process.kill()
        self.end()


_INTERPRETER = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    where, text = json.loads(line)
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(text, where, "exec"), names)
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), flush=True)
"""


class Interpreter:
    """A Python that the page's code is typed into: a process of its own, with one namespace."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _INTERPRETER], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, where: str, text: str) -> str:
        """What the code prints; an exception of it is raised here."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([where, text]), file=self._process.stdin, flush=True)
        printed, error = json.loads(self._process.stdout.readline())
        assert error is None, error
        return str(printed)

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=PATIENCE_SECONDS)


class Reader:
    """Does what a page says, in a folder of its own."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.not_run: list[str] = []
        self._python = Interpreter(folder)
        self._said = ""
        """What code printed and the page has not shown yet."""
        self._known: dict[str, str] = {}
        """What stood in the place of a token."""
        self._unused: set[str] = set()
        """Files that no command has named yet."""
        self._first: Terminal | None = None
        self._here = folder
        """Where commands are typed."""
        self._environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        self._environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment.pop("HOLDFAST_STORE", None)
        self._environment["PYTEST_ADDOPTS"] = "-p no:asyncio"  # ours, and it talks; a reader's pytest has only Holdfast's plugin

    def read(self) -> None:
        """Go through the page once, from top to bottom."""
        try:
            for block in self.page.blocks:
                try:
                    self._do(block)
                except Exception as error:
                    self._end_background()
                    raise AssertionError(f"{self.page.path.name}, line {block.line}: {error}") from error
            assert self._said == "", f"the last code prints what the page does not show: {self._said!r}"
            assert self._unused == set(), f"no command uses these files: {self._unused}"
            self._leave_first_terminal()
        finally:
            self._python.close()
            if self._first is not None:
                self._first.close()

    def _end_background(self) -> None:
        """A page that ends early leaves nothing running: what it put into the background has its id in a file."""
        for path in self.folder.glob("*.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)

    def _do(self, block: Block) -> None:
        assert self._said == "" or block.language == "text", f"the code above prints what the page does not show: {self._said!r}"
        match block.mark, block.language:
            case "not run", _:
                assert block.about, "a block that is not run says why"
                self.not_run.append(block.about)
            case (("file" | "add to"), ("python" | "yaml" | "toml" | "markdown")):
                with (self.folder / block.about).open("w" if block.mark == "file" else "a") as file:
                    file.write(block.text if block.mark == "file" else f"\n\n{block.text}")
                self._unused.add(block.about)
            case "", "python":
                self._said = self._python.run(str(self.page.path), "\n" * block.line + block.text)
            case "", "text":
                self._compare(block.text, self._said)
                self._said = ""
            case (("" | "keeps running"), "console"):
                self._type(block)
            case "goes on", "text":
                self._go_on(block.text)
            case "drawn", "mermaid":
                assert block.text == drawn(block.about), "the drawing is stale: copy it from docs/internals/states.md"
            case _:
                raise AssertionError(f"no rule for a {block.language!r} block marked {block.mark!r}")

    def _type(self, block: Block) -> None:
        typed = [part.partition("\n") for part in re.split(r"^\$ ", block.text, flags=re.M)]
        assert typed[0] == ("", "", ""), "a console block begins with `$ `"
        for number, (command, _, shows) in enumerate(typed[1:], 1):
            command = self._meant(command)
            self._unused -= {name for name in self._unused if name in command}
            if command.startswith("cd ") and "&" not in command and ";" not in command:
                self._here /= command.removeprefix("cd ")
                assert self._here.is_dir(), f"there is no folder {self._here}"
                assert shows == "", "cd prints nothing"
                continue
            if block.mark and number == len(typed) - 1:
                self._keep_running(command, shows)
                continue
            ended = subprocess.run(
                ["sh", "-c", command], cwd=self._here, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
            self._compare(shows, ended.stdout)
            assert (ended.returncode != 0) == ("error[" in shows), f"{command}: exit code {ended.returncode}"

    def _meant(self, command: str) -> str:
        for token, value in self._known.items():
            command = command.replace(token, value)
        assert not any(token in command for token in self.page.varies), "the page has not shown yet what stands here"
        return command

    def _keep_running(self, command: str, shows: str) -> None:
        self._leave_first_terminal()
        self._first = Terminal(command, self._here, self._environment)
        self._compare(shows, self._first.take(shows.count("\n")))

    def _go_on(self, shows: str) -> None:
        assert self._first is not None, "nothing is running in the first terminal"
        code, printed = self._first.end()
        self._compare(shows, printed)
        assert (code != 0) == ("error[" in shows), f"exit code {code}"
        self._first = None

    def _leave_first_terminal(self) -> None:
        """A command whose end the page does not show was killed, and printed nothing more."""
        if self._first is not None:
            code, printed = self._first.end()
            assert (code, printed) == (-signal.SIGKILL, ""), (
                f"the first terminal ends with {code} after {printed!r}; the page does not show it"
            )
            self._first = None

    def _compare(self, shows: str, printed: str) -> None:
        printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines() if not line.startswith(ROOT_WARNING))
        found = re.fullmatch(self._pattern(shows), printed)
        assert found is not None, f"the page shows\n{shows}\nand this was printed\n{printed}"
        self._known |= {token: found[f"t{n}"] for n, token in enumerate(self.page.varies) if f"t{n}" in found.re.groupindex}

    def _pattern(self, shows: str) -> str:
        """The page's text as a regular expression: what varies by its shape, everything else to the letter."""
        tokens = {f"t{n}": token for n, token in enumerate(self.page.varies)}
        shapes = {name: re.escape(token) for name, token in tokens.items()} | _SHAPES
        parts, end, seen = [], 0, set()
        for piece in re.finditer("|".join(f"(?P<{name}>{shape})" for name, shape in shapes.items()), shows):
            name = str(piece.lastgroup)
            parts.append(re.escape(shows[end : piece.start()]))
            end = piece.end()
            if name in _SHAPES:
                parts.append(_SHAPES[name])
            elif tokens[name] in self._known:
                parts.append(re.escape(self._known[tokens[name]]))
            else:
                parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{self.page.varies[tokens[name]]})")
                seen.add(name)
        return "".join([*parts, re.escape(shows[end:])])


def drawn(kind: str) -> str:
    """The diagram of one kind of operation."""
    _, _, section = drawing.page().partition(f"\n## {kind}\n\n```mermaid\n")
    assert section, f"there is no drawing of {kind}"
    return section.partition("```\n")[0]
