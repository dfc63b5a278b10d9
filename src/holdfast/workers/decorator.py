"""`@worker`: marks a function as a worker's body and does not change it. The runner finds the mark by reading the source of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

DecoratedBody = TypeVar("DecoratedBody", bound=Callable[..., Any])


def worker(page: str, *, include: Sequence[str] = ()) -> Callable[[DecoratedBody], DecoratedBody]:
    """Declare `func(inputs, ctx)` as the body of a worker. `page` is the file with the worker's contract, in the folder of the worker's
    file or below it.

    `include` names further files of that folder, also by patterns such as `data/*.json`, that the body may read. The sandbox contains these
    files, the page, and the Python files of the folder or package, without tests and without files that may have secrets. The arguments
    must be literals, because the runner reads the file and does not run it.
    """

    def declare(function: DecoratedBody) -> DecoratedBody:
        return function

    return declare
