"""A function that is not durable."""

from __future__ import annotations

from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return {"tax": event["price"] * 0.25}
