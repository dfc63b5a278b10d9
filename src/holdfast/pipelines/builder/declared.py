"""The pipelines that a file declares, read from its source. The file is not imported.

    p = Pipeline("vendor-research.md")                                    → a pipeline whose contract is on a page
    p = Pipeline("vendor-research", "1.0", inputs=TAKES, outputs={…})     → a pipeline whose contract is in the file

The line must be at the top level of the file, and assign to a name. Its arguments are literals, or names of literals at the top level of
the same file. For each wrong declaration, the first problem is reported, with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.workers.tools.declarations import CodeProblem, DeclarationInvalid, parsed

MAX_PIPELINES: Final = 20
"""A file declares at most this many pipelines."""
_MOST_LITERAL: Final = 256 * 1024
_ARGUMENTS: Final = ("page_or_id", "version", "inputs", "outputs", "purpose", "timeout", "max_tokens", "max_cost_usd", "gates", "include")
_POSITIONAL: Final = ("page_or_id", "version")
_OF_A_PAGE: Final = ("page_or_id", "gates", "include")
_CURE: Final = 'write p = Pipeline("page.md") at the top level of the file'


class DeclaredPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline of a file."""

    variable: str
    """The name to which the line assigns the pipeline."""
    line: int
    page: str | None = None
    """The name of the page that has the pipeline's contract. None: there is no page, and `given` has the arguments that make the
    contract."""
    given: Mapping[str, Any] = {}
    """The arguments of a pipeline without a page, as the author wrote them: page_or_id, version, inputs, outputs, purpose and limits. Empty
    for a pipeline with a page."""
    gates: str = "advised"
    include: tuple[str, ...] = ()


class DeclaredPipelines(msgspec.Struct, frozen=True):
    """The pipelines that a file declares without a mistake, and the problems of its declarations: for each wrong one the first problem. If
    there are problems, do not use the pipelines."""

    pipelines: tuple[DeclaredPipeline, ...] = ()
    problems: tuple[CodeProblem, ...] = ()


def pipelines_of(source: str | bytes) -> DeclaredPipelines:
    """Read the pipelines and the problems from the source of a file. No code runs."""
    tree = parsed(source)
    return DeclaredPipelines((), (tree,)) if isinstance(tree, CodeProblem) else _Reader(tree).read()


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names = set(_imported(tree))
        self._constants = dict(_constants(tree))

    def read(self) -> DeclaredPipelines:
        if not self._names:
            return DeclaredPipelines()
        found: dict[str, DeclaredPipeline] = {}
        problems: list[CodeProblem] = []
        top: set[ast.Call] = set()
        for variable, call in self._assigned():
            top.add(call)
            try:
                if variable in found:
                    raise DeclarationInvalid(
                        call, f"{variable} is a pipeline already, in line {found[variable].line}; give this one another name."
                    )
                found[variable] = self._declared(variable, call)
            except DeclarationInvalid as flaw:
                problems.append(flaw.problem)
        calls = (node for node in ast.walk(self._tree) if isinstance(node, ast.Call) and node not in top and self._makes(node))
        problems += [CodeProblem(call.lineno, f"This Pipeline has no name that the runner can find: {_CURE}.") for call in calls]
        if len(found) > MAX_PIPELINES:
            problems.append(CodeProblem(1, f"The file declares {len(found)} pipelines; at most {MAX_PIPELINES} are allowed."))
        return DeclaredPipelines(tuple(found.values()), tuple(sorted(problems, key=lambda problem: problem.line)))

    def _assigned(self) -> Iterator[tuple[str, ast.Call]]:
        for node in self._tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self._makes(call):
                    yield name, call
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call) if self._makes(call):
                    yield name, call
                case _:
                    pass

    def _makes(self, call: ast.Call) -> bool:
        match call.func:
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(value=ast.Name(id=name), attr="Pipeline"):
                return f"{name}.Pipeline" in self._names
            case _:
                return False

    def _declared(self, variable: str, call: ast.Call) -> DeclaredPipeline:
        given = self._arguments(call)
        name, version = given.get("page_or_id"), given.get("version")
        if not isinstance(name, str) or not name:
            raise DeclarationInvalid(call, f"A pipeline must name its page, or its id and its version: {_CURE}.")
        gates = given.get("gates", "advised")
        if gates not in ("advised", "required"):
            raise DeclarationInvalid(call, f"gates= is {gates!r:.80}; it must be 'advised' or 'required'.")
        include = given.get("include", ())
        if not isinstance(include, list | tuple) or not all(isinstance(each, str) and each for each in include):
            raise DeclarationInvalid(call, f"include= is {include!r:.80}; it must be a list of texts.")
        rest = {"variable": variable, "line": call.lineno, "gates": gates, "include": tuple(include)}
        if name.endswith(".md"):
            odd = next((key for key in given if key not in _OF_A_PAGE), None)
            if odd is not None:
                raise DeclarationInvalid(call, f"{odd}= belongs to the page {name!r:.80}, not to the file. Write it on the page.")
            return DeclaredPipeline(page=name, **rest)
        if not isinstance(version, str):
            raise DeclarationInvalid(
                call, f"The pipeline {name!r:.80} needs a version, a text, after its id: Pipeline({name!r:.80}, '1.0', …)."
            )
        for side in ("inputs", "outputs"):
            if not isinstance(given.get(side), dict):
                raise DeclarationInvalid(call, f"The pipeline {name!r:.80} needs {side}=, the JSON Schema of its {side}.")
        return DeclaredPipeline(given={key: given[key] for key in given if key not in ("gates", "include")}, **rest)

    def _arguments(self, call: ast.Call) -> dict[str, Any]:
        if len(call.args) > len(_POSITIONAL) or any(isinstance(each, ast.Starred) for each in call.args):
            raise DeclarationInvalid(
                call,
                f"Without names, Pipeline(…) takes its page, or its id and its version; name the rest: {', '.join(_ARGUMENTS[2:])}.",
            )
        pairs: Sequence[tuple[str, ast.expr]] = [
            *zip(_POSITIONAL, call.args, strict=False),
            *((word.arg or "**", word.value) for word in call.keywords),
        ]
        given: dict[str, Any] = {}
        for name, node in pairs:
            if name not in _ARGUMENTS or name in given:
                raise DeclarationInvalid(node, f"Pipeline(…) does not know {name}= here; it takes {', '.join(_ARGUMENTS)}, each once.")
            try:
                given[name] = _literal(node, self._constants)
            except (ValueError, TypeError, RecursionError):
                told = f"`{ast.unparse(node)[:80]}`"
                raise DeclarationInvalid(
                    node, f"Pipeline(…): {name}= must be a literal, because the file is read and not run; it is {told}."
                ) from None
        if codec.at_least(given, _MOST_LITERAL) > _MOST_LITERAL:
            raise DeclarationInvalid(
                call, f"The arguments of Pipeline(…) have more than {_MOST_LITERAL} characters. Make the schemas smaller."
            )
        return given


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names under which this file has imported Pipeline: `Pipeline`, `hf.Pipeline` or another name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "holdfast" and node.level == 0:
            yield from (alias.asname or alias.name for alias in node.names if alias.name == "Pipeline")
        elif isinstance(node, ast.Import):
            yield from (f"{alias.asname or alias.name}.Pipeline" for alias in node.names if alias.name == "holdfast")


def _constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The constants of a file, each with its value: names that get a literal by a line `name = …` at the top level, and that the file
    assigns nowhere else."""
    assigned: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            assigned[node.id] = assigned.get(node.id, 0) + 1
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if assigned.get(name) == 1:
                try:
                    yield name, ast.literal_eval(value)
                except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                    continue
            case _:
                pass


def _literal(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """The value of a literal; in lists, tuples and dicts it may use names of constants. A tuple becomes a list, but not inside a constant
    or a set. Raises ValueError or TypeError if it is not a literal, and RecursionError if it is nested too deep. The value of a constant is
    shared, not copied, so that the cost depends only on the length of the text."""
    match node:
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.Dict(keys=keys, values=values):
            return {_literal(_key(key), constants): _literal(value, constants) for key, value in zip(keys, values, strict=True)}
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_literal(element, constants) for element in elements]
        case _:
            return ast.literal_eval(node)


def _key(node: ast.expr | None) -> ast.expr:
    if node is None:
        raise ValueError("** is no literal")
    return node
