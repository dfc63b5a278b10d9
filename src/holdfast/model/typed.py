"""Models, which are dataclasses and pydantic models: written as JSON, and read back by an annotation.

Every place that stores a value follows this rule. A pydantic model is written by its own `model_dump`, in JSON mode. A dataclass is written
as the JSON object of its fields. Inside a dataclass, a model is written in the same way, an enum as its value, a date or a time in
ISO 8601, a UUID and a Decimal as text, bytes in base64, a timedelta in seconds, a set or a tuple as a list. If the reader's annotation
names the model, the reader gets the model back; without an annotation it gets the JSON object as a dict.

This module does not import pydantic: a class with the methods `model_dump` and `model_validate_json` counts as a pydantic model.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

_SCALARS: Final = frozenset({type(None), str, bool, int, float})
_NUMBERS_AND_TEXT: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = ((str, str.__str__), (int, int), (float, float))
_WRITTEN: Final[dict[type, Callable[[Any], Any]]] = {
    datetime: datetime.isoformat,  # before date, which it derives from
    date: date.isoformat,
    time: time.isoformat,
    timedelta: timedelta.total_seconds,
    UUID: str,
    Decimal: str,
    bytes: lambda value: b64encode(value).decode(),
    bytearray: lambda value: b64encode(value).decode(),
}
_READ: Final[dict[Any, tuple[type | tuple[type, ...], Callable[[Any], Any]]]] = {
    datetime: (str, datetime.fromisoformat),
    date: (str, date.fromisoformat),
    time: (str, time.fromisoformat),
    timedelta: ((int, float), lambda value: timedelta(seconds=value)),
    UUID: (str, UUID),
    Decimal: ((str, int), Decimal),
    float: (int, float),
    bytes: (str, lambda value: b64decode(value, validate=True)),
    bytearray: (str, lambda value: bytearray(b64decode(value, validate=True))),
}


class Unwritable(TypeError):
    """A part of a value cannot be written as JSON. `kind` is the name of the part's type, `path` is where it is in the whole value, and
    `why` is a further explanation (empty if there is none)."""

    def __init__(self, kind: str, path: str, why: str = "") -> None:
        super().__init__(f"{kind} at {shown_path(path)} cannot be written{why}")
        self.kind, self.path, self.why, self.where = kind, path, why, shown_path(path)


class Unfitting(ValueError):
    """A JSON value does not fit the model or type that an annotation names."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(f"{why} (at {shown_path(path)})")


def shown_path(path: str) -> str:
    """A path as error messages show it, such as `$.items[0]`; `$` is the whole value."""
    return f"${path}"


# ---- what is a model ---------------------------------------------------------------------------------------------------------


def is_pydantic(kind: Any) -> bool:
    """Whether a class has the methods of a pydantic model."""
    return isinstance(kind, type) and callable(getattr(kind, "model_dump", None)) and callable(getattr(kind, "model_validate_json", None))


def is_model(kind: Any) -> bool:
    """Whether a class is a dataclass or a pydantic model."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_pydantic(kind))


def models_in(value: Any) -> list[type]:
    """The classes of the models in a value, one for each model. These models are the value itself, and models in its dicts, lists and
    tuples, at any depth. Models inside a model are left out. A dict or list that contains itself does no harm."""
    found: list[type] = []
    met: set[int] = set()
    below: list[Any] = [value]
    while below:
        item = below.pop()
        kind = type(item)
        if kind in _SCALARS or id(item) in met:
            continue
        if isinstance(item, dict | list | tuple):
            met.add(id(item))
            inside = item.values() if isinstance(item, dict) else item
            below.extend([one for one in inside if type(one) not in _SCALARS])
        elif is_model(kind):
            found.append(kind)
    return found


# ---- writing -----------------------------------------------------------------------------------------------------------------


def as_json(value: Any, path: str = "") -> Any:
    """A model, or a value inside a model, as JSON values. `path` says where it is in the whole value, for an error. Raises Unwritable for a
    value that is no model, enum, mapping, list, tuple, set, date, time, timedelta, UUID, Decimal, bytes, text, number, bool or None."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, Enum):
        return as_json(value.value, path)
    if is_pydantic(kind):
        return _dumped(value, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name), f"{path}.{field.name}") for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key, path): as_json(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item, f"{path}[{number}]") for number, item in enumerate(value)]
    for base, written in (*_WRITTEN.items(), *_NUMBERS_AND_TEXT):
        if isinstance(value, base):
            return written(value)
    raise Unwritable(kind.__name__, path)


def _dumped(value: Any, path: str) -> Any:
    try:
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    except ValueError as error:  # pydantic's PydanticSerializationError is a ValueError
        raise Unwritable(type(value).__name__, path, f": {error}") from None


def _key(key: Any, path: str) -> str:
    """A key of a mapping as text, because keys in JSON are text. A number, a bool or None becomes the text that `json.dumps` writes for it.
    Raises Unwritable for a key that would be a list or an object in JSON."""
    plain = as_json(key, path)
    if isinstance(plain, str):
        return plain
    if type(plain) in _SCALARS:
        return json.dumps(plain)
    raise Unwritable(type(key).__name__, path, " as a key")


def without_models(value: Any, path: str = "") -> Any:
    """The value, with each model in it (dataclass or pydantic) replaced by its JSON values. A tuple that contains a model becomes a list. A
    value without models is returned unchanged. Raises Unwritable if a model cannot be written, and RecursionError if a dict or list with a
    model in it contains itself. `path` is where this value is in the outermost one, for the message of Unwritable."""
    if not models_in(value):
        return value
    if isinstance(value, dict):
        return {key: without_models(item, f"{path}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_models(item, f"{path}[{number}]") for number, item in enumerate(value)]
    return as_json(value, path)


def first_unwritable(value: Any, known: Callable[[Any], bool], path: str = "") -> Unwritable | None:
    """The first part of a value that a writer of JSON cannot write, as an error that is returned and not raised; None if it can write all
    parts. `known` tells of a part that is no dict, list or tuple whether the writer can write it. A model for which `known` is False counts
    as writable if `as_json` accepts it. `path` says where the value is in the whole value."""
    if isinstance(value, dict):
        inside = [(item, f"{path}[{key!r}]") for key, item in value.items()]
    elif isinstance(value, list | tuple):
        inside = [(item, f"{path}[{number}]") for number, item in enumerate(value)]
    elif known(value):
        return None
    elif is_model(type(value)):
        try:
            as_json(value, path)
        except Unwritable as error:
            return error
        return None
    else:
        return Unwritable(type(value).__name__, path)
    return next((found for item, where in inside if (found := first_unwritable(item, known, where)) is not None), None)


# ---- reading -----------------------------------------------------------------------------------------------------------------


def names_models(hint: Any) -> bool:
    """Whether an annotation is a dataclass or a pydantic model, or has one among its type arguments, at any depth."""
    try:
        return _names_models(hint)
    except TypeError:  # an annotation that cannot be hashed names no model
        return False


@lru_cache(maxsize=1024)
def _names_models(hint: Any) -> bool:
    hint = _meant(hint)
    return is_model(hint) or is_model(get_origin(hint)) or any(names_models(part) for part in get_args(hint))


def typed(value: Any, hint: Any, path: str = "", known: Mapping[Any, Any] | None = None) -> Any:
    """A value that was read from JSON, converted to the annotation `hint`. Raises Unfitting if a conversion is tried and fails: a dict does
    not fit its model, a value is none of the enum's, a text is no date. A value for which there is no conversion is returned unchanged:
    None, for example, or a list where the annotation is a dataclass. `path` says where the value is in the whole value, for an error.
    `known` maps type variables to the types that they stand for."""
    hint = _meant(hint, known)
    if value is None or hint is Any:
        return value
    origin = get_origin(hint)
    if origin is None:
        return _one(value, hint, path)
    parts = get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_of(value, parts, path, known)
    if dataclasses.is_dataclass(origin) and isinstance(value, dict):
        names = getattr(origin, "__parameters__", ())
        return _built(value, origin, path, dict(zip(names, parts, strict=False)))
    if origin is Literal or not isinstance(origin, type):
        return value
    if issubclass(origin, Mapping) and isinstance(value, Mapping) and len(parts) == 2:
        return {_key_of(key, parts[0], path, known): typed(item, parts[1], f"{path}[{key!r}]", known) for key, item in value.items()}
    if isinstance(value, list | tuple) and issubclass(origin, Collection) and parts:
        return _items(value, origin, parts, path, known)
    return value


def _meant(hint: Any, known: Mapping[Any, Any] | None = None) -> Any:
    """The annotation that an alias, a NewType, `Annotated` or a type variable stands for; any other annotation is returned unchanged.
    `known` maps type variables to types. A type variable that is not in it stands for its bound, or for Any."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif isinstance(hint, TypeVar):
            hint = (known or {}).get(hint, hint.__bound__ or Any)
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _one(value: Any, hint: Any, path: str) -> Any:
    if not isinstance(hint, type):
        return value
    if is_pydantic(hint):
        return _validated(value, hint, path) if isinstance(value, dict) or getattr(hint, "__pydantic_root_model__", False) else value
    if dataclasses.is_dataclass(hint):
        return _built(value, hint, path) if isinstance(value, dict) else value
    if issubclass(hint, Enum):
        return value if isinstance(value, hint) else _made(hint, value, path)
    accepts, read = _READ.get(hint, ((), None))
    if read is None or isinstance(value, bool) or not isinstance(value, accepts):
        return value
    return _made(read, value, path)


def _key_of(key: Any, hint: Any, path: str, known: Mapping[Any, Any] | None) -> Any:
    """A key of a JSON object, converted to its annotation. If the annotation is int, a text of digits becomes an int, because all keys in
    JSON are text."""
    if isinstance(key, str) and _meant(hint, known) is int and key.lstrip("-").isdigit():
        return int(key)
    return typed(key, hint, path, known)


def _made(make: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return make(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Unfitting(str(error) or f"{value!r:.60} does not fit", path) from None


def _validated(value: Any, hint: Any, path: str) -> Any:
    try:
        text = json.dumps(value)
    except TypeError:  # a dict may contain values that JSON cannot write
        check, given = hint.model_validate, value
    else:
        check, given = hint.model_validate_json, text
    try:
        return check(given)
    except ValueError as error:  # pydantic's ValidationError is a ValueError
        raise Unfitting(f"{hint.__name__}: {_in_one_line(error)}", path) from None


def _in_one_line(error: ValueError) -> str:
    """The first five problems in an error of pydantic, on one line, without pydantic's links and without the input. For a ValueError that
    is not from pydantic: the first 200 characters of its message."""
    try:
        found: Any = error.errors(include_input=False, include_url=False)  # type: ignore[attr-defined]
        return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']}" for one in found[:5])
    except (AttributeError, KeyError, TypeError):
        return " ".join(str(error).split())[:200]


def _built(value: Mapping[str, Any], kind: Any, path: str, known: Mapping[Any, Any] | None = None) -> Any:
    hints = _fields(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    made = {name: typed(item, hints[name], f"{path}.{name}", known) for name, item in value.items() if name in fields}
    required = [
        name
        for name, field in fields.items()
        if field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    if missing := [name for name in required if name not in made]:
        raise Unfitting(f"{kind.__name__} has no value for {', '.join(map(repr, missing))}", path)
    try:
        whole = kind(**{name: item for name, item in made.items() if fields[name].init})
    except Exception as error:  # its __init__ and __post_init__ are user code
        raise Unfitting(f"{kind.__name__} refused its fields: {type(error).__name__}: {error}", path) from None
    for name, item in made.items():
        if not fields[name].init:
            object.__setattr__(whole, name, item)
    return whole


@lru_cache(maxsize=1024)
def _fields(kind: Any) -> dict[str, Any]:
    """The annotations of a dataclass by field; an annotation that cannot be resolved becomes Any."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        names = vars(sys.modules[base.__module__]) if base.__module__ in sys.modules else {}
        for name, hint in vars(base).get("__annotations__", {}).items():
            found[name] = resolved(hint, names, {base.__name__: base})
    return {field.name: found.get(field.name, Any) for field in dataclasses.fields(kind)}


def resolved(hint: Any, names: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
    """The object that an annotation stands for. An annotation that is a text is evaluated, with `names` as its global and `local` as its
    local names; if that fails, the result is Any. An annotation that is not a text is returned unchanged."""
    if isinstance(hint, str):
        try:
            return eval(_compiled(hint), dict(names), dict(local))  # evaluate the author's own annotation, as the interpreter would do it
        except Exception:
            return Any
    return hint


@lru_cache(maxsize=1024)
def _compiled(text: str) -> types.CodeType:
    return compile(text, "<annotation>", "eval")


def _any_of(value: Any, parts: Sequence[Any], path: str, known: Mapping[Any, Any] | None) -> Any:
    """The value, converted to the first member of a union that it fits. A value whose own type is a member, for example a text if `str` is
    one, is returned unchanged. For a JSON object, models with exactly the object's keys are tried before the other members. If no member
    fits, the value is returned unchanged, with two exceptions. The Unfitting of the first member that refused it is raised if the union has
    only one member besides None, or if the value is a JSON object and `dict` is not a member."""
    meant = [part for part in (_meant(part, known) for part in parts) if part is not type(None)]
    if any(part is type(value) for part in meant if not isinstance(value, dict)):
        return value
    if isinstance(value, dict):
        meant.sort(key=lambda part: not _has_just(value, part))
    refused: Unfitting | None = None
    for part in meant:
        try:
            made = typed(value, part, path, known)
        except Unfitting as error:
            refused = refused or error
            continue
        if made is not value or part is dict or get_origin(part) is dict:
            return made
    if refused is not None and len(meant) == 1:
        raise refused
    if refused is not None and isinstance(value, dict) and dict not in meant:
        raise refused
    return value


def _has_just(value: Mapping[str, Any], part: Any) -> bool:
    kind = get_origin(part) or part
    if is_pydantic(kind):
        return set(value) == set(kind.model_fields)
    return dataclasses.is_dataclass(kind) and set(value) == {field.name for field in dataclasses.fields(kind)}


def _items(value: Sequence[Any], origin: type, parts: Sequence[Any], path: str, known: Mapping[Any, Any] | None) -> Any:
    each = parts
    if not (issubclass(origin, tuple) and Ellipsis not in parts):
        each = [parts[0]] * len(value)
    elif len(parts) != len(value):
        return value
    items = [typed(item, part, f"{path}[{number}]", known) for number, (item, part) in enumerate(zip(value, each, strict=True))]
    if issubclass(origin, tuple):
        return tuple(items)
    if issubclass(origin, set | frozenset):
        return _made(origin, items, path)
    return items if isinstance(value, list) else tuple(items)
