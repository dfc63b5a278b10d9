"""Writes docs/reference/python.md and the pages below docs/reference/python: `python -m tests.drawings.reference`, or `make docs`.

An entry is made from the docstring and the source of a public name, and from an example. The examples of a page are in one file of
examples/reference, below the lines that they all need; a line `# --- Name, Other` begins the example of these names.
`tests/surface/test_docs_reference.py` compares the pages with what is made here, looks for names without an example, and runs each
example alone after those lines.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tests.drawings.public_names import HOLDERS, MIRRORS, PARTS, TWINS, VERBS, Name, methods, parts, public, verb_owners
from tests.drawings.returned_types import member_types, members_of, returned_types
from tests.drawings.verb_shapes import rows as shape_rows

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples" / "reference"
FOLDER: Final = ROOT / "docs" / "reference" / "python"
PAGES: Final = (
    *("functions", "configuration", "errors", "plugins", "engine", "client", "operator_verbs", "verb_errors", "signals", "workers"),
    *("pipelines", "testing", "results"),
)
RESULTS: Final = "results"
"""The page of the types that verbs return. Programs do not import them."""
_WIDTH: Final = 110
_MADE: Final = (
    "Made by `make docs` from docstrings and from `examples/reference`. A test compares this page with both, and runs each example alone."
)
_ATTRIBUTES: Final = {"property", "cached_property"}
_MADE_BY_CALLERS: Final = (
    *("AesGcm", "EventBridge", "FileSystemSerDes", "FunctionMetrics", "JsonLines", "JsonSerDes", "Logger", "Pipeline", "Runner"),
    *("SqliteStore", "ToolCall", "VirtualClock", "Webhook"),
)
_BRIEF: Final = {"FunctionMetrics": ("__init__", "text"), "SqliteStore": ("__init__",), "Store": ()}
"""Classes most of whose methods only the engine calls, with the methods that callers need."""
_INDEX: Final = f"""\
# The Python API

Every public name of Holdfast, with its signature, what it does, and an example that runs after the first lines of its page.
Names that belong together share an example. The parts of the store suite are in [one table](python/testing.md#sharedstoresuite), with one
example.
**What is not listed here may change without notice.** These modules of `holdfast.durable` have the names of the official SDK's modules:
{", ".join(f"`{each.removeprefix('holdfast.durable.')}`" for each in MIRRORS)}. The others are not public.
Python 3.11, 3.12 and 3.13 are supported.
"""
_SHAPES: Final = """\
Names of AWS's SDK keep the shapes of AWS's SDK: operations of a context, and `Runner.send_callback_success` and the like.
Members of objects that hold JSON are dicts: inputs, outputs, the details of an event, `Response.approvals`.
`Client.trouble` takes a record and not a name, because a program asks it for each record of a list.
"""


def written() -> dict[Path, str]:
    """Every page with its path."""
    names = public()
    pages = {FOLDER / f"{each}.md": page(each, names) for each in PAGES}
    return {ROOT / "docs" / "reference" / "python.md": _index(names), **pages}


def examples(name: str) -> tuple[str, list[tuple[tuple[str, ...], str]]]:
    """The lines that all examples of a page need, and each example with the names that it is for."""
    head, *rest = re.split(r"^# --- (.+)\n", (EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), flags=re.M)
    return head, [(tuple(names.split(", ")), code.strip()) for names, code in zip(rest[::2], rest[1::2], strict=True)]


def page(name: str, names: dict[str, Name]) -> str:
    """One page."""
    head, found = examples(name)
    title, _, text = (ast.get_docstring(ast.parse(head)) or "").partition("\n\n")
    imports = re.sub(r'^""".*?"""\n', "", head, count=1, flags=re.S).strip()
    texts = [f"# {title.rstrip('.')}", text.strip(), _MADE, "Each example runs after these lines:", _fenced(imports)]
    returned = returned_types() if name == RESULTS else {}
    types = {kind.__name__: kind for kind in returned}
    for titles, code in found:
        for each in titles:
            texts += _result(types[each], returned) if each in types else _entry(each, names)
            texts.append("Example:" if each == titles[-1] else f"Example: below, with [`{titles[-1]}`](#{_anchor(titles[-1])}).")
        texts.append(_fenced(code))
        if any(each in names and names[each].module == PARTS for each in titles):
            texts += [f"The parts of both suites, from `{PARTS}`:", _rows(("part", "what it is"), _parts())]
    if returned:
        texts += ["## Types of their members", _rows(("type", "in", "what it is", "members or values"), _member_rows(returned))]
    return "\n\n".join(texts) + "\n"


def _anchor(title: str) -> str:
    """The link to an entry on its page."""
    return re.sub(r"[^a-z0-9_]", "", title.lower())


def _parts() -> Iterator[tuple[str, str]]:
    for name, value in parts().items():
        yield f"`{name}`", _doc(value).partition("\n\n")[0] if isinstance(value, type) else "The type of the fixture `opening`."


def _rows(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _result(kind: type, returned: dict[type, list[str]]) -> list[str]:
    """The entry of a type that verbs return."""
    by = ", ".join(f"`{verb}`" for verb in returned[kind])
    entry = [f"## {kind.__name__}", f"Returned by {by}.", _fenced(stub(kind)), _doc(kind)]
    if kind.__name__ in HOLDERS:
        links = ", ".join(f"[`{verb}`]({_page_of(kind, verb)}.md#{kind.__name__.lower()}{verb})" for verb in methods(kind))
        entry.append(f"Its methods: {links}.")
    return entry


def _member_rows(returned: dict[type, list[str]]) -> Iterator[tuple[str, ...]]:
    for kind, owners in member_types(returned).items():
        what = _doc(kind).partition("\n\n")[0]
        yield f"`{kind.__name__}`", ", ".join(f"`{one}`" for one in owners), what, ", ".join(f"`{one}`" for one in members_of(kind))


def _page_of(kind: type, verb: str) -> str:
    """The page that has the entry of a verb."""
    return next((page for page in PAGES if any(f"{kind.__name__}.{verb}" in titles for titles, _ in examples(page)[1])), "")


def _index(names: dict[str, Name]) -> str:
    shapes = _rows(("kind of verb", "what it returns", "verbs"), shape_rows())
    texts = [_INDEX, f"## One shape for like verbs\n\n{shapes}\n\n{_SHAPES}"]
    for each in PAGES:
        head, found = examples(each)
        title = (ast.get_docstring(ast.parse(head)) or "").partition("\n\n")[0].rstrip(".")
        listed = [one for titles, _ in found for one in titles if one in names or each == RESULTS]
        links = ", ".join(f"[`{one}`](python/{each}.md#{_anchor(one)})" for one in listed)
        texts.append(f"## [{title}](python/{each}.md)\n\n{links}\n")
    return "\n".join(texts)


def _entry(title: str, names: dict[str, Name]) -> list[str]:
    owner, _, last = title.rpartition(".")
    if owner in verb_owners():
        method = getattr(verb_owners()[owner], last)
        beside = getattr(names[TWINS[owner]].value, last, None) if owner in TWINS else None
        return [f"### {title}", *_both(method, beside, f"{TWINS.get(owner)}.{last}")]
    name = names[title]
    entry = [f"## {title}", f"`from {name.module} import {last}`", _fenced(stub(name.value)), _doc(name.value)]
    if title in TWINS.values():
        other = next(first for first, second in TWINS.items() if second == title)
        links = ", ".join(f"[`{verb}`](#{other.lower()}{verb})" for verb in methods(name.value))
        entry.append(f"Its methods, in the entries of `{other}`: {links}.")
    return entry


def _both(method: Any, beside: Any, title: str) -> list[str]:
    """The signature and the docstring of a method, and of its twin where they differ."""
    if beside is None:
        return [_fenced(_function(_node(method))), _doc(method)]
    if inspect.unwrap(beside) is inspect.unwrap(method):
        told = "is called without `await`" if inspect.iscoroutinefunction(method) else "is the same"
        gives = ast.unparse(_node(method).returns)
        if "OpenExecution" in gives:
            told += f", and returns `{gives.replace('OpenExecution', 'BlockingExecution')}`"
        return [_fenced(_function(_node(method))), _doc(method), f"`{title}` {told}."]
    both = f"{_function(_node(method))}\n\n# {title}\n{_function(_node(beside))}"
    return [_fenced(both), _doc(method), *([] if _doc(beside) == _doc(method) else [f"`{title}`: {_doc(beside)}"])]


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
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name[0] != "_" or _makes(owner, name):
                marks = {ast.unparse(each) for each in node.decorator_list}
                if "overload" in marks or name not in _BRIEF.get(owner.__name__, (name,)) or name.startswith("test_"):
                    continue
                if owner.__name__ not in (*VERBS, *HOLDERS, *TWINS.values()) or marks & _ATTRIBUTES or name == "__init__":
                    yield _function(node) + _note(node)


def _makes(owner: type, name: str) -> bool:
    """Whether callers make such objects; contexts, engines and executions make the others."""
    return name == "__init__" and (owner.__name__ in _MADE_BY_CALLERS or issubclass(owner, Exception))


def _note(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = (ast.get_docstring(node) or "").partition("\n\n")[0]
    return f"\n    # {' '.join(first.split())}" if first else ""


def _function(node: Any) -> str:
    marks = [
        f"@{ast.unparse(each)}\n" for each in node.decorator_list if ast.unparse(each) in {*_ATTRIBUTES, "classmethod", "staticmethod"}
    ]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    answer = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
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
