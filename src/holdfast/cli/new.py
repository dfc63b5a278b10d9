"""`holdfast new`: a folder to begin with. What it writes works as it is, without a network and without a key."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.terminal import printable, say
from holdfast.model.errors import InvalidParameter
from holdfast.service.trust import TrustBook, TrustRefused

app = typer.Typer(help="Begin something new.", no_args_is_help=True, rich_markup_mode=None)

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_TEMPLATE: Final = "page-facts"
"""The worker that the template is: its name is exchanged for the new one, so what lies in the package is a whole worker."""
_KEPT_AS_TEXT: Final = ".txt"
"""A template's Python files carry it, so that nobody takes them for ours."""


@app.command("worker")
def worker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The worker's id: letters, digits, - and _. The folder is called the same.")],
    folder: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where to make its folder. Without it: here.")] = Path(),
) -> None:
    """Make a folder with a worker that runs: its page, its function, a case to run it on, a test, and recorded answers.

    Nothing is ever overwritten: a folder of that name is refused. The new folder is trusted: what is in it, you have just made.
    """
    made = _written(_checked(name), folder)
    for file in sorted(made.iterdir()):
        print(file)
    try:
        TrustBook().add(made)
    except TrustRefused as refused:
        say("\n".join(f"warning: {printable(line)}" for line in f"the folder is not trusted: {refused}".split("\n")))
    module, here = _module(name), shlex.quote(str(made))
    say(f"run it:   cd {here} && holdfast run {module}.py --input @case.json --key first")
    say("          kill -9 it while it saves, and run the same command again: facts.jsonl gets its line once")
    say(f"test it:  pytest {here}")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            f"{name!r:.100} is no name for a worker: it begins with a letter, then letters, digits, - and _, 64 at most."
        )
    module = _module(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "holdfast":
        raise InvalidParameter(f"A worker called {name!r} would need a file {module}.py, and that is a name of Python's own. Take another.")
    return name


def _module(name: str) -> str:
    return name.lower().replace("-", "_")


def _written(name: str, folder: Path) -> Path:
    """The new folder, which appears whole or not at all."""
    target = folder / name
    if target.exists() or target.is_symlink():
        raise InvalidParameter(
            f"There is something called {target} already; nothing was written. Take another name, or another folder with --in."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        try:
            for file, text in _files(name).items():
                (draft / file).write_text(text, encoding="utf-8")
            draft.chmod(0o777 & ~_umask())
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise InvalidParameter(f"{target} could not be made: {error.strerror}.") from None
    return target


def _files(name: str) -> dict[str, str]:
    def renamed(text: str) -> str:
        return text.replace(_TEMPLATE, name).replace(_module(_TEMPLATE), _module(name))

    template = resources.files("holdfast.cli") / "templates" / "worker"
    return {renamed(file.name).removesuffix(_KEPT_AS_TEXT): renamed(file.read_text(encoding="utf-8")) for file in template.iterdir()}


def _umask() -> int:
    """What new folders may not be; asking for it means setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
