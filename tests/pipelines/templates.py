"""Templates as graphs have them."""

from __future__ import annotations

from typing import Any


def ref(source: str, *path: str | int, **more: Any) -> dict[str, Any]:
    """A reference."""
    return {"$from": source, **({"path": list(path)} if path else {}), **more}


def out(source: str, *path: str | int, **more: Any) -> dict[str, Any]:
    """A reference into the outputs of a node."""
    return ref(source, "outputs", *path, **more)
