"""`@worker`: marks a function as a worker's body and does not change it. The runner reads the source; the sandbox calls the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Body = TypeVar("Body", bound=Callable[..., Any])


def worker(page: str, *, include: Sequence[str] = ()) -> Callable[[Body], Body]:
    """Declare `func(inputs, ctx)` as the body of the worker whose contract is `page`, a file beside it.

    `include` names further files that the body may read, beside its page and the package's Python files: nothing else of the folder is
    seen in the sandbox. The arguments must be literals, because the file is read and not run.
    """

    def declare(function: Body) -> Body:
        return function

    return declare
