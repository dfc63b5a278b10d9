"""The project as text and as syntax trees: what the house rules read."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "holdfast"


@dataclass(frozen=True)
class Module:
    """One file of src/holdfast. `name` is its path below src/holdfast, as the rules write it."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(SRC).as_posix()

    @functools.cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    def inside(self, *places: str) -> bool:
        """Is this one of these files, or in one of these folders?"""
        return any(self.name == place or self.name.startswith(place.rstrip("/") + "/") for place in places)

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree: several rules read them, so they are walked once."""
        return list(ast.walk(self.tree))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))

    def type_aliases(self) -> Iterator[str]:
        """The names of types that this file defines without `class`: `Frame = dict[str, Any]`, and type variables. A name of one letter is
        a type variable by convention, and a name in capitals is a constant."""
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    if name.lstrip("_")[:1].isupper() and not name.isupper():
                        yield name
                case _:
                    pass

    def strings(self) -> Iterator[tuple[int, str]]:
        """Every text literal with its line; an f-string gives its fixed parts."""
        for node in self.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value

    @functools.cached_property
    def uses(self) -> list[tuple[int, str]]:
        """Every imported or built-in name used, spelled from where it came: `from time import time as t; t` and `time.time` are both
        time.time. A variable that happens to be called `time` is not the module, so its attributes say nothing."""
        return list(self._uses())

    def _uses(self) -> Iterator[tuple[int, str]]:
        known = dict(self._imported())
        for node in self.nodes:
            if isinstance(node, ast.Name | ast.Attribute):
                first, *rest = _dotted(node)
                if first in known or not rest:
                    yield node.lineno, ".".join([known.get(first, first), *rest])

    @property
    def package(self) -> str:
        """The package directly below holdfast that this file is in."""
        return self.name.partition("/")[0]

    def private_definitions(self) -> set[str]:
        """Every name with one underscore that this file defines: a function, a class, a variable, an attribute, a slot."""
        names: set[str] = set()
        for node in self.nodes:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                    names.add(name)
                case _:
                    pass
        return {name for name in names if _is_private(name)}

    def private_uses(self) -> Iterator[tuple[int, str]]:
        """Every name with one underscore that this file reads from an object or imports from another module of holdfast."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_private(node.attr):
                yield node.lineno, node.attr
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast."):
                yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))

    def _imported(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    yield alias.asname or alias.name, f"{node.module}.{alias.name}"


_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Public in spite of the underscore: so that they do not clash with the names of fields."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name.isidentifier() and name not in _NAMED_TUPLES


def _dotted(node: ast.expr) -> list[str]:
    """`a.b.c` as its parts; anything that is not a plain name at the root becomes `?`."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=value, attr=attr):
            return [*_dotted(value), attr]
        case _:
            return ["?"]


def modules() -> list[Module]:
    return [Module(path) for path in sorted(SRC.rglob("*.py"))]


def packages() -> list[str]:
    """The built packages directly below holdfast. A folder without a module is not built yet."""
    return sorted(path.parent.name for path in SRC.glob("*/__init__.py"))


@functools.cache
def project_texts() -> dict[str, str]:
    """Every text file that is, or would be, committed."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, capture_output=True, check=False, text=True)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:  # unpacked from an archive: no git, so everything but what `make` leaves behind
        paths = [path for path in ROOT.rglob("*") if not any(map(_is_left_behind, path.relative_to(ROOT).parts))]
    return {path.relative_to(ROOT).as_posix(): text for path in sorted(paths) if path.is_file() and (text := _text(path)) is not None}


def _is_left_behind(part: str) -> bool:
    return part in {".git", "build", "dist"} or part.startswith(".venv")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
