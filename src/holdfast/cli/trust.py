"""`holdfast trust`: trusts folders, lists the trusted ones, and removes trust. Tools of a trusted folder may run outside the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.author_files.author_code import author_code
from holdfast.cli.arguments import JsonOption
from holdfast.cli.terminal import print_document, printable, say
from holdfast.hosts.sandbox.snapshot import code_folder
from holdfast.model.errors import InvalidParameter
from holdfast.operator.folder_ownership import faults_of
from holdfast.operator.trust import TrustBook, check_fit


def trust(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Folders. For a worker's file, the folder of the file is used.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Print the trusted folders.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust these folders no longer.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Trust folders: tools of workers in them run outside the sandbox, and their holdfast.toml applies in full.

    A folder that another user could change is refused. Folders inside a trusted folder are not trusted with it.
    """
    if list_ == bool(paths):
        raise InvalidParameter("Name folders, as `holdfast trust PATH` or `holdfast trust --remove PATH`, or use --list without a folder.")
    book = TrustBook()
    if list_:
        _print_list(book, json_output=json_output)
        return
    for path in paths or ():
        if remove:
            gone = book.remove(path) or (path.is_file() and book.remove(code_folder(path)))
            say(f"{'trusted no longer' if gone else 'was not trusted'}: {printable(str(path.resolve()))}")
            continue
        say(f"trusted: {printable(str(_added(book, path)))}")
    if json_output:
        _print_list(book, json_output=True)


def _added(book: TrustBook, path: Path) -> Path:
    if not path.exists():
        raise InvalidParameter(f"There is no file or folder {path}.")
    if path.is_dir():
        return book.add(path)
    code = author_code(path)
    if code is not None:
        check_fit(code.folder, code.files)
    return book.add(code_folder(path))


def _print_list(book: TrustBook, *, json_output: bool) -> None:
    """Print each folder of the record with its faults: why another user could change it, or that it is gone. A folder with faults is not
    trusted until they are repaired."""
    found = [(folder, faults_of(folder) if folder.is_dir() else ["there is no such folder"]) for folder in book.folders()]
    if json_output:
        print_document([{"folder": str(folder), "faults": faults} for folder, faults in found])
    elif not found:
        say("no folder is trusted")
    else:
        for folder, faults in found:
            print(printable(str(folder)) + "".join(f"\n  {printable(fault)}" for fault in faults))
