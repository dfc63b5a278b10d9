"""Advice for an author whose value cannot be written as text.

If the value itself has a type that cannot be written, the history gets exactly the sentence of AWS's SDK, because histories must be equal
to those of AWS. That sentence does not say what to do, so this module adds advice where people read the error. If a part inside the value
has such a type, the history gets the path of that part, and the advice.
"""

from __future__ import annotations

import re
from typing import Final

OF_A_STEP: Final = (
    "Use what the default serdes writes (JSON, dates, UUID, Decimal, bytes, dataclasses, pydantic models), or give your own `serdes=`, "
    "for example `StepConfig(serdes=...)`."
)
OF_A_PAYLOAD: Final = (
    "Use JSON, dataclasses or pydantic models, or give your own `serdes=`, for example `InvokeConfig(serdes_payload=...)`."
)
OF_A_RESULT: Final = (
    "A handler returns JSON, a dataclass or a pydantic model, because its result has no `serdes=`. Keep a value of another type in a step "
    "with `StepConfig(serdes=...)`, and return something by which it can be found, for example its id."
)
_SENTENCES: Final = (
    (re.compile(r"Unsupported type: <class '[^']*'>"), OF_A_STEP),
    (re.compile(r"Object of type \S+ is not JSON serializable"), OF_A_RESULT),
)


def with_advice(message: str | None) -> str | None:
    """An error's message for people. If the message is the sentence of AWS's SDK about a type that cannot be written, the advice is added.
    Any other message, and None, is returned unchanged."""
    for sentence, cure in _SENTENCES:
        if message is not None and sentence.fullmatch(message):
            return f"{message}. {cure}"
    return message
