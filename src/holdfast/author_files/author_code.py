"""Finds the code of a worker's file that would run outside the sandbox: its tools, with their folder and files. The file is read, not
run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.hosts.sandbox.admitted_files import check_page
from holdfast.hosts.sandbox.snapshot import code_folder, gather, ours
from holdfast.library import find
from holdfast.workers.tools.declarations import Declared, declarations_of


class AuthorCode(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a worker's file declares. The process of a tool imports the whole file, and what the file imports."""

    folder: Path
    """The folder of the code. The user must trust it, unless `ready` is true."""
    tools: tuple[Declared, ...]
    files: tuple[Path, ...]
    """The files that Holdfast copies to run the file's workers: their code, their pages and what they include. A worker whose page does not
    exist adds none."""
    ready: bool
    """Whether the file belongs to Holdfast's own library, which is trusted like Holdfast itself."""

    @property
    def told(self) -> str:
        """The tools, each with the secrets that it may read, in words: "send_mail with SMTP_KEY, search"."""
        return ", ".join(f"{tool.name} with {', '.join(tool.secrets)}" if tool.secrets else tool.name for tool in self.tools)


def author_code(worker: str | Path) -> AuthorCode | None:
    """The code of a worker that would run outside the sandbox. `worker` is the path of the worker's file, or the id of a worker of
    Holdfast's library. Returns None if the file declares no tools, is a page, or does not exist. Raises IncludeRefused if the page that a
    worker in the file names may not be used, for example because it is outside the file's folder."""
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
