"""How values are written as the text of a checkpoint, and read back.

The default, `ExtendedTypeSerDes`, writes a scalar, and a list that has only scalars and such lists, as plain JSON. Any other value becomes
an envelope `{"t": tag, "v": value}`, and so does each value inside it: a tuple is read back as a tuple and a date as a date. `{"a": 1}` is
written as `{"t":"m","v":{"a":{"t":"i","v":1}}}`. AWS's SDK writes exactly the same text.

Each step writes and reads a value here, so speed matters: one function for each type writes the text directly, without making objects for
the envelopes.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from json.encoder import encode_basestring_ascii
from typing import Any, TypeVar, cast
from uuid import UUID

from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.exceptions import RetryableSerDesError, SerDesError
from holdfast.durable.plain_json import json_text, refusal
from holdfast.durable.protocols import SerDes as SerDes
from holdfast.durable.protocols import SerDesContext as SerDesContext
from holdfast.model.codec import value_of
from holdfast.model.serialization_advice import OF_A_PAYLOAD
from holdfast.model.typed import Unfitting, Unwritable, as_json, is_model, typed

logger = logging.getLogger(__name__)

T = TypeVar("T")

TYPE_TOKEN = "t"
VALUE_TOKEN = "v"


class TypeTag(StrEnum):
    """The tag of an envelope: it names the type of the value."""

    NONE = "n"
    STR = "s"
    INT = "i"
    FLOAT = "f"
    BOOL = "b"
    BYTES = "B"
    UUID = "u"
    DECIMAL = "d"
    DATETIME = "dt"
    DATE = "D"
    TUPLE = "t"
    LIST = "l"
    DICT = "m"
    BATCH_RESULT = "br"


# ---- writing ---------------------------------------------------------------------------------------------------------------

_quote: Callable[[str], str] = encode_basestring_ascii
_plain_json = json.JSONEncoder(separators=(",", ":")).encode
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# A subclass may have a `__repr__` of its own (an IntEnum has); the text must be that of the number.
_int_text = int.__repr__
_float_repr = float.__repr__


def _float_text(value: float) -> str:
    text = _float_repr(value)
    return _NOT_FINITE.get(text, text)


def _write_none(_: None) -> str:
    return '{"t":"n","v":null}'


def _write_str(value: str) -> str:
    return '{"t":"s","v":' + _quote(value) + "}"


def _write_bool(value: bool) -> str:
    return '{"t":"b","v":true}' if value else '{"t":"b","v":false}'


def _write_int(value: int) -> str:
    return '{"t":"i","v":' + _int_text(value) + "}"


def _write_float(value: float) -> str:
    return '{"t":"f","v":' + _float_text(value) + "}"


def _write_bytes(value: bytes | bytearray | memoryview) -> str:
    return '{"t":"B","v":"' + b64encode(bytes(value)).decode() + '"}'


def _write_uuid(value: UUID) -> str:
    return '{"t":"u","v":' + _quote(str(value)) + "}"


def _write_decimal(value: Decimal) -> str:
    return '{"t":"d","v":' + _quote(str(value)) + "}"


def _write_datetime(value: datetime) -> str:
    return '{"t":"dt","v":' + _quote(value.isoformat()) + "}"


def _write_date(value: date) -> str:
    return '{"t":"D","v":' + _quote(value.isoformat()) + "}"


def _write_list(value: list[Any]) -> str:
    return '{"t":"l","v":[' + ",".join([_WRITERS[type(item)](item) for item in value]) + "]}"


def _write_tuple(value: tuple[Any, ...]) -> str:
    return '{"t":"t","v":[' + ",".join([_WRITERS[type(item)](item) for item in value]) + "]}"


def _write_dict(value: dict[Any, Any]) -> str:
    return '{"t":"m","v":' + _members(value) + "}"


def _write_batch_result(value: BatchResult[Any]) -> str:
    return '{"t":"br","v":' + _members(value.to_dict()) + "}"


def _write_model(value: Any) -> str:
    plain = as_json(value)
    return _WRITERS[type(plain)](plain)


def _members(value: dict[Any, Any]) -> str:
    pairs = [
        (_quote(key) if type(key) is str else _key(key))
        # Most members are text; writing them here saves one call for each.
        + (':{"t":"s","v":' + _quote(item) + "}" if type(item) is str else ":" + _WRITERS[type(item)](item))
        for key, item in value.items()
    ]
    return "{" + ",".join(pairs) + "}"


def _key(key: object) -> str:
    """The JSON text of a dictionary key. A number, a boolean or None becomes a text as in `json.dumps`; a tuple raises SerDesError."""
    if isinstance(key, tuple):
        raise SerDesError("Tuple keys not supported")
    return _plain_json({key: None}).removeprefix("{").removesuffix(":null}")


class _Unsupported(Exception):
    """There is no writer for a type. `_write` catches this exception, and raises a SerDesError that names the type."""


class _Writers(dict[type, Callable[[Any], str]]):
    """The function that writes each type. For a class that is not in this dictionary: if it derives from a type in the dictionary, the
    function of the first such type; else, for a dataclass or a pydantic model, a function that writes its JSON. Raises _Unsupported for any
    other class."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        for base, write in self.items():
            if issubclass(kind, base):
                return write
        if is_model(kind):
            return _write_model
        raise _Unsupported


_WRITERS = _Writers(
    {
        type(None): _write_none,
        str: _write_str,
        bool: _write_bool,  # before int, which it derives from
        int: _write_int,
        float: _write_float,
        bytes: _write_bytes,
        bytearray: _write_bytes,
        memoryview: _write_bytes,
        UUID: _write_uuid,
        Decimal: _write_decimal,
        datetime: _write_datetime,  # before date, which it derives from
        date: _write_date,
        BatchResult: _write_batch_result,
        list: _write_list,
        tuple: _write_tuple,
        dict: _write_dict,
    }
)


_PLAIN: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    str: _quote,
    bool: lambda value: "true" if value else "false",
    int: _int_text,
    float: _float_text,
}


def _write(value: Any) -> str:
    try:
        return _written(value)
    except (_Unsupported, Unwritable):
        raise refusal(value, tuple(_WRITERS)) from None


def _written(value: Any) -> str:
    kind = type(value)
    if kind is dict:
        return _write_dict(value)
    if kind in _PLAIN:
        return _PLAIN[kind](value)
    if SerDes.is_primitive(value):
        return _plain_json(value)
    return _WRITERS[kind](value)


# ---- reading ---------------------------------------------------------------------------------------------------------------


def _unexpected(value: object, expected: str) -> SerDesError:
    return SerDesError(f"Expected {expected}, got {type(value)}")


def _read_none(_: object) -> None:
    return None


def _read_bytes(value: str) -> bytes:
    return b64decode(value.encode())


def _read_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise _unexpected(value, "list")
    return [_unwrap(item) for item in value]


def _read_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(_read_list(value))


def _read_dict(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise _unexpected(value, "dict")
    return {key: _unwrap(item) for key, item in value.items()}


def _read_batch_result(value: Any) -> BatchResult[Any]:
    return BatchResult.from_dict(_read_dict(value))


_READERS: dict[str, Callable[[Any], Any]] = {
    "n": _read_none,
    "s": str,
    "b": bool,
    "i": int,
    "f": float,
    "B": _read_bytes,
    "u": UUID,
    "d": Decimal,
    "dt": datetime.fromisoformat,
    "D": date.fromisoformat,
    "l": _read_list,
    "t": _read_tuple,
    "m": _read_dict,
    "br": _read_batch_result,
}


def _unwrap(item: Any) -> Any:
    """The value in an envelope; a value without an envelope is returned unchanged. Raises SerDesError for an unknown tag."""
    if type(item) is not dict or "v" not in item or "t" not in item:
        return item
    try:
        read = _READERS[item["t"]]
    except (KeyError, TypeError):
        raise SerDesError(f'Unknown type tag: "{item["t"]}"') from None
    return read(item["v"])


def _read(data: str) -> Any:
    value = value_of(data)
    if type(value) is dict:
        if "v" in value and "t" in value:
            return _unwrap(value)
    elif SerDes.is_primitive(value):
        return value
    raise SerDesError('Malformed envelope: missing "t" or "v" at root.')


# ---- the serdes ------------------------------------------------------------------------------------------------------------


class PassThroughSerDes(SerDes[T]):
    """A serdes for values that are text already: it stores them unchanged."""

    def serialize(self, value: T, _: SerDesContext) -> str:
        """The value itself, which must be a str."""
        return cast(str, value)

    def deserialize(self, data: str, _: SerDesContext) -> T:
        """The stored text, unchanged."""
        return cast(T, data)


class JsonSerDes(SerDes[T]):
    """Writes and reads plain JSON, which programs in other languages can read. A tuple is read back as a list.

    `JsonSerDes(Order)` reads the JSON as an `Order`, which is a dataclass or a pydantic model. A type that contains one works, too:
    `JsonSerDes(list[Order])`.
    """

    def __init__(self, type: Any = None) -> None:
        self.named = type

    def serialize(self, value: T, _: SerDesContext) -> str:
        """The value as JSON text; a dataclass or a pydantic model becomes a JSON object. Raises TypeError for a type that JSON does not
        have."""
        return json_text(value, OF_A_PAYLOAD)

    def deserialize(self, data: str, _: SerDesContext) -> T:
        """The value in the JSON text. If a type was given to JsonSerDes, the value is of that type. Raises SerDesError if the value does
        not fit the type, ValueError if the text is not JSON."""
        value = json.loads(data)
        if self.named is None:
            return cast(T, value)
        try:
            return cast(T, typed(value, self.named))
        except Unfitting as error:
            raise SerDesError(f"The JSON does not fit {self.named}: {error}.") from None


class ExtendedTypeSerDes(SerDes[T]):
    """The default serdes: JSON with type tags, so that bytes, UUID, Decimal, datetime, date, tuple and BatchResult are read back in their
    own type."""

    def serialize(self, value: Any, context: SerDesContext | None = None) -> str:
        """The value as JSON. A scalar, and a list that has only scalars and such lists, is plain JSON; any other value is in envelopes that
        name the types. Raises SerDesError for a type that cannot be written."""
        return _write(value)

    def deserialize(self, data: str, context: SerDesContext | None = None) -> Any:
        """The value in a text that `serialize` made. Raises SerDesError for other JSON, ValueError for a text that is not JSON."""
        return _read(data)


DEFAULT_JSON_SERDES: SerDes[Any] = JsonSerDes()
EXTENDED_TYPES_SERDES: SerDes[Any] = ExtendedTypeSerDes()


def serialize(serdes: SerDes[T] | None, value: T, operation_id: str, durable_execution_arn: str) -> str:
    """The text of `value`, written by `serdes`; None means the default serdes. The two ids tell the serdes to which operation of which
    execution the value belongs. If the serdes raises RetryableSerDesError, that error is raised unchanged. If it raises any other error, or
    returns something else than a text, SerDesError is raised. Only for the value None the serdes may return None; then this returns
    None."""
    try:
        if serdes is None:
            return _write(value)
        text: object = serdes.serialize(value, SerDesContext(operation_id, durable_execution_arn))
        if not isinstance(text, str) and (text is not None or value is not None):  # else None would take the place of the value
            raise SerDesError(
                f"{type(serdes).__name__}.serialize returned {type(text).__name__} for operation {operation_id}; it must return str."
            )
        return cast("str", text)
    except (RetryableSerDesError, SerDesError):
        raise
    except Exception as error:
        # The checkpoint stores only the message, so the traceback is logged here.
        logger.exception("Serialization failed for id: %s", operation_id)
        raise SerDesError(f"Serialization failed for id: {operation_id}, error: {error}.") from error


def deserialize(serdes: SerDes[T] | None, data: str, operation_id: str, durable_execution_arn: str) -> T:
    """The value in the text `data`, read by `serdes`; None means the default serdes. The two ids tell the serdes to which operation of
    which execution the value belongs. If the serdes raises RetryableSerDesError, that error is raised unchanged; if it raises any other
    error, SerDesError is raised."""
    try:
        if serdes is None:
            return cast(T, _read(data))
        return serdes.deserialize(data, SerDesContext(operation_id, durable_execution_arn))
    except (RetryableSerDesError, SerDesError):
        raise
    except Exception as error:
        logger.exception("Deserialization failed for id: %s", operation_id)
        raise SerDesError(f"Deserialization failed for id: {operation_id}, error: {error}.") from error
