"""What to do about a value that cannot be kept.

A value that is itself of an unknown type is recorded with the sentence that AWS's SDK has for it, and nothing else: histories must not
differ. The sentence does not say what to do, so it is added where people read it. A type inside a value is recorded with its place and the
cure.
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


def with_cure(message: str | None) -> str | None:
    """The message of an error for people: with advice, if it is one of the short sentences."""
    for sentence, cure in _SENTENCES:
        if message is not None and sentence.fullmatch(message):
            return f"{message}. {cure}"
    return message
