"""Fixtures of these tests."""

from tests.pipelines.kit_stores import kit_store

__all__ = ["kit_store"]
