"""Plain JSON, and the error messages about types that cannot be written."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.exceptions import SerDesError
from holdfast.model.serialization_advice import OF_A_STEP
from holdfast.model.typed import Unwritable, as_json, first_unwritable, is_model

_KNOWN: Final = (str, int, float, type(None))


def json_text(value: Any, cure: str, *, allow_nan: bool = True) -> str:
    """The value as JSON text; dataclasses and pydantic models are written as objects. Raises TypeError for any other type that JSON does
    not have, and for a BatchResult. With `allow_nan=False`, raises ValueError for NaN and for an infinite number.

    If a value inside `value` has the wrong type, the message names the place of that inner value and gives the advice `cure`. If `value`
    itself has the wrong type, the message is only the standard library's sentence (model.serialization_advice says why).
    """
    found: Unwritable | None = None
    try:
        return (_ENCODER if allow_nan else _STRICT).encode(value)
    except TypeError as error:
        with contextlib.suppress(RecursionError):
            found = first_unwritable(value, lambda item: isinstance(item, _KNOWN))
        if found is None:
            raise
        sentence = f"Object of type {found.kind} is not JSON serializable{found.why}"
        if not found.path and not found.why:
            raise TypeError(sentence) from None
        raise TypeError(f"{sentence} (at {found.where}). {cure}") from error


def _model(value: Any) -> Any:
    if is_model(type(value)) and not isinstance(value, BatchResult):
        return as_json(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_ENCODER: Final = json.JSONEncoder(default=_model)  # `json.dumps` would make one for every value
_STRICT: Final = json.JSONEncoder(allow_nan=False, default=_model)


def refusal(value: Any, known: tuple[type, ...]) -> SerDesError:
    """The error that the default serdes raises for a value which contains a type that it cannot write. `known` are the types that it can
    write."""
    found: Unwritable | None = None
    with contextlib.suppress(RecursionError):
        found = first_unwritable(value, lambda item: isinstance(item, known))
    if found is None:  # the unknown type is inside a batch, or too deep
        return SerDesError(f"Unsupported type in {type(value)}. {OF_A_STEP}")
    if not found.path and not found.why:
        return SerDesError(f"Unsupported type: {type(value)}")
    return SerDesError(f"Unsupported type: <class '{found.kind}'>{found.why}, at {found.where} of the value. {OF_A_STEP}")
