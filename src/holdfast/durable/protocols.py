"""What authors may replace: the logger, the serdes, the summary of a large result.

Users import these from types.py and serdes.py, as in AWS's SDK. They are defined here because config.py uses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
C_contra = TypeVar("C_contra", contravariant=True)

_SCALARS = frozenset({type(None), str, bool, int, float})


class LoggerInterface(Protocol):
    """Any logger with these five methods of the standard library's logger."""

    def debug(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None: ...

    def info(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None: ...

    def warning(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None: ...

    def error(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None: ...

    def exception(self, msg: object, *args: object, extra: Mapping[str, object] | None = None) -> None: ...


@dataclass(frozen=True)
class SerDesContext:
    """The execution and the operation whose value is written or read."""

    operation_id: str = ""
    durable_execution_arn: str = ""


class SerDes(ABC, Generic[T]):
    """Turns a value into the text of a checkpoint, and the text into the value again. In the first run, too, user code gets the value that
    `deserialize` makes from the text, so that the value is the same as in a replay."""

    @abstractmethod
    def serialize(self, value: T, serdes_context: SerDesContext) -> str:
        """The text of the value, which is stored. `serdes_context` names the execution and the operation. To let the service invoke the
        function again after a failure that may pass, raise RetryableSerDesError."""

    @abstractmethod
    def deserialize(self, data: str, serdes_context: SerDesContext) -> T:
        """The value in a text that `serialize` made. `serdes_context` names the execution and the operation."""

    @staticmethod
    def is_primitive(obj: Any) -> bool:
        """Whether plain JSON is enough for this value: it is a scalar, or a list that contains only scalars and other lists of this
        kind."""
        if isinstance(obj, list):
            return _SCALARS.issuperset(map(type, obj)) or all(map(SerDes.is_primitive, obj))
        return obj is None or isinstance(obj, str | int | float)


class SummaryGenerator(Protocol[C_contra]):
    """A function that makes a short text about a result which is not stored, because the text of the result has more than 262,144
    characters. The summary is for people; Holdfast does not read it."""

    def __call__(self, result: C_contra) -> str: ...
