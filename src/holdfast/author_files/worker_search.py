"""Finds the workers and pipelines that a file names: in the file itself, then in the other files of its folder, then (only for
`workers_for`) in files that the caller gives, then in Holdfast's library. Files are read, never run.

Only ids that are written as text in the code are found. For an id that the code computes, name the worker's file (`workers=`, `--worker`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.contract.page_reader import MAX_PAGE_BYTES, read
from holdfast.contract.terms import Contract
from holdfast.hosts.sandbox.admitted_files import IncludeRefused, check_page
from holdfast.library import WORKERS, find
from holdfast.pipelines.builder.build_page import page_in
from holdfast.pipelines.builder.contract import contract_of_arguments
from holdfast.pipelines.builder.declared import DeclaredPipeline, pipelines_of
from holdfast.pipelines.check.known import Inside, Known, WorkersById, known_worker, workers_of
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.reader import is_pipeline
from holdfast.workers.tools.declarations import declarations_of

PAGE: Final = ".md"
"""The file name of a page ends with this."""
_MOST_FILES: Final = 500
"""At most this many other files of a folder are read."""
_MOST_BYTES: Final = 1024 * 1024 + 1
_INNER: Final = frozenset({"what its nodes do"})


class _Found(NamedTuple):
    """A worker or a pipeline that a file declares."""

    file: Path
    worker_id: str | None
    """The id of the worker or pipeline; None if its page or its declaration cannot be read or has errors."""
    known: Known | None
    """What a check of pipelines needs to know of it. None if `worker_id` is None, if a worker's file has errors, or if the search needs
    only its file."""


def workers_for(file: Path, more: Sequence[Path] = ()) -> WorkersById:
    """The workers and pipelines that a pipeline of this file may name, by id and version. `more` are files that the caller gives. Workers
    and pipelines whose file or page cannot be read or has errors are left out."""
    ready = [path for name in WORKERS if (path := find(name)) is not None]
    known: dict[str, dict[str, Known]] = {}
    for found in _first(*_beside(file), more, ready):
        if found.known is not None:
            known.setdefault(found.known.contract.worker_id, {})[found.known.contract.version] = found.known
    return known


def worker_files(function_file: Path) -> list[Path]:
    """The files of the workers and pipelines that the durable functions of a file run with calls such as `context.run("web-scrape-worker",
    …)`. If one of these workers is not found, the result also has the files whose pages cannot be read or have errors: one of these pages
    may be the page of that worker."""
    wanted = set(_run_by(function_file))
    if not wanted:
        return []
    files = _files_of(function_file, wanted)
    if wanted <= {found.worker_id for found in files}:
        broken = []
    else:  # a page that cannot be read may be the page of a worker that was not found: serving it says what is wrong
        broken = [found.file for found in _first(*_beside(function_file)) if found.worker_id is None]
    return list(dict.fromkeys([*(found.file for found in files), *broken]))


def served_files(files: Sequence[Path]) -> list[Path]:
    """The files to serve: first the files of the workers and pipelines that the pipelines in `files` name (and that these pipelines name,
    and so on), then `files` themselves. Each file is in the list once."""
    given = {file.resolve() for file in files}
    served: dict[Path, Path] = {}
    waiting = list(files)
    for file in waiting:  # the list grows during the loop
        if file.resolve() not in served:
            served[file.resolve()] = file
            waiting += [found.file for found in _files_of(file, set(_texts(file)))] if declares_pipelines(file) else []
    return sorted(served.values(), key=lambda file: file.resolve() in given)


def declares_pipelines(file: Path) -> bool:
    """Whether a file declares a pipeline, or is the page of a pipeline; also if the pipeline has mistakes."""
    if file.suffix == PAGE:
        return is_pipeline(_source(file))
    if file.suffix != ".py" or not file.is_file() or b"Pipeline(" not in (source := file.read_bytes()):
        return False
    declared = pipelines_of(source)
    return bool(declared.pipelines or declared.problems)


def _files_of(file: Path, wanted: set[str]) -> list[_Found]:
    """The workers and pipelines with these ids: those that the file or another file of its folder declares, then those of the library."""
    here = [found for found in _first(*_beside(file)) if found.worker_id in wanted]
    left = sorted(wanted - {found.worker_id for found in here})
    return [*here, *(_Found(ready, worker_id, None) for worker_id in left if (ready := find(worker_id)) is not None)]


def _beside(file: Path) -> tuple[list[Path], list[Path]]:
    both = (other for ending in ("*.py", f"*{PAGE}") for other in file.parent.glob(ending))
    others = sorted(other for other in both if other.is_file() and other.resolve() != file.resolve())
    return [file], others[:_MOST_FILES]


def _first(*tiers: Iterable[Path]) -> Iterator[_Found]:
    """The workers and pipelines of these groups of files. If an earlier group has a worker, a later group's worker with the same id is left
    out."""
    known: set[str | None] = set()
    for files in tiers:
        added = [found for found in _declared_in(files) if found.worker_id is None or found.worker_id not in known]
        known |= {found.worker_id for found in added}
        yield from added


def _declared_in(files: Iterable[Path]) -> Iterator[_Found]:
    for file in files:
        source = _source(file)
        if file.suffix == PAGE:
            yield from [_found_page(file)] if is_pipeline(source) else []
            continue
        declared = declarations_of(source)
        for body in declared.workers:
            contract = _page(file, body.page, [tool.name for tool in declared.tools])
            known = None if contract is None or declared.problems else known_worker(contract, declared.tools)
            yield _Found(file, None if contract is None else contract.worker_id, known)
        for pipeline in pipelines_of(source).pipelines:
            contract = _pipeline(file, pipeline)
            yield _found_pipeline(file, contract)


def _found_pipeline(file: Path, contract: Contract | None) -> _Found:
    known = (
        None if contract is None else Known(contract, _INNER, _INNER, Inside())
    )  # nothing inside the pipeline is looked at here: that is done when the pipeline itself is checked
    return _Found(file, None if contract is None else contract.worker_id, known)


def _found_page(file: Path) -> _Found:
    try:
        return _found_pipeline(file, page_in(file).contract)
    except (OSError, PipelineInvalid):
        return _found_pipeline(file, None)


def _run_by(file: Path) -> Iterator[str]:
    """The ids in calls such as `context.run("web-scrape-worker", …)`, without a version (`@1`)."""
    for node in _nodes(file):
        match node:
            case ast.Call(func=ast.Attribute(attr="run"), args=[ast.Constant(value=str(worker)), *_]):
                yield worker.partition("@")[0]
            case _:
                pass


def _texts(file: Path) -> Iterator[str]:
    """Every text constant of a Python file, because any of them may be the id of a worker; for a page, the ids that its nodes name. A
    version is cut off: `w@1` gives `w`."""
    if file.suffix == PAGE:
        graph = page_in(file).graph
        return iter([] if graph is None else [worker.partition("@")[0] for node in graph.nodes for worker in workers_of(node)])
    return (node.value.partition("@")[0] for node in _nodes(file) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _nodes(file: Path) -> Iterator[ast.AST]:
    try:
        yield from ast.walk(ast.parse(_source(file)))
    except (SyntaxError, ValueError, RecursionError):
        return


def _page(file: Path, page: str, tools: Sequence[str] = ()) -> Contract | None:
    try:
        return read(_bytes(check_page(file, page), MAX_PAGE_BYTES + 1), tools=tools).contract
    except (OSError, IncludeRefused):
        return None


def _pipeline(file: Path, declared: DeclaredPipeline) -> Contract | None:
    if declared.page is not None:
        return _page(file, declared.page)
    try:
        return contract_of_arguments(declared.given)
    except PipelineInvalid:
        return None


def _source(file: Path) -> bytes:
    """The beginning of a file; empty if it cannot be read."""
    try:
        return _bytes(file, _MOST_BYTES)
    except OSError:
        return b""


def _bytes(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(most)
