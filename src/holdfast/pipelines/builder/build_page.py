"""From a pipeline.md to its graph. The runner reads the page itself, because a page is data. If the page has steps, the code of the steps
becomes a package."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.contract.page import PIPELINE_SPEC
from holdfast.contract.terms import Problem, ProblemLevel
from holdfast.hosts.sandbox.admitted_files import IncludeRefused, check_page
from holdfast.model.errors import InvalidParameter
from holdfast.pipelines.graph.graph import Built, SourceLine
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.field_reader import StepFunction
from holdfast.pipelines.page.reader import MAX_PAGE_BYTES, PipelinePage, read_pipeline
from holdfast.workers.packages import Packages
from holdfast.workers.tools.declarations import CodeProblem, parsed

_MOST_SOURCE: Final = 1024 * 1024


def page_in(file: Path) -> PipelinePage:
    """Read a page. If the file is larger than a page may be, only the first MAX_PAGE_BYTES + 1 bytes are read, and the result has the
    problem `page_too_large`. Raises PipelineInvalid if there is no such file."""
    try:
        with file.open("rb") as opened:
            return read_pipeline(opened.read(MAX_PAGE_BYTES + 1))
    except FileNotFoundError:
        raise PipelineInvalid(f"There is no file {file}.") from None


def built_page(file: Path, packages: Packages) -> Built:
    """The pipeline of a page. Blocks, because the code of its steps is copied into a package. Raises PipelineInvalid if there is no such
    file, or if the page or the code of its steps has errors: then the error lists them with their lines."""
    page = page_in(file)
    if page.graph is None:
        raise refusal_of(file, page.problems)
    graph = page.graph
    if page.steps:
        graph = msgspec.structs.replace(graph, steps=_package(file, page, packages))
    lines = {name: SourceLine(str(file), line) for name, line in page.lines.items()}
    return Built(graph, lines, page.problems, page.include)


def refusal_of(file: Path, problems: Sequence[Problem]) -> PipelineInvalid:
    """The error for a page that has problems. Its text lists the problems of level ERROR."""
    errors = [problem for problem in problems if problem.level is ProblemLevel.ERROR]
    told = "\n".join(f"{file}:{problem.line}: {problem.section}: {problem.message}" for problem in errors)
    return PipelineInvalid(f"{file} is not a pipeline:\n{told}", problems=problems)


def _package(file: Path, page: PipelinePage, packages: Packages) -> str:
    """Make the package with the code of the steps, and return its name. Raises PipelineInvalid if a file or a function is missing or
    refused."""
    first = page.steps[0]
    try:
        code = check_page(file, first.file)
        problems = list(_missing(code, page.steps))
        if not problems:
            return packages.keep(code, (), page.include).name
    except (IncludeRefused, InvalidParameter) as refused:
        problems = [_problem("include_refused", first.line, str(refused))]
    except OSError as error:
        problems = [_problem("step_missing", first.line, f"{first.file} could not be read: {error.strerror}.")]
    raise refusal_of(file, problems)


def _missing(code: Path, steps: Sequence[StepFunction]) -> list[Problem]:
    """A problem for each step whose function the file does not have, or one problem if the file cannot be used. The file is read, not
    run."""
    if not code.is_file():
        return [_problem("step_missing", steps[0].line, f"There is no file {steps[0].file} beside the page.")]
    with code.open("rb") as opened:
        tree = parsed(opened.read(_MOST_SOURCE))
    if isinstance(tree, CodeProblem):
        return [_problem("step_missing", steps[0].line, f"{steps[0].file}, line {tree.line}: {tree.message}")]
    known = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            known.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name for alias in node.names}
    return [
        _problem("step_missing", step.line, f"{step.file} has no function {step.function}. A step needs a plain `def` at the top level.")
        for step in steps
        if step.function not in known
    ]


def _problem(code: str, line: int, message: str) -> Problem:
    return Problem(ProblemLevel.ERROR, code, PIPELINE_SPEC, line, message)
