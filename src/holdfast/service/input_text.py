"""The input of an execution as JSON text."""

from __future__ import annotations

from holdfast.model import codec
from holdfast.model.errors import PayloadNotJson
from holdfast.model.typed import Unwritable, without_models


def input_text(input: object) -> str:
    """The input of an execution as JSON text. Raises PayloadNotJson if it cannot be written as JSON, and InvalidParameter if a text in it
    is not valid Unicode."""
    try:
        plain = without_models(input)
    except (Unwritable, RecursionError) as error:
        raise PayloadNotJson(f"The input cannot be written as JSON: {error}.") from None
    return codec.dumps(plain)
