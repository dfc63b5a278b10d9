"""Uses the type annotations that authors write. They say which class a stored value becomes when it is read. If a value contains a model (a
dataclass or a pydantic model) and no annotation names its class, a warning is logged."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from types import FunctionType, MethodType
from typing import Any, Final, cast, get_args, get_origin
from weakref import WeakKeyDictionary

from holdfast.durable.concurrency.models import BatchItem, BatchResult
from holdfast.durable.exceptions import SerDesError
from holdfast.durable.history_mismatch import other_annotation
from holdfast.model.typed import Unfitting, is_model, models_in, names_models, resolved, typed

log = logging.getLogger("holdfast.durable")

Typing = Callable[[Any], Any]
"""Turns a stored value into the class that an annotation names. Raises Unfitting if the value does not fit."""

_PLAIN: Final = frozenset({"None", "str", "int", "float", "bool", "dict", "list", "tuple", "object", "Any", "bytes"})
_warned: set[tuple[object, ...]] = set()
"""The functions about which a warning was logged; each gets one warning."""
_without_models: WeakKeyDictionary[FunctionType, set[str]] = WeakKeyDictionary()
"""By function: the texts of its annotations that were evaluated and contain no model, so that not every step evaluates them again. Only for
functions without a closure."""


def returned(func: Any) -> Any:
    """The return annotation of a function, if it contains a model class at any depth (`Invoice`, `list[Invoice]`); else None. If the
    annotation is `Awaitable[X]` or a `Coroutine` that returns `X`, this looks at `X` and returns `X`."""
    func = written(func)
    said = getattr(func, "__annotations__", None)
    return _named(func, said.get("return")) if said else None


def taken(handler: Any) -> Any:
    """The annotation of a handler's first parameter, the event, if it contains a model class at any depth; else None."""
    bound = isinstance(handler, MethodType)
    func = written(handler)
    said, code = getattr(func, "__annotations__", None), getattr(func, "__code__", None)
    place = 1 if bound else 0
    if not said or code is None or code.co_argcount <= place:
        return None
    return _named(func, said.get(code.co_varnames[place]))


def written(func: Any) -> Any:
    """The author's own function, which may be inside wrappers, partial functions or a ParallelBranch. For an object that can be called, the
    method `__call__` of its class."""
    while True:
        if type(func) is FunctionType:  # most functions are plain: every step takes this path
            own = func.__dict__
            inner = (own.get("_original") or own.get("__wrapped__")) if own else None
            if inner is None:
                return func
            func = inner
            continue
        inner = getattr(func, "_original", None) or getattr(func, "__wrapped__", None)
        if inner is None and isinstance(func, functools.partial):
            inner = func.func
        if inner is None and hasattr(func, "func") and not hasattr(func, "__code__"):
            inner = func.func  # a named branch of `parallel`
        if inner is None or inner is func:
            break
        func = inner
    if hasattr(func, "__code__") or isinstance(func, MethodType):
        return func
    return type(func).__call__ if callable(func) else func


def _named(func: Any, hint: Any) -> Any:
    if hint is None or (hint in _PLAIN if type(hint) is str else type(hint) is type and hint.__module__ == "builtins"):
        return None
    if isinstance(hint, str):
        return _named_by_text(getattr(func, "__func__", func), hint)
    return _with_models(hint)


def _named_by_text(func: Any, text: str) -> Any:
    plain = _without_models.setdefault(func, set()) if type(func) is FunctionType and func.__closure__ is None else set()
    if text in plain:
        return None
    cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=True)
    hint = resolved(text, getattr(func, "__globals__", {}), {name: cell.cell_contents for name, cell in cells if _is_set(cell)})
    found = _with_models(hint)
    if found is None and hint is not Any:  # Any: a name in it may not exist yet
        plain.add(text)
    return found


def _with_models(hint: Any) -> Any:
    if get_origin(hint) in (Awaitable, Coroutine):
        hint = get_args(hint)[-1]
    return hint if names_models(hint) else None


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


class BatchOf:
    """The functions of a batch, by index. The return annotation of each function says which class the result of its branch becomes."""

    __slots__ = ("_at",)

    def __init__(self, at: Callable[[int], Any]) -> None:
        self._at = at

    def typing(self) -> Typing:
        """A function that gets a stored BatchResult, and returns it with the result of each branch in the class of that branch. Another
        value is returned unchanged."""

        def items(batch: Any) -> Any:
            if not isinstance(batch, BatchResult):
                return batch
            return dataclasses.replace(batch, all=[self._typed(item) for item in batch.all])

        return items

    def _typed(self, item: BatchItem[Any]) -> BatchItem[Any]:
        hint = None if item.result is None else returned(self._at(item.index))
        return item if hint is None else dataclasses.replace(item, result=typed(item.result, hint, f"[{item.index}]"))


class StateOf:
    """The check of a `wait_for_condition`. Its return annotation says which class the state becomes. If there is no such annotation and the
    initial state is a model, the state becomes the class of the initial state."""

    __slots__ = ("func", "initial")

    def __init__(self, func: Any, initial: Any) -> None:
        self.func, self.initial = func, initial

    def typing(self) -> Typing | None:
        """A function that turns the state into its class; None if no class is known."""
        hint = returned(self.func)
        if hint is None and is_model(type(self.initial)):
            hint = type(self.initial)
        return None if hint is None else functools.partial(typed, hint=hint)


class AnswerOf:
    """The answer of a callback. It becomes the class that the serdes names, such as `JsonSerDes(Order)`."""

    __slots__ = ("_named",)

    def __init__(self, serdes: Any) -> None:
        self._named = getattr(serdes, "named", None)

    def typing(self) -> Typing | None:
        """A function that turns the answer into its class; None if the serdes names none."""
        return None if self._named is None else functools.partial(typed, hint=self._named)


_TYPED: Final = frozenset({BatchOf, StateOf, AnswerOf})


def typing_of(func: Any) -> Typing | None:
    """A function that turns stored results of `func` into the class that the return annotation of `func` names; None if it names no model.
    `func` may also be a BatchOf, a StateOf or an AnswerOf: then their method `typing` gives the function."""
    if type(func) in _TYPED:
        return cast("BatchOf | StateOf | AnswerOf", func).typing()
    hint = returned(func)
    return None if hint is None else functools.partial(typed, hint=hint)


def given_back(value: Any, typing: Typing, what: str, advice: str = "Return what the annotation says") -> Any:
    """The value in the class that `typing` makes. Raises SerDesError if the value does not fit that class; `what` names the value in the
    message, and `advice` says what the author or the caller should do."""
    try:
        return typing(value)
    except Unfitting as error:
        raise SerDesError(f"{what} does not fit its annotation: {error}. {advice}, or correct the annotation.") from None


def recalled_as(value: Any, typing: Typing, what: str, operation_id: str) -> Any:
    """A recorded value in the class that `typing` makes. If the value does not fit that class, raises NonDeterministicExecutionError:
    another version of this code recorded it, or (for `invoke`) the invoked function returned a value of another form. `what` names the
    value in the message; `operation_id` is the id of its operation."""
    try:
        return typing(value)
    except Unfitting as error:
        raise other_annotation(what, error, operation_id) from None


def tell_of_lost_types(before: Any, after: Any, func: Any, what: str) -> None:
    """Log a warning if a model in `before` is a dict in `after`, because no annotation names its class. Each function `func` gets at most
    one warning. `what` names the value for the message."""
    lost = models_in(before)
    if len(lost) <= len(models_in(after)):
        return
    func = written(func)
    code = getattr(func, "__code__", None)
    place = (code, what) if code is None else (code.co_filename, code.co_firstlineno)
    if place in _warned:
        return
    _warned.add(place)
    kind = next((kind for kind in lost if kind not in models_in(after)), lost[0]).__name__
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    if getattr(func, "__name__", "") == "<lambda>":
        cure = f"a lambda has no annotations: write a `def` that says `-> {kind}`"
    else:
        cure = f"let {getattr(func, '__qualname__', 'the function')}{where} say `-> {kind}`, alone or as a part of what it returns"
    log.warning(
        "%s holds an instance of %s, and no annotation names that class: it is a dict, now and on every replay. To get %s back, %s.",
        what,
        kind,
        kind,
        cure,
    )
