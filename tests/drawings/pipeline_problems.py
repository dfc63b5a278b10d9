"""The table of pipelines' problems: docs/reference/pipeline-problems.md is what this module prints, and a test keeps it up to date."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.pipelines.check.table import MEANINGS


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Problems of pipelines"
    yield ""
    yield (
        "Made from the one table in `src/holdfast/pipelines/check/table.py`: "
        "`python -m tests.drawings.pipeline_problems > docs/reference/pipeline-problems.md`."
    )
    yield ""
    yield "`holdfast check FILE` tells all of them at once, each with the node, the author's line and what to do, before anything runs."
    yield "A pipeline with an error is not run. A warning tells what may go wrong, where the schemas promise too little to be sure."
    yield ""
    yield "| code | level | it says | what to do |"
    yield "|---|---|---|---|"
    yield from (f"| `{code}` | {meaning.level} | {meaning.what} | {meaning.cure} |" for code, meaning in MEANINGS.items())
    yield ""
    yield "## How schemas are compared"
    yield ""
    yield _COMPARED
    yield ""
    yield "## When a side effect is gated"
    yield ""
    yield _GATED


_COMPARED = """\
What one node gives is compared with what the next contract takes: `type`, `enum`, `const`, `properties`, `required`,
`additionalProperties`, `items`, `prefixItems`, `minItems`, `allOf`, `anyOf`, `oneOf`, and `$ref` inside the schema.
An error is certain: no value that the one schema allows fits the other. Everything else is a warning: a field that may be missing,
a value that may be null. A list of texts for a list of numbers is a warning too, because an empty list fits.
Other keywords (`pattern`, `minimum`, `format`) are checked when the pipeline runs. A schema that says nothing is not warned about."""
_GATED = """\
A worker that may use a tool with `effect="write"` is gated if a gate (not a shadow gate) or a human node stands above it and its *no*
reaches the worker. A *no* that ends the run, or goes to a person, reaches every node below. A *no* that only skips reaches nodes right
`after` the gate, and nodes that need the result of a skipped node. A tool that asks a person before every call needs no gate."""


if __name__ == "__main__":
    os.write(1, page().encode())  # not `print`: a library never does, and this line runs only as a command
