"""Plain JSON, as results of handlers and payloads of `invoke` are written, with models as their JSON; and what is said of other types."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.exceptions import SerDesError
from holdfast.model.cures import OF_A_STEP
from holdfast.model.typed import Unwritable, as_json, first_unwritable, is_model

_KNOWN: Final = (str, int, float, type(None))


def json_text(value: Any, cure: str, *, allow_nan: bool = True) -> str:
    """The value as JSON. What JSON does not know is a TypeError with its type, its place in the whole, and the cure.

    The sentence for a value that is itself unknown stays the standard library's (model.cures).
    """
    found: Unwritable | None = None
    try:
        return json.dumps(value, allow_nan=allow_nan, default=_model)
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


def refusal(value: Any, known: tuple[type, ...]) -> SerDesError:
    """What the default serdes says of a value in which it does not know a type."""
    found: Unwritable | None = None
    with contextlib.suppress(RecursionError):
        found = first_unwritable(value, lambda item: isinstance(item, known))
    if found is None:  # it stands in a batch, or too deep
        return SerDesError(f"Unsupported type in {type(value)}. {OF_A_STEP}")
    if not found.path and not found.why:
        return SerDesError(f"Unsupported type: {type(value)}")
    return SerDesError(f"Unsupported type: <class '{found.kind}'>{found.why}, at {found.where} of the value. {OF_A_STEP}")
