"""The code of a worker's file that would run outside the sandbox: its tools, their folder and files. The file is read, never run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.hosts.sandbox.admitted_files import check_page
from holdfast.hosts.sandbox.snapshot import code_folder, gather, ours
from holdfast.library import find
from holdfast.workers.tools.declarations import Declared, declarations_of


class AuthorCode(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a worker's file. A tool's process imports the whole file and what the file imports."""

    folder: Path
    tools: tuple[Declared, ...]
    files: tuple[Path, ...]
    ready: bool
    """Whether it is a worker of Holdfast's own library, which is trusted like Holdfast itself."""

    @property
    def told(self) -> str:
        """The tools and the secrets that each may read, as the question to the user shows them."""
        return ", ".join(f"{tool.name} with {', '.join(tool.secrets)}" if tool.secrets else tool.name for tool in self.tools)


def author_code(worker: str | Path) -> AuthorCode | None:
    """The code of a worker's file, or of a ready worker, that would run outside the sandbox; None if it has no tools of its own."""
    path = Path(worker)
    file = path if path.exists() else find(str(worker)) or path
    if not file.is_file() or file.suffix == ".md":  # a page is data, and has no tools
        return None
    declared = declarations_of(file.read_bytes())
    if not declared.tools:
        return None
    pages = [(check_page(file, body.page), body.include) for body in declared.workers]
    found = [gather(file, page, include) for page, include in pages if page.is_file()]
    files = {path for each in found for path in each.values()}
    return AuthorCode(folder=code_folder(file), tools=declared.tools, files=tuple(sorted(files)), ready=ours(file))
