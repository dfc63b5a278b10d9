"""Writes docs/reference/python.md and the pages below docs/reference/python: `python -m tests.drawings.reference`, or `make docs`.

An entry is made from the docstring and the source of a public name, and from an example. The examples of a page are one program in
examples/reference; a line `# --- Name, Other` begins the example of these names. `tests/surface/test_docs_reference.py` compares the
pages with what is made here, looks for names without an example, and runs the examples.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tests.drawings.public_names import VERBS, Name, public

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples" / "reference"
FOLDER: Final = ROOT / "docs" / "reference" / "python"
PAGES: Final = ("functions", "configuration", "errors", "plugins", "engine", "workers", "pipelines", "testing")
_WIDTH: Final = 110
_MADE: Final = (
    "Made by `make docs` from docstrings and from `examples/reference`. A test compares this page with both, and runs the examples."
)
_ATTRIBUTES: Final = {"property", "cached_property"}
_MADE_BY_CALLERS: Final = ("AesGcm", "FileSystemSerDes", "JsonSerDes", "Logger", "Pipeline", "Runner", "ToolCall")
_INDEX: Final = """\
# The Python API

Every public name of Holdfast, with its signature, what it does, and an example that runs.
**What is not listed here may change without notice.** Modules below `holdfast.durable` have the names of the official SDK's modules.
Python 3.11, 3.12 and 3.13 are supported.
"""


def written() -> dict[Path, str]:
    """Every page with its path."""
    names = public()
    pages = {FOLDER / f"{each}.md": page(each, names) for each in PAGES}
    return {ROOT / "docs" / "reference" / "python.md": _index(names), **pages}


def examples(name: str) -> tuple[str, list[tuple[tuple[str, ...], str]]]:
    """A program of examples: what stands above its first example, and each example with the names that it is for."""
    head, *rest = re.split(r"^# --- (.+)\n", (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), flags=re.M)
    return head, [(tuple(names.split(", ")), code.strip()) for names, code in zip(rest[::2], rest[1::2], strict=True)]


def page(name: str, names: dict[str, Name]) -> str:
    """One page."""
    head, found = examples(name)
    title, _, text = (ast.get_docstring(ast.parse(head)) or "").partition("\n\n")
    imports = re.sub(r'^""".*?"""\n', "", head, count=1, flags=re.S).strip()
    parts = [f"# {title.rstrip('.')}", text.strip(), _MADE, "The examples are one program, which begins with:", _fenced(imports)]
    for titles, code in found:
        parts += [part for each in titles for part in _entry(each, names)]
        parts += ["Example:", _fenced(code)]
    return "\n\n".join(parts) + "\n"


def _index(names: dict[str, Name]) -> str:
    parts = [_INDEX]
    for each in PAGES:
        head, found = examples(each)
        title = (ast.get_docstring(ast.parse(head)) or "").partition("\n\n")[0].rstrip(".")
        listed = [one for titles, _ in found for one in titles if one in names]
        links = ", ".join(f"[`{one}`](python/{each}.md#{re.sub(r'[^a-z0-9_]', '', one.lower())})" for one in listed)
        parts.append(f"## [{title}](python/{each}.md)\n\n{links}\n")
    return "\n".join(parts)


def _entry(title: str, names: dict[str, Name]) -> list[str]:
    owner, _, last = title.rpartition(".")
    if owner in VERBS:
        method = getattr(names[owner].value, last)
        return [f"### {title}", _fenced(_function(_node(method))), _doc(method)]
    name = names[title]
    return [f"## {title}", f"`from {name.module} import {last}`", _fenced(stub(name.value)), _doc(name.value)]


def _doc(value: Any) -> str:
    """A docstring as Markdown: its paragraphs, each on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (inspect.getdoc(value) or "").split("\n\n"))


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


# --- a stub: source without bodies, and without what is private ----------------------------------------------------------------


def stub(value: Any) -> str:
    """The signature of a function, or a class with its fields and the signatures of its methods."""
    if not isinstance(value, type):
        return _function(_node(value))
    bases = [ast.unparse(base) for base in _node(value).bases]
    shown = [base for base in bases if base[0] != "_" and base.partition("[")[0] not in ("Calls", "msgspec.Struct")]
    head = f"class {value.__name__}({', '.join(shown)}):" if shown else f"class {value.__name__}:"
    lines = list(dict.fromkeys(line for each in _family(value) for line in _members(each, value)))
    return "\n".join([head, *(textwrap.indent(line, "    ") for line in lines)]) if lines else f"{head} ..."


def _family(cls: type) -> list[type]:
    """A class and those of its bases that are no public names themselves."""
    return [cls, *(base for base in cls.__bases__ if base.__name__ in ("Calls", "_Named"))]


def _members(source: type, owner: type) -> Iterator[str]:
    body = _node(source).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if name[0] != "_" and source.__name__ != "_Named":
                note = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
                yield ast.unparse(node) + (f"\n# {' '.join(str(note).split())}" if note else "")
            case ast.Assign(targets=[ast.Name(id=name)]) if name[0] != "_" and issubclass(owner, Enum):
                yield ast.unparse(node)
            case ast.Assign(targets=[ast.Name(id=name)]) if name[0] != "_" and inspect.isfunction(getattr(owner, name)):
                yield _function(_node(getattr(owner, name)), blocking=True)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name[0] != "_" or _makes(owner, name):
                marks = {ast.unparse(each) for each in node.decorator_list}
                if "overload" not in marks and (owner.__name__ not in VERBS or marks & _ATTRIBUTES or name == "__init__"):
                    yield _function(node) + _note(node)


def _makes(owner: type, name: str) -> bool:
    """Whether callers make such objects; contexts, engines and executions make the others."""
    return name == "__init__" and (owner.__name__ in _MADE_BY_CALLERS or issubclass(owner, Exception))


def _note(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return f"\n    # {' '.join(first.split())}" if first else ""


def _function(node: Any, *, blocking: bool = False) -> str:
    marks = [
        f"@{ast.unparse(each)}\n" for each in node.decorator_list if ast.unparse(each) in {*_ATTRIBUTES, "classmethod", "staticmethod"}
    ]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) and not blocking else "def"
    answer = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    if blocking:
        answer = answer.replace("OpenExecution", "BlockingExecution")
    arguments = _arguments(ast.unparse(node.args))
    line = f"{word} {node.name}({', '.join(arguments)}){answer}"
    if len(line) > _WIDTH:
        line = "\n    ".join([f"{word} {node.name}(", *(f"{each}," for each in arguments)]) + f"\n){answer}"
    return "".join(marks) + line


def _arguments(text: str) -> list[str]:
    """The arguments of a function without `self`; a comma or an equals sign inside brackets belongs to its argument."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += " = " if letter == "=" and depth == 0 and ":" in found[-1] else letter
    return [each.strip() for each in found if each.strip() not in ("", "self", "cls")]


class _Shown(ast.NodeTransformer):
    """Puts the value in the place of a private name, which says nothing to a reader."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known

    def _value(self, node: Any) -> Any:
        name = ast.unparse(node)
        if name[0] != "_" or name.partition(".")[0] not in self.known:
            return self.generic_visit(node)
        value = eval(name, self.known)
        return ast.parse(repr(value).replace("typing.", ""), mode="eval").body

    visit_Name = visit_Attribute = _value  # noqa: N815


def _node(value: Any) -> Any:
    inner = inspect.unwrap(value)
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(inner))).body[0]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        shown = _Shown(inner.__globals__)
        node.args = shown.visit(node.args)
        node.returns = shown.visit(node.returns) if node.returns else None
    return node


def main() -> None:
    """Write the pages."""
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
