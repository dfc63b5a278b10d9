"""Dataclasses and pydantic models as their JSON, and back by an annotation."""

from __future__ import annotations

import dataclasses
import enum
import json
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, NewType, TypeVar
from uuid import UUID

import pydantic
import pytest

from holdfast.model.typed import Unfitting, Unwritable, as_json, names_models, typed, without_models

T = TypeVar("T")


class State(enum.Enum):
    OPEN = "open"
    SHUT = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass(frozen=True)
class Line:
    sku: str
    count: int = 1


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    street: str = pydantic.Field(alias="streetName")
    since: date


@dataclasses.dataclass
class Order:
    id: UUID
    lines: list[Line]
    state: State
    at: datetime
    price: Decimal
    address: Address | None = None
    _hidden: int = 0
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = sum(line.count for line in self.lines)


@dataclasses.dataclass
class Everything:
    days: set[date]
    hour: time
    long: timedelta
    raw: bytes
    by_state: dict[State, Line]
    by_number: dict[int, Line]
    pair: tuple[Line, Level]
    many: tuple[Line, ...]
    ratio: float
    whatever: Any


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


@dataclasses.dataclass
class Card:
    number: str


@dataclasses.dataclass
class Cash:
    amount: int


class Tags(pydantic.RootModel[list[str]]):
    pass


class Bag(pydantic.BaseModel):
    line: Line
    address: Address


ADDRESS = Address(streetName="Elm", since=date(2020, 1, 2))
ORDER = Order(
    id=UUID(int=7),
    lines=[Line("a"), Line("b", 2)],
    state=State.SHUT,
    at=datetime(2026, 5, 1, 12, tzinfo=UTC),
    price=Decimal("9.90"),
    address=ADDRESS,
    _hidden=3,
)
EVERYTHING = Everything(
    days={date(2026, 1, 1)},
    hour=time(12, 30),
    long=timedelta(minutes=1.5),
    raw=b"\0\1",
    by_state={State.OPEN: Line("x")},
    by_number={3: Line("y")},
    pair=(Line("z"), Level.LOW),
    many=(Line("p"), Line("q")),
    ratio=1.0,
    whatever={"a": [1, None]},
)
Id = NewType("Id", Order)


@pytest.mark.parametrize(
    "value, hint",
    [
        (ORDER, Order),
        (EVERYTHING, Everything),
        ([ORDER, ORDER], list[Order]),
        ({"a": ORDER}, dict[str, Order]),
        (ORDER, Order | None),
        (None, Order | None),
        (ORDER, Annotated[Order, "said"]),
        (ORDER, Id),
        (Box(Line("x")), Box[Line]),
        (Cash(5), Card | Cash),
        (Card("5"), Card | Cash),
        (Tags(["a"]), Tags),
        (Bag(line=Line("x"), address=ADDRESS), Bag),
        ((Line("x"), 5), tuple[Line, int]),
    ],
    ids=repr,
)
def test_a_model_is_json_and_its_annotation_gives_it_back(value: Any, hint: Any) -> None:
    text = json.dumps(without_models(value))
    assert names_models(hint)
    assert repr(typed(json.loads(text), hint)) == repr(value)


def test_the_json_of_a_model_is_that_of_its_fields() -> None:
    assert as_json(ORDER) == {
        "id": "00000000-0000-0000-0000-000000000007",
        "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": 2}],
        "state": 2,
        "at": "2026-05-01T12:00:00+00:00",
        "price": "9.90",
        "address": {"streetName": "Elm", "since": "2020-01-02"},
        "_hidden": 3,
        "total": 3,
    }


@pytest.mark.parametrize("hint", [int, str, dict[str, int], list, State, Any, None, "x", datetime | None])
def test_an_annotation_without_a_model_changes_nothing(hint: Any) -> None:
    assert not names_models(hint)


@pytest.mark.parametrize("value", [None, 5, "text", [1, 2]])
def test_what_is_no_object_stays_what_it_is_under_the_name_of_a_model(value: Any) -> None:
    assert typed(value, Order) == value


@pytest.mark.parametrize(
    "value, hint, told",
    [
        ({}, Line, r"Line has no value for 'sku' \(at \$\)"),
        ({"a": [{"sku": 1}, {}]}, dict[str, list[Line]], r"Line has no value for 'sku' \(at \$\['a'\]\[1\]\)"),
        ({"streetName": "x"}, Address, r"Address: since: Field required \(at \$\)"),
        ({**as_json(ORDER), "state": "gone"}, Order, r"'gone' is not a valid State \(at \$\.state\)"),
        ({"x": 1}, Card | Cash, "has no value for"),
    ],
)
def test_an_object_that_does_not_fit_is_refused_with_its_place(value: Any, hint: Any, told: str) -> None:
    with pytest.raises(Unfitting, match=told):
        typed(value, hint)


def test_a_field_that_is_gone_is_left_out_and_a_new_one_takes_its_default() -> None:
    assert typed({"sku": "a", "colour": "red"}, Line) == Line("a", 1)


def test_what_a_model_cannot_write_is_named_with_its_place() -> None:
    with pytest.raises(Unwritable, match=r"object at \$\.whatever\['a'\]\[1\] cannot be written"):
        as_json(dataclasses.replace(EVERYTHING, whatever={"a": [1, object()]}))


def test_pydantic_is_not_imported_for_those_who_do_not_use_it() -> None:
    code = (
        "import sys, holdfast.durable.context, holdfast.durable.execution; assert not [m for m in sys.modules if m.startswith('pydantic')]"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
