"""A folder as a stranger left it, and the real `holdfast` in it, for the tests of trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.operator.trust import TrustBook, configuration_folder
from tests.surface.cli_program import Program
from tests.workers.pages import page

# Its first lines run wherever the file is imported: outside the sandbox they leave a mark.
WITH_A_TOOL = """
from pathlib import Path

try:
    (Path({mark!r}) / "ran").touch()
except OSError:
    pass

from holdfast import ToolCall, tool, worker

@tool(effect="write", secrets=["PAY_KEY"]{approval})
def pay(call: ToolCall, cents: int) -> dict:
    return {{"paid": cents}}

@worker("shop.md")
async def shop(inputs, ctx):
    return await ctx.tools.pay(cents=5)
"""
WITHOUT = """
from pathlib import Path

from holdfast import worker

@worker("shop.md")
async def shop(inputs, ctx):
    try:
        (Path({mark!r}) / "ran").touch()
    except OSError:
        return {{"locked": True}}
    return {{"locked": False}}
"""
RUN = ("run", "shop.py", "--input", "{}")


class Stranger(Program):
    """A folder as a stranger left it, the user's configuration, and the mark of code that ran outside the sandbox."""

    def __init__(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        super().__init__(tmp_path / "folder")
        self.mark = tmp_path / "mark"
        self.mark.mkdir()
        self.environment |= {"XDG_CONFIG_HOME": str(tmp_path / "configuration"), "PAY_KEY": "k"}
        for name in ("HOLDFAST_CONFIG", "HOLDFAST_CASSETTE"):
            self.environment.pop(name, None)
        (self.folder / "shop.md").write_text(page("shop", "pay", attempts=1))

    def write(self, source: str, approval: str = "", **files: str) -> None:
        """The worker's file, and files beside it."""
        (self.folder / "shop.py").write_text(source.format(mark=str(self.mark), approval=approval))
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_text(text)

    @property
    def book(self) -> TrustBook:
        return TrustBook(configuration_folder(self.environment))

    @property
    def ran_outside(self) -> bool:
        """Whether code of the folder ran outside the sandbox."""
        return (self.mark / "ran").exists()

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this very process into the folder: what a command would do is asked without starting one."""
        monkeypatch.chdir(self.folder)
        for name in ("HOLDFAST_CONFIG", "HOLDFAST_CASSETTE", "HOLDFAST_STORE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", self.environment["XDG_CONFIG_HOME"])
