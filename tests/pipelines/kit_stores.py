"""The store of pipeline_kit: it runs in memory; here it runs on an empty database, too."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.service.engines import EngineOpening
from holdfast.testing import pipeline_stage
from tests.postgres import empty_store


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def kit_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let every run of the kit have a store of this kind."""

    def on_postgres(where: str, *more: Any) -> EngineOpening:
        return EngineOpening(empty_store(), *more)

    if request.param == "postgres":
        monkeypatch.setattr(pipeline_stage, "EngineOpening", on_postgres)
    return str(request.param)
