"""A preview shows what the official SDK's would show, to the letter: either may be asked for it."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from typing import Any

import aws_durable_execution_sdk_python.preview as official
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.durable import preview as ours
from holdfast.durable.preview import FieldMatchMode, PreviewConfig, PreviewField, PreviewMode, build_preview

ORDER = {
    "id": 42,
    "customer": {"name": "Ada", "email": "ada@example.com", "card": {"number": "4111", "brand": "visa"}},
    "lines": [{"sku": "a", "price": 1.5}, {"sku": "b", "price": 2.5, "note": None}],
    "a.b": "cannot be said",
    "tags": ["x", "y"],
}

NAMES = st.sampled_from(["a", "b", "c", "", "a.b"])
KEYS: st.SearchStrategy[Any] = NAMES | st.sampled_from([1, 1.5, None, True, "ü", "c d"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.just((1, [2])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.lists(
    st.builds(PreviewField, st.sampled_from(["a", "b", "c", "", "a.b", "a.b.c", "1", "None", "c d"]), st.sampled_from(FieldMatchMode)),
    max_size=3,
)
CONFIGS = st.builds(
    PreviewConfig,
    mode=st.sampled_from(PreviewMode),
    include=FIELDS,
    exclude=FIELDS,
    mask=FIELDS,
    mask_string=st.sampled_from(["***", "", "ü"]),
    max_preview_bytes=st.sampled_from([0, 2, 8, 9, 10, 11, 20, 40, 4096]),
)


def as_official(config: PreviewConfig) -> Any:
    def fields(given: list[PreviewField]) -> list[Any]:
        return [official.PreviewField(f.name, official.FieldMatchMode(f.match.value)) for f in given]

    lists = {name: fields(getattr(config, name)) for name in ("include", "exclude", "mask")}
    return official.PreviewConfig(
        official.PreviewMode(config.mode.value), **lists, mask_string=config.mask_string, max_preview_bytes=config.max_preview_bytes
    )


@given(st.dictionaries(KEYS, VALUES, max_size=5) | VALUES, CONFIGS)
@example(ORDER, PreviewConfig(PreviewMode.INCLUDE_ALL, mask=[PreviewField("card")], exclude=[PreviewField("number")]))
@example({"a": [{"b": 1}, {"b": {"c": 2}}, {"b": 3}]}, PreviewConfig(PreviewMode.INCLUDE_ALL))
@example({"": {"": 1, "a": 2}}, PreviewConfig(PreviewMode.INCLUDE_ALL))
def test_the_preview_is_the_official_one(value: Any, config: PreviewConfig) -> None:
    shown = build_preview(value, config)
    theirs = official.build_preview(value, as_official(config))
    assert json.dumps(shown) == json.dumps(theirs)  # the order of the fields too


@pytest.mark.parametrize("size", range(60))
def test_the_limit_cuts_at_the_official_byte(size: int) -> None:
    config = PreviewConfig(PreviewMode.INCLUDE_ALL, max_preview_bytes=size)
    value = {"a": 1, "ü": "ü", "deep": {"er": [{"b": 2}]}, "last": True}
    assert build_preview(value, config) == official.build_preview(value, as_official(config))


@pytest.mark.parametrize(
    "config, shown",
    [
        (PreviewConfig(PreviewMode.EXCLUDE_ALL), None),
        (PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("id")]), {"id": 42}),
        (
            PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("card")]),
            {"customer": {"card": {"number": "4111", "brand": "visa"}}},
        ),
        (PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("card", FieldMatchMode.PATH)]), None),
        (
            PreviewConfig(PreviewMode.EXCLUDE_ALL, mask=[PreviewField("customer.email", FieldMatchMode.PATH)]),
            {"customer": {"email": "***"}},
        ),
        (PreviewConfig(PreviewMode.EXCLUDE_ALL, mask=[PreviewField("email")], exclude=[PreviewField("customer")]), None),
        (PreviewConfig(PreviewMode.EXCLUDE_ALL, include=[PreviewField("price")]), {"lines": {"price": 2.5}}),
    ],
)
def test_the_lists_decide_what_is_shown(config: PreviewConfig, shown: Any) -> None:
    assert build_preview(ORDER, config) == shown


@pytest.mark.parametrize("module", [ours, official], ids=["ours", "official"])
def test_a_value_that_json_cannot_say_is_an_error_in_both(module: Any) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        module.build_preview({"day": date(2026, 1, 2)}, module.PreviewConfig(module.PreviewMode.INCLUDE_ALL))


def test_of_a_large_value_only_what_fits_is_looked_at() -> None:
    class Watched(dict[str, int]):
        looks = 0

        def __getitem__(self, key: str) -> int:
            Watched.looks += 1
            return super().__getitem__(key)

        def items(self) -> Any:
            return ((key, self[key]) for key in self)

    value = Watched({f"field{n}": n for n in range(100_000)})
    config = dataclasses.replace(PreviewConfig(PreviewMode.INCLUDE_ALL), max_preview_bytes=100)
    assert build_preview(value, config) == {f"field{n}": n for n in range(8)}
    assert Watched.looks == 9
