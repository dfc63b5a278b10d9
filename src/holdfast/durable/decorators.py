"""Decorators that bind arguments early: `f(context, *args)` becomes `f(*args)`, which a durable call runs under the name of `f`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.durable.config import ParallelBranch
from holdfast.durable.types import StepContext, WaitForCallbackContext

T = TypeVar("T")
Params = ParamSpec("Params")


def named(name: str | None, func: Callable[..., Any]) -> str | None:
    """The name given, or that of the function whose arguments were bound."""
    return name or getattr(func, "_original_name", None)


def _bound(func: Callable[..., Any], call: Callable[..., T]) -> Callable[..., T]:
    """Remember the function whose arguments were bound: the operation gets its name, and `def` or `async def` decides where it runs."""
    call._original_name = func.__name__  # type: ignore[attr-defined]
    call._original = func  # type: ignore[attr-defined]
    return call


def _binding(bind: Any, decorator: str) -> None:
    """Mark a function that must be called with its arguments first, so that a mistake gets a clear message."""
    bind._binds_arguments = decorator


def durable_step(func: Callable[Concatenate[StepContext, Params], T]) -> Callable[Params, Callable[[StepContext], T]]:
    """Make `f(step_context, *args)` into `f(*args)`, which `context.step` runs under the name of `f`."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[StepContext], T]:
        return _bound(func, lambda context: func(context, *args, **kwargs))

    _binding(bind, "durable_step")
    return bind


def durable_with_child_context(func: Callable[Concatenate[Any, Params], T]) -> Callable[Params, Callable[[Any], T]]:
    """Make `f(child_context, *args)` into `f(*args)`, which `context.run_in_child_context` runs under the name of `f`."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[Any], T]:
        return _bound(func, lambda context: func(context, *args, **kwargs))

    _binding(bind, "durable_with_child_context")
    return bind


def durable_parallel_branch(
    name: str | None = None,
) -> Callable[[Callable[Concatenate[Any, Params], T]], Callable[Params, ParallelBranch[T]]]:
    """Make `f(branch_context, *args)` into `f(*args)`, a branch for `context.parallel`. Without `name`, the branch is called
    `parallel-branch-{index}`."""

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
    """Make `f(callback_id, context, *args)` into `f(*args)`, a submitter for `context.wait_for_callback`."""

    @functools.wraps(func)
    def bind(*args: Params.args, **kwargs: Params.kwargs) -> Callable[[str, WaitForCallbackContext], T]:
        return _bound(func, lambda callback_id, context: func(callback_id, context, *args, **kwargs))

    _binding(bind, "durable_wait_for_callback")
    return bind
