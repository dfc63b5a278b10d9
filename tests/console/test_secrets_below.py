"""Secrets of the runs that a run asks for are not on the page of the run that asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import serving_scene
from tests.console.serving_scene import serving
from tests.console.test_secrets import told

OWN = ("/restart", "/test", "/test/file")
"""Here a person edits or copies the pipeline's own input, which its own contract does not mark."""
FLOW = """from holdfast import Pipeline

p = Pipeline("flow", "1.0", inputs={"type": "object", "properties": {"key": {"type": "string"}}}, outputs={"type": "object"})
said = p.worker("speak", "say", {"text": "hello", "token": p.inputs.key})
p.gives({"said": said.outputs.said})
"""


async def test_what_the_contract_of_a_worker_marks_is_on_no_page_of_the_pipeline_that_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_scene, "FLOW", FLOW)
    with serving(tmp_path) as stage:
        run = stage.engine.run("flow", {"key": "only-for-the-worker"}).run_id
        async with stage.browser() as person:
            pages = await told(person, run)
            leaks = [part for part, text in pages.items() if "only-for-the-worker" in text and part not in OWN]
    assert leaks == []
