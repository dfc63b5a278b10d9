"""What of a worker's file would run outside the sandbox: its tools, with the folder and the files that they come from. Read, never run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.hosts.sandbox.admitting import check_page
from holdfast.hosts.sandbox.snapshot import code_folder, gather, ours
from holdfast.library import find
from holdfast.workers.tools.declaring import Declared, declarations_of


class AuthorCode(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a worker's file. A tool's process imports the whole file and what the file imports."""

    folder: Path
    tools: tuple[Declared, ...]
    files: tuple[Path, ...]
    ready: bool
    """It is a worker of Holdfast's own library, which is as trusted as Holdfast."""

    @property
    def told(self) -> str:
        """The tools as people are asked about them, with the secrets that each may read."""
        return ", ".join(f"{tool.name} with {', '.join(tool.secrets)}" if tool.secrets else tool.name for tool in self.tools)


def author_code(worker: str | Path) -> AuthorCode | None:
    """The code of a worker's file, or of a ready worker's, that would run outside the sandbox; None where it has no tools of its own."""
    path = Path(worker)
    file = path if path.exists() else find(str(worker)) or path
    if not file.is_file():
        return None
    declared = declarations_of(file.read_bytes())
    if not declared.tools:
        return None
    pages = [(check_page(file, body.page), body.include) for body in declared.workers]
    found = [gather(file, page, include) for page, include in pages if page.is_file()]
    files = {path for each in found for path in each.values()}
    return AuthorCode(folder=code_folder(file), tools=declared.tools, files=tuple(sorted(files)), ready=ours(file))
