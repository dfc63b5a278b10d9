"""What a worker's file declares, read from its source: the file is not run for this.

    @tool(effect="write", secrets=["PAY_KEY"], approval=True)      → a tool, its arguments from the signature
    @refund_payment.reconcile                                      → that tool can find out the outcome of a lost call
    @worker("refund-worker.md", include=["rules.json"])            → the worker's function and page

Every argument of these decorators must be a literal. The problems of all declarations are reported together, each with its line; of one
decorator, only the first problem is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.costs import SchemaInvalid, cost_of
from holdfast.workers.tools.seam import Effect
from holdfast.workers.tools.signatures import arguments_of

_TOOL_OPTIONS: Final = ("name", "effect", "secrets", "approval", "timeout_seconds")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class CodeProblem(Struct, frozen=True):
    """A mistake in a file: the line, from 1, and what is wrong there."""

    line: int
    message: str


class Declared(Struct, frozen=True, kw_only=True):
    """A tool that the file declares."""

    name: str
    """The name by which workers call it."""
    function: str
    """The name of its function."""
    line: int
    effect: Effect
    secrets: tuple[str, ...]
    """The names of the secrets that it gets."""
    approval: bool
    """Whether a person must approve each call."""
    timeout_seconds: float | None
    """After how many seconds a call is ended; None: only the deadline of the attempt ends it."""
    reconciles: bool
    """Whether it has a reconcile function, which finds out whether a call took place whose answer was lost."""
    arguments_schema: Mapping[str, Any]


class DeclaredWorker(Struct, frozen=True, kw_only=True):
    """A worker that the file declares."""

    function: str
    page: str
    line: int
    include: tuple[str, ...]


class Declarations(Struct, frozen=True, kw_only=True):
    """The tools and workers that a file declares. If `problems` is not empty, nothing that the file declares should be used."""

    tools: tuple[Declared, ...]
    workers: tuple[DeclaredWorker, ...]
    problems: tuple[CodeProblem, ...]


def declarations_of(source: str | bytes) -> Declarations:
    """Read what a file declares from its source, without running it. Mistakes are in `problems`; nothing is raised for them."""
    tree = parsed(source)
    return Declarations(tools=(), workers=(), problems=(tree,)) if isinstance(tree, CodeProblem) else _Reader(tree).read()


def parsed(source: str | bytes) -> ast.Module | CodeProblem:
    """The syntax tree of a file; or, if the source is not valid Python, the problem that says why."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return CodeProblem(getattr(error, "lineno", None) or 1, f"The file is not Python: {getattr(error, 'msg', error)}.")


class DeclarationInvalid(Exception):
    """A declaration is wrong. The reader of declarations notes the problem and continues."""

    def __init__(self, node: ast.AST, message: str) -> None:
        super().__init__(message)
        self.problem = CodeProblem(getattr(node, "lineno", 1), message)


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names = dict(_imported(tree))
        self._problems: list[CodeProblem] = []
        self._tools: dict[str, Declared] = {}
        self._workers: list[DeclaredWorker] = []
        self._reconciling: dict[str, ast.expr] = {}

    def read(self) -> Declarations:
        top = [node for node in self._tree.body if isinstance(node, _Function)]
        for function in top:
            self._function(function)
        for node in ast.walk(self._tree):
            if isinstance(node, _Function) and node not in top and any(self._kind(d) in ("tool", "worker") for d in node.decorator_list):
                self._problems.append(
                    CodeProblem(
                        node.lineno, f"{node.name} is not at the top level of the file; @tool and @worker must stand at the top level."
                    )
                )
        self._reconcilers()
        self._twice()
        problems = tuple(sorted(self._problems, key=lambda problem: problem.line))
        return Declarations(tools=tuple(self._tools.values()), workers=tuple(self._workers), problems=problems)

    def _function(self, function: _Function) -> None:
        for decorator in function.decorator_list:
            try:
                match self._kind(decorator):
                    case "tool":
                        declared = self._tool(function, decorator)
                        if function.name in self._tools:
                            raise DeclarationInvalid(
                                function, f"Two tool functions are named {function.name}; the second would replace the first. Rename one."
                            )
                        self._tools[function.name] = declared
                    case "worker":
                        self._workers.append(_worker(function, decorator))
                    case "reconcile":
                        assert isinstance(decorator, ast.Attribute)
                        self._reconciling[ast.unparse(decorator.value)] = decorator
                    case _:
                        pass  # a decorator of another package
            except DeclarationInvalid as flaw:
                self._problems.append(flaw.problem)

    def _kind(self, decorator: ast.expr) -> str | None:
        """Which decorator this is: `tool`, `worker` or `reconcile`, even if the file imports it under another name; None for any other
        decorator."""
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(target, ast.Name):
            return self._names.get(target.id)
        if isinstance(target, ast.Attribute):
            if isinstance(target.value, ast.Name) and self._names.get(target.value.id) == "holdfast":
                return target.attr if target.attr in ("tool", "worker") else None
            if target.attr == "reconcile" and not isinstance(decorator, ast.Call):
                return "reconcile"
        return None

    def _tool(self, function: _Function, decorator: ast.expr) -> Declared:
        options = _options(decorator, _TOOL_OPTIONS, f"@tool of {function.name}")
        effect = _typed(options, "effect", str, "write")
        if effect not in (Effect.READ, Effect.WRITE):
            raise DeclarationInvalid(decorator, f"@tool of {function.name}: effect is {effect!r}; it must be 'read' or 'write'.")
        name = _typed(options, "name", str, function.name)
        if not name.isidentifier() or name.startswith("_"):
            raise DeclarationInvalid(
                decorator, f"@tool of {function.name}: the name {name!r} must be a Python identifier without _ at its beginning."
            )
        seconds = _typed(options, "timeout_seconds", (int, float), None)
        if seconds is not None and not 0 < seconds < 86_400 * 366:
            raise DeclarationInvalid(
                decorator, f"@tool of {function.name}: timeout_seconds is {seconds}; it must be above 0 and below a year."
            )
        schema, trouble = arguments_of(function)
        if trouble is not None:
            raise DeclarationInvalid(function, f"The tool {function.name}: {trouble}")
        try:
            cost_of(schema)
        except SchemaInvalid as wrong:
            raise DeclarationInvalid(function, f"The tool {function.name}: its signature is too large: {wrong}.") from None
        return Declared(
            name=name,
            function=function.name,
            line=function.lineno,
            effect=Effect(effect),
            secrets=_texts(options, "secrets"),
            approval=_typed(options, "approval", bool, False),
            timeout_seconds=None if seconds is None else float(seconds),
            reconciles=False,
            arguments_schema=schema,
        )

    def _reconcilers(self) -> None:
        for name, decorator in self._reconciling.items():
            if name not in self._tools:
                self._problems.append(CodeProblem(decorator.lineno, f"@{name}.reconcile: this file has no function {name} with @tool."))
                continue
            self._tools[name] = replace(self._tools[name], reconciles=True)

    def _twice(self) -> None:
        seen: dict[str, int] = {}
        for tool in self._tools.values():
            if tool.name in seen:
                self._problems.append(
                    CodeProblem(tool.line, f"Two tools are named {tool.name!r}; the other is in line {seen[tool.name]}. Rename one.")
                )
            seen[tool.name] = tool.line


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Pairs: a name that the file imports, and what it stands for: `tool`, `worker` or the package `holdfast`. Other imports are left
    out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "holdfast" and node.level == 0:
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names if alias.name in ("tool", "worker"))
        elif isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, "holdfast") for alias in node.names if alias.name == "holdfast")


def _worker(function: _Function, decorator: ast.expr) -> DeclaredWorker:
    what = f"@worker of {function.name}"
    if not isinstance(decorator, ast.Call):
        raise DeclarationInvalid(decorator, f'{what} must name its page: @worker("page.md").')
    options = _options(decorator, ("page", "include"), what, positional="page")
    page = _typed(options, "page", str, "")
    if not page:
        raise DeclarationInvalid(decorator, f'{what} must name its page: @worker("page.md").')
    return DeclaredWorker(
        function=function.name,
        page=page,
        line=function.lineno,
        include=_texts(options, "include"),
    )


class _Options(Struct):
    what: str
    node: ast.expr
    values: dict[str, Any]


def _options(decorator: ast.expr, known: tuple[str, ...], what: str, positional: str | None = None) -> _Options:
    options = _Options(what, decorator, {})
    if not isinstance(decorator, ast.Call):
        return options
    if len(decorator.args) > (1 if positional else 0):
        raise DeclarationInvalid(
            decorator, f"{what} has too many arguments without a name. Pass them by name: {', '.join(name + '=' for name in known)}."
        )
    given = [(positional or "", argument) for argument in decorator.args] + [(word.arg or "**", word.value) for word in decorator.keywords]
    for name, value in given:
        if name not in known:
            raise DeclarationInvalid(value, f"{what} does not know {name}{'=' if name != '**' else ''}; it accepts {', '.join(known)}.")
        try:
            options.values[name] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise DeclarationInvalid(
                value, f"{what}: {name}= must be a literal, because the file is read and not run; it is `{ast.unparse(value)[:80]}`."
            ) from None
    return options


def _typed(options: _Options, name: str, kind: Any, default: Any) -> Any:
    value = options.values.get(name, default)
    if value is default:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DeclarationInvalid(
            options.node,
            f"{options.what}: {name} is {value!r}, which has the wrong type. Write a text for name, effect and page, a number for "
            "timeout_seconds, and True or False for approval.",
        )
    return value


def _texts(options: _Options, name: str) -> tuple[str, ...]:
    value = options.values.get(name, ())
    if not isinstance(value, list | tuple | set) or not all(isinstance(item, str) and item for item in value):
        raise DeclarationInvalid(options.node, f"{options.what}: {name} is {value!r}; it must be a list of texts.")
    return tuple(value)
