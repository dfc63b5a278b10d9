"""Texts for a reader who does not see the code: `python -m tests.drawings.reader_texts --seed 1` prints twenty random ones.

CONTRIBUTING.md says how a reader and a judge measure with them whether the texts are understood. A text is a docstring, or the message of
a `raise`. It is printed with what an editor shows beside it: the file, the name and the signature.
"""

from __future__ import annotations

import argparse
import ast
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.source_files import Module, modules

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FEWEST_WORDS = 4
"""A message with fewer words is a name or a code, which no reader can paraphrase."""


@dataclass(frozen=True)
class ReaderText:
    """One text. `heading` is what stands above it: a signature, or the kind of error."""

    place: str
    heading: str
    text: str

    def __str__(self) -> str:
        return f"## {self.place}\n{self.heading}\n\n{self.text}\n"


def texts_of(module: Module) -> Iterator[ReaderText]:
    """All texts of a file."""
    if text := ast.get_docstring(module.tree):
        yield ReaderText(f"{module.name}:1", f"module {module.name}", text)
    yield from _inside(module, module.tree, ())


def _inside(module: Module, parent: ast.AST, names: tuple[str, ...]) -> Iterator[ReaderText]:
    for node in ast.iter_child_nodes(parent):
        place = f"{module.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, Definition):
            inner = (*names, node.name)
            if text := ast.get_docstring(node):
                yield ReaderText(place, _signature(node, inner), text)
            yield from _inside(module, node, inner)
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            heading = f"error {ast.unparse(node.exc.func)}, raised in {'.'.join(names) or module.name}"
            yield from (ReaderText(place, heading, text) for text in _messages(node.exc))
        yield from _inside(module, node, names)


def _signature(node: Definition, names: tuple[str, ...]) -> str:
    name = ".".join(names)
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(map(ast.unparse, node.bases))
        return f"class {name}({bases})" if bases else f"class {name}"
    marks = [ast.unparse(mark) for mark in node.decorator_list if isinstance(mark, ast.Name)]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return " ".join([*(f"@{mark}" for mark in marks), f"{word} {name}({ast.unparse(node.args)}){returns}"])


def _messages(call: ast.Call) -> Iterator[str]:
    """The texts among the arguments of a call. `{…}` stands for an expression inside a text. `wrong(place, text)` puts the place before the
    text, so `{…}: ` stands before it here, too."""
    puts_place = ast.unparse(call.func).rpartition(".")[2].lstrip("_") == "wrong"
    for number, argument in enumerate((*call.args, *(keyword.value for keyword in call.keywords))):
        match argument:
            case ast.Constant(value=str(text)):
                pass
            case ast.JoinedStr(values=parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in parts)
            case _:
                continue
        if len(text.split()) >= FEWEST_WORDS:
            yield f"{{…}}: {text}" if puts_place and number else text


def sample(seed: int, count: int) -> list[ReaderText]:
    """So many random texts; the same seed chooses the same ones."""
    everything = [text for module in modules() for text in texts_of(module)]
    return random.Random(seed).sample(everything, count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=20)
    chosen = parser.parse_args()
    sys.stdout.write("\n".join(map(str, sample(chosen.seed, chosen.count))))
