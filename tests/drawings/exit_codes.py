"""The table of exit codes, drawn: docs/reference/exit-codes.md is what this module prints, and a test keeps the page up to date."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.cli.exit_codes import MEANINGS


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Exit codes"
    yield ""
    yield "Made from the one table in `src/holdfast/cli/exit_codes.py`: `make docs` writes this page."
    yield "Every command of `holdfast` ends with one of these codes. They are stable."
    yield ""
    yield "| code | it says | commands | what to do |"
    yield "|--:|---|---|---|"
    for code, meaning in MEANINGS.items():
        yield f"| {code.value} | {meaning.says} | {meaning.commands} | {meaning.next} |"
    yield ""
    yield "For the response of a worker, [the table of codes](codes.md) says which exit code it is."
    yield ""
    yield "A script can rely on them:"
    yield ""
    yield "```sh"
    yield "holdfast run refund.py --input @case.json --key case-7"
    yield "case $? in"
    yield "  0) echo done ;;"
    yield "  4) echo 'a person must decide: holdfast approvals list' ;;"
    yield "  75) echo 'try again later' ;;"
    yield "  *) exit 1 ;;"
    yield "esac"
    yield "```"


if __name__ == "__main__":
    os.write(1, page().encode())  # not `print`: a library never does, and this line runs only as a command
