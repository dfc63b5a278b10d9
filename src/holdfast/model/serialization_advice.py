"""Advice for the author of a value that cannot be written.

If the value itself has an unknown type, the history gets exactly the sentence of AWS's SDK, because histories must not differ. That
sentence does not say what to do, so the advice is added where people read the error. If the unknown type is inside a value, the history
gets its place and the advice.
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
    "with `StepConfig(serdes=...)`, and return what names it."
)
_SENTENCES: Final = (
    (re.compile(r"Unsupported type: <class '[^']*'>"), OF_A_STEP),
    (re.compile(r"Object of type \S+ is not JSON serializable"), OF_A_RESULT),
)


def with_advice(message: str | None) -> str | None:
    """The message of an error for people. If it is one of AWS's short sentences, the advice is added."""
    for sentence, cure in _SENTENCES:
        if message is not None and sentence.fullmatch(message):
            return f"{message}. {cure}"
    return message
