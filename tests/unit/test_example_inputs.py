"""The example of inputs that a server prints."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.contract.checking import checker_of
from holdfast.contract.example_inputs import example_inputs


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    "properties, example",
    [
        ({"say": {"type": "string"}}, {"say": "…"}),
        ({"url": {"type": "string", "format": "uri"}}, {"url": "https://example.com/"}),
        ({"at": {"type": "string", "format": "date-time"}, "to": {"type": "string", "format": "email"}}, None),
        ({"urls": {"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 1}}, {"urls": ["https://example.com/"]}),
        ({"code": {"type": "string", "minLength": 3}}, {"code": "………"}),
        ({"count": {"type": "integer", "minimum": 5}, "share": {"type": "number", "maximum": 0}}, {"count": 5, "share": 0}),
        ({"more": {"type": "number", "exclusiveMinimum": 2.5}}, {"more": 3}),
        ({"kind": {"enum": ["a", "b"]}, "one": {"const": 1}, "two": {"default": 2}}, {"kind": "a", "one": 1, "two": 2}),
        ({"who": schema(name={"type": "string"}, old={"type": ["integer", "null"]})}, {"who": {"name": "…", "old": 1}}),
        ({"yes": {"type": "boolean"}, "none": {"type": "null"}}, {"yes": False, "none": None}),
    ],
)
def test_an_example_fits_its_schema(properties: dict[str, Any], example: dict[str, Any] | None) -> None:
    made = example_inputs(schema(**properties))
    assert checker_of(schema(**properties)).fits(made)
    assert example is None or made == example


@pytest.mark.parametrize("odd", [{"properties": 1}, {"required": "x"}, {"properties": {"a": 1}, "required": ["a", 2]}])
def test_a_schema_without_properties_still_gives_an_object(odd: dict[str, Any]) -> None:
    assert isinstance(example_inputs(odd), dict)


def test_an_example_of_arrays_in_arrays_stays_small() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        deep = {"type": "array", "items": deep, "minItems": 1_000}
    assert len(str(example_inputs(schema(deep=deep)))) < 1_000
