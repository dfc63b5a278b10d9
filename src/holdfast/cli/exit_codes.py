"""Exit codes: the one table of the codes with which the program ends. docs/reference/exit-codes.md is made from it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ExitCode(IntEnum):
    """The exit codes of the program. `MEANINGS` explains each of them."""

    OK = 0
    UNSUCCESSFUL = 1
    MISTAKE = 2
    TROUBLE = 3
    NEEDS_HUMAN = 4
    INVALID_OUTPUT = 5
    BUG = 70
    RETRYABLE = 75
    INTERRUPTED = 130


class ExitMeaning(NamedTuple):
    """What an exit code says, which commands end with it, and what the caller does next."""

    says: str
    commands: str
    next: str


_ALL: Final = "all"
MEANINGS: Final[Mapping[ExitCode, ExitMeaning]] = {
    ExitCode.OK: ExitMeaning(
        "It worked. Of `run`: the execution succeeded, or the worker's response is `ok`. Of `doctor`: no check found a problem.",
        _ALL,
        "Nothing.",
    ),
    ExitCode.UNSUCCESSFUL: ExitMeaning(
        "The command did its work, and the result is not a success. The execution ended as FAILED, TIMED_OUT or STOPPED, the worker's "
        "response is `permanent_error`, the code does not do what it did before, two runs differ, or some of many items were refused.",
        "`run`, `replay`, `runs compare`, `executions restart`, `queues push`, `queues redrive`, `approvals approve`, `reject` and "
        "`answer` of many",
        "Read the line on stderr: the same command gives the same result again.",
    ),
    ExitCode.MISTAKE: ExitMeaning(
        "The request must change: a wrong option, bad JSON, no such file, function, execution, callback or store, a worker or pipeline "
        "that `check` does not accept, or a folder that is not trusted where no terminal could be asked.",
        _ALL,
        "Change the command. `error[code]` is in [the list of errors](errors.md).",
    ),
    ExitCode.TROUBLE: ExitMeaning(
        "A person must look: the store is locked, broken or no store at all, the execution is quarantined, a queue is full, `db check` has "
        "findings, `doctor` found a problem, or standard output cannot be written.",
        _ALL,
        "Run `holdfast doctor`.",
    ),
    ExitCode.NEEDS_HUMAN: ExitMeaning(
        "The worker's response is `needs_human`: a person must decide.",
        "`run` of a worker",
        "Decide with `holdfast approvals`. Then the same command goes on.",
    ),
    ExitCode.INVALID_OUTPUT: ExitMeaning(
        "The worker's response is `invalid_output`: the outputs do not fit the worker's contract.",
        "`run` of a worker",
        "Mend the worker or its contract.",
    ),
    ExitCode.BUG: ExitMeaning("Holdfast has a bug. The traceback is on stderr.", _ALL, "Report it, with the traceback."),
    ExitCode.RETRYABLE: ExitMeaning(
        "The worker's response is `retryable_error`.", "`run` of a worker", "Run the same command later: it may work then."
    ),
    ExitCode.INTERRUPTED: ExitMeaning(
        "Ctrl-C interrupted the command.", _ALL, "Run the same command again. What was acknowledged is in the store."
    ),
}
