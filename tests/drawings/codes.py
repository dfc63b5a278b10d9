"""The table of codes, drawn: docs/reference/codes.md is what this module prints, and a test keeps the page up to date."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdfast.contract.codes import CODES, ENDINGS, Meaning, ResponseStatus

_ABOUT = {
    ResponseStatus.OK: "the outputs are what the contract promises",
    ResponseStatus.RETRYABLE_ERROR: "a passing failure: the same request may work later",
    ResponseStatus.INVALID_REQUEST: "the request must change; the same one is never tried again",
    ResponseStatus.INVALID_OUTPUT: "the worker broke its promise: try again or fall back, by policy",
    ResponseStatus.NEEDS_HUMAN: "a person must decide",
    ResponseStatus.PERMANENT_ERROR: "it failed for good",
}


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Statuses and codes of workers"
    yield ""
    yield "Made from the one table in `src/holdfast/contract/codes.py`: `python -m tests.drawings.codes > docs/reference/codes.md`."
    yield "HTTP, the command line and Python answer by it alike."
    yield ""
    yield "A response has one of six statuses. Where the error's code is not in the table below, the status alone decides:"
    yield ""
    yield "| status | what it says | retryable | HTTP | exit code |"
    yield "|---|---|---|--:|--:|"
    for status, ending in ENDINGS.items():
        yield f"| `{status}` | {_ABOUT[status]} | {_word(ending.retryable)} | {ending.http} | {ending.exit} |"
    yield ""
    yield "Clients repeat 429, 502, 503 and 504 by themselves, so nothing that must not be repeated answers with one of them."
    yield ""
    yield "## Codes"
    yield ""
    yield "| code | status | retryable | HTTP | exit code | it says |"
    yield "|---|---|---|--:|--:|---|"
    yield from (_row(meaning) for meaning in CODES.values())
    yield ""
    yield "## Codes of a contract"
    yield ""
    yield "A worker.md names codes of its own among its failure modes (`error_code=out_of_stock, retryable=false`)."
    yield "They are looked up after the table: a page cannot change what a code of the runtime means, and `holdfast check` says so."
    yield "An operator may, code by code, with `retry_codes`: where the policy allows it, `access_denied` becomes a `retryable_error`."
    yield "What needs another request or a person stays what it is."


def _row(meaning: Meaning) -> str:
    return f"| `{meaning.code}` | `{meaning.status}` | {_word(meaning.retryable)} | {meaning.http} | {meaning.exit} | {meaning.what} |"


def _word(flag: bool) -> str:
    return "yes" if flag else "no"


if __name__ == "__main__":
    os.write(1, page().encode())  # not `print`: a library never does, and this line runs only as a command
