"""`holdfast check` of pipelines: a Python file is built in the sandbox, a page or a graph as JSON is read. Then each pipeline is checked
together with the contracts of its workers."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.author_files.worker_search import declares_pipelines, served_files, workers_for
from holdfast.cli.check_pages import counted
from holdfast.cli.terminal import printable, working
from holdfast.contract.terms import Problem, ProblemLevel
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.builder.declared import pipelines_of
from holdfast.pipelines.check.known import workers_of
from holdfast.pipelines.check.nested import with_pipelines
from holdfast.pipelines.check.table import GraphProblem
from holdfast.pipelines.check.whole import problems
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import Built, Graph, SourceLine, kind_of
from holdfast.pipelines.graph.graph_json import MAX_TEXT_BYTES, graph_from
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.reader import is_pipeline
from holdfast.workers.packages import Packages
from holdfast.workers.policy import Policy
from holdfast.workers.tools.declarations import declarations_of


class CheckedPipeline(msgspec.Struct, frozen=True):
    """A pipeline and its problems."""

    file: Path
    graph: Graph | None
    """The graph of the pipeline; None if the file could not be read or built."""
    problems: tuple[GraphProblem, ...]

    @property
    def ok(self) -> bool:
        return not any(problem.level is ProblemLevel.ERROR for problem in self.problems)

    def document(self) -> dict[str, Any]:
        """The result as `holdfast check --json` prints it."""
        graph = self.graph
        return {
            "file": str(self.file),
            "ok": self.ok,
            "pipeline": graph and graph.pipeline_id,
            "version": graph and graph.version,
            "problems": msgspec.to_builtins(self.problems),
        }

    def lines(self) -> Iterator[str]:
        """The result as `holdfast check` prints it."""
        file = printable(str(self.file))
        for problem in self.problems:
            where = f"{printable(problem.line.file)}:{problem.line.line}" if problem.line else file
            node = f" {printable(problem.node)}:" if problem.node is not None else ""
            told = f"{problem.message} {problem.cure}".rstrip()
            yield from (f"{where}: {problem.level.value}[{problem.code}]{node} {printable(line)}" for line in told.split("\n"))
        errors = sum(problem.level is ProblemLevel.ERROR for problem in self.problems)
        warnings = len(self.problems) - errors
        if self.graph is None or errors:
            yield f"{file}: {counted(errors, 'error')}, {counted(warnings, 'warning')}"
            return
        graph = self.graph
        yield f"{file}: {graph.pipeline_id} {graph.version} is fine, {counted(warnings, 'warning')}"
        kinds = Counter(kind_of(node) for node in graph.nodes)
        yield f"  {'nodes':<10} {', '.join(f'{count} {kind}' for kind, count in kinds.items()) or 'none'}"
        workers = sorted({worker for node in graph.nodes for worker in workers_of(node)})
        yield f"  {'runs':<10} {printable(', '.join(workers)) or 'no worker'}"


def has_pipelines(file: Path) -> bool:
    """Whether `holdfast check` must check a file as a pipeline: a `.json` file, a pipeline.md, or a Python file that declares pipelines or
    has mistakes in how it declares them. False for any other file, and for a page or a Python file that cannot be read. The file is not
    run."""
    if file.suffix == ".json":
        return True
    try:
        if file.suffix != ".py":
            return is_pipeline(file.read_bytes())
        source = file.read_bytes()
        found = pipelines_of(source)
        return bool(found.pipelines or (found.problems and not declarations_of(source).problems))
    except (OSError, ValueError):
        return False


def built_of(file: Path, isolation: str | None) -> list[Built]:
    """The graphs of a file: a Python file is built in the sandbox, a page or a `.json` file is read. `isolation` is how the build is
    isolated: `all` (also None) or `process`. Raises Rejected if the file cannot be read or built."""
    try:
        if file.suffix == ".json":
            with file.open("rb") as opened:
                graph = graph_from(opened.read(MAX_TEXT_BYTES + 1))
            contract_in(graph)
            return [Built(graph)]
        if isolation not in (None, "all", "process"):
            raise InvalidParameter(f"--isolation is {isolation!r:.50}; it must be all or process.")
        policy = Policy(isolation="process" if isolation == "process" else "all")
        with (
            working(f"building {file}", only_in_terminal=True),
            tempfile.TemporaryDirectory(prefix="holdfast-check-") as folder,
        ):
            return asyncio.run(build(file, Packages(Path(folder)), policy))
    except OSError as error:
        raise InvalidParameter(f"{file} could not be read: {error.strerror}.") from None


def checked_pipelines(file: Path, more: Sequence[Path], isolation: str | None) -> list[CheckedPipeline]:
    """The pipelines of a file with their problems. `more` are files of further workers and pipelines that they may name. If the file cannot
    be read or built, the result is one element without a graph."""
    try:
        built = built_of(file, isolation)
    except Rejected as wrong:
        problem = GraphProblem(level=ProblemLevel.ERROR, code=wrong.code, node=None, line=None, message=str(wrong), cure="")
        of_page = _of_page(file, wrong.problems) if isinstance(wrong, PipelineInvalid) else ()
        return [CheckedPipeline(file, None, of_page or (problem,))]
    inner = [one.graph for other in _beside(file, more) for one in _built_or_none(other, isolation)]
    workers = with_pipelines(workers_for(file, more), [*inner, *(one.graph for one in built)])
    return [CheckedPipeline(file, one.graph, (*_of_page(file, one.warnings), *problems(one.graph, workers, one.lines))) for one in built]


def _of_page(file: Path, told: Sequence[Problem]) -> tuple[GraphProblem, ...]:
    """The problems of a page, in the form that the problems of a graph have."""
    return tuple(
        GraphProblem(
            level=each.level,
            code=each.code,
            node=None,
            line=SourceLine(str(file), each.line),
            message=f"{each.section}: {each.message}" if each.section else each.message,
            cure="",
        )
        for each in told
    )


def _beside(file: Path, more: Sequence[Path]) -> list[Path]:
    """The files with further pipelines: those of `more`, which the user named, and those that the pipelines of `file` and `more` name.
    `file` itself and graphs as JSON are not in the result."""
    return [other for other in served_files([file, *more]) if other.resolve() != file.resolve() and declares_pipelines(other)]


def _built_or_none(file: Path, isolation: str | None) -> list[Built]:
    """The graphs of a file that the checked file only refers to; empty if it has errors. Its errors are not reported here, but when the
    user checks that file itself."""
    try:
        return built_of(file, isolation)
    except Rejected:
        return []
