"""`holdfast new`: makes a folder with a first worker or pipeline, which runs without changes, without a network and without a key."""

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
from holdfast.operator.trust import TrustBook, TrustRefused

app = typer.Typer(help="Make the files of a new worker or pipeline.", no_args_is_help=True, rich_markup_mode=None)

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_WORKER, _PIPELINE = "page-facts", "town-notices"
"""The names in the templates. They are replaced by the new name, so each template itself is complete."""
_DRAWING: Final = "(drawing)"
"""This word in a template's page is replaced by the drawing of the new pipeline."""
_KEPT_AS_TEXT: Final = ".txt"
"""The suffix of a template's Python files, so that tools do not treat them as Holdfast's own code."""


@app.command("worker")
def worker(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The worker's id: letters, digits, - and _. The folder is called the same.")],
    folder: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where to make its folder. Without it: here.")] = Path(),
) -> None:
    """Make a folder with a worker that runs: its page, its function, an example input, a test, and recorded answers.

    No file is overwritten: an existing folder of that name is refused. The new folder is trusted, unless another user could change it.
    """
    made = _made(_checked(name, "worker"), folder, "worker", _WORKER)
    module, here = _module(name), shlex.quote(str(made))
    say(f"run it:   cd {here} && holdfast run {module}.py --input @case.json --key first")
    say("          kill -9 it while it saves, and run the same command again: facts.jsonl gets its line once")
    say(f"test it:  pytest {here}")


@app.command("pipeline")
def pipeline(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The pipeline's id: letters, digits, - and _. The folder is called the same.")
    ],
    folder: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where to make its folder. Without it: here.")] = Path(),
) -> None:
    """Make a folder with a pipeline that runs: its page, two workers, a step, an example input, and a test.

    No file is overwritten: an existing folder of that name is refused. The new folder is trusted, unless another user could change it.
    """
    made = _made(_checked(name, "pipeline"), folder, "pipeline", _PIPELINE)
    here = shlex.quote(str(made))
    say(f"check it:  cd {here} && holdfast check {name}.md")
    say(f"run it:    cd {here} && holdfast run {name}.md --input @case.json --key first")
    say(f"test it:   pytest {here}")


def _made(name: str, folder: Path, template: str, called: str) -> Path:
    """Make the folder from a template, print its files, and trust it. If it cannot be trusted, a warning is printed. `called` is the name
    in the template, which `name` replaces."""
    made = _written(name, folder, template, called)
    for file in sorted(made.iterdir()):
        print(file)
    try:
        TrustBook().add(made)
    except TrustRefused as refused:
        say("\n".join(f"warning: {printable(line)}" for line in f"the folder is not trusted: {refused}".split("\n")))
    return made


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidParameter(
            f"{name!r:.100} is not a valid name of a {what}: it begins with a letter, then letters, digits, - and _, 64 characters at most."
        )
    module = _module(name)
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "holdfast":
        raise InvalidParameter(
            f"A {what} called {name!r} would need a file {module}.py, but Python or Holdfast uses this name. Choose another name."
        )
    return name


def _module(name: str) -> str:
    return name.lower().replace("-", "_")


def _written(name: str, folder: Path, template: str, called: str) -> Path:
    """Make the new folder, with all its files or not at all. Raises InvalidParameter if it exists or cannot be made."""
    target = folder / name
    if target.exists() or target.is_symlink():
        raise InvalidParameter(f"{target} exists already; nothing was written. Choose another name, or another folder with --in.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
        try:
            for file, text in _files(name, template, called).items():
                (draft / file).write_text(text, encoding="utf-8")
            draft.chmod(0o777 & ~_umask())
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise InvalidParameter(f"{target} could not be made: {error.strerror}.") from None
    return target


def _files(name: str, template: str, called: str) -> dict[str, str]:
    def renamed(text: str) -> str:
        return text.replace(called, name).replace(_module(called), _module(name))

    kept = resources.files("holdfast.cli") / "templates" / template
    files = {renamed(file.name).removesuffix(_KEPT_AS_TEXT): renamed(file.read_text(encoding="utf-8")) for file in kept.iterdir()}
    if len(files) < len(list(kept.iterdir())):
        raise InvalidParameter(f"{name} is the name of another file of the new folder. Choose another name.")
    return {file: _drawn(text) if _DRAWING in text else text for file, text in files.items()}


def _drawn(page: str) -> str:
    """A page with the drawing of its pipeline, as `holdfast graph` draws it."""
    from holdfast.pipelines.draw.text import draw_text  # these modules are slow to load
    from holdfast.pipelines.page.reader import read_pipeline

    graph = read_pipeline(page.encode()).graph
    assert graph is not None, "the template of a pipeline has errors"
    return page.replace(_DRAWING, draw_text(graph, width=100).rstrip())


def _umask() -> int:
    """The umask of the process. A process can read its umask only by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
