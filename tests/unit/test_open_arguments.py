"""`holdfast.open`: an argument that cannot be meant is refused before anything is opened, and the error says what to write."""

from __future__ import annotations

import re
from typing import Any

import pytest

import holdfast
from holdfast import durable_execution
from holdfast.model.errors import InvalidParameter


@durable_execution
def send(event: Any, context: Any) -> Any:
    return event


@pytest.mark.parametrize(
    "given, says",
    [
        ({"store": 5}, "The store is 5; name a file, an address or ':memory:'."),
        ({"functions": send}, "write a list, functions=[...]."),
        ({"functions": "send"}, "functions is 'send'; write a list, functions=[...]."),
        ({"workers": "worker.py"}, "workers is 'worker.py'; write a list, workers=[...]."),
        (
            {"worker_settings": "holdfast.toml"},
            "worker_settings is 'holdfast.toml'; write holdfast.read_operator(file=Path('holdfast.toml'))",
        ),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_with_what_to_write(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidParameter, match=re.escape(says)):
        holdfast.open(**{"store": ":memory:", **given})
