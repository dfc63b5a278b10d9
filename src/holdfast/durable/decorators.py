"""Decorators for functions that durable calls run. The author writes `f(context, *args)`, and calls the decorated function as `f(*args)`.
That call does not run the author's code. It returns an object for a durable call, and the durable call runs the code:
`context.step(f(1, 2))`. A step, a child context and a wait for a callback get the name of `f`, unless another name is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.durable.config import ParallelBranch
from holdfast.durable.types import StepContext, WaitForCallbackContext

T = TypeVar("T")
Params = ParamSpec("Params")


def named(name: str | None, func: Callable[..., Any]) -> str | None:
    """The name of a durable call: `name`, if it is given. Else the name of the author's function, if `func` was made by a decorator of this
    module. Else None."""
    return name or getattr(func, "_original_name", None)


def _bound(func: Callable[..., Any], call: Callable[..., T]) -> Callable[..., T]:
    """Note in `call` that it was made from the author's function `func`. `named` and `is_async` read this note to find the name of `func`,
    and whether `func` is an `async def`. Returns `call`."""
    call._original_name = func.__name__  # type: ignore[attr-defined]
    call._original = func  # type: ignore[attr-defined]
    return call


def _binding(bind: Any, decorator: str) -> None:
    """Mark a decorated function, which must be called with its arguments before a durable call gets it. If an author passes the function
    itself to a durable call, the error message can say so. `decorator` is the name of the decorator, for this message."""
    bind._binds_arguments = decorator


def durable_step(func: Callable[Concatenate[StepContext, Params], T]) -> Callable[Params, Callable[[StepContext], T]]:
    """Turn `f(step_context, *args)` into a function for `context.step`: write `context.step(f(*args))`. The step is named `f`, unless a
    name is given."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[StepContext], T]:
        return _bound(func, lambda context: func(context, *args, **kwargs))

    _binding(bind, "durable_step")
    return bind


def durable_with_child_context(func: Callable[Concatenate[Any, Params], T]) -> Callable[Params, Callable[[Any], T]]:
    """Turn `f(child_context, *args)` into a function for `context.run_in_child_context`: write `context.run_in_child_context(f(*args))`.
    The context is named `f`, unless a name is given."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[Any], T]:
        return _bound(func, lambda context: func(context, *args, **kwargs))

    _binding(bind, "durable_with_child_context")
    return bind


def durable_parallel_branch(
    name: str | None = None,
) -> Callable[[Callable[Concatenate[Any, Params], T]], Callable[Params, ParallelBranch[T]]]:
    """Turn `f(branch_context, *args)` into a function that makes a branch for `context.parallel`: write `@durable_parallel_branch()` above
    `f`, and `context.parallel([f(*args)])`. `name` is the name of the branch; without it the branch is named `parallel-branch-{index}`."""

    def decorate(func: Callable[Concatenate[Any, Params], T]) -> Callable[Params, ParallelBranch[T]]:
        @functools.wraps(func)
        def bind(*args: Params.args, **kwargs: Params.kwargs) -> ParallelBranch[T]:
            return ParallelBranch(_bound(func, lambda context: func(context, *args, **kwargs)), name)

        _binding(bind, "durable_parallel_branch")
        return bind

    return decorate


def durable_wait_for_callback(
    func: Callable[Concatenate[str, WaitForCallbackContext, Params], T],
) -> Callable[Params, Callable[[str, WaitForCallbackContext], T]]:
    """Turn `f(callback_id, context, *args)` into a submitter for `context.wait_for_callback`: write
    `context.wait_for_callback(f(*args))`. The wait is named `f`, unless a name is given."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[str, WaitForCallbackContext], T]:
        return _bound(func, lambda callback_id, context: func(callback_id, context, *args, **kwargs))

    _binding(bind, "durable_wait_for_callback")
    return bind
