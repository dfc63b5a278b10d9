"""examples/vendor_research, crashed before and after each write of the pipeline and of its own workers: nothing changes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import msgspec
import pytest

from holdfast import WorkerError
from holdfast.testing import pipeline_kit
from holdfast.workers.policy import Policy
from tests.library.vendor_scene import FOLDER, case_at, serving_site, settings_for


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kit_store")
def test_a_crash_anywhere_in_the_example_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is lost, the gate asks again, a person signs, and the report is published; it cannot be read there, so it is taken back."""
    rules = ModuleType("rules")  # in this process the pipeline's file has no folder of its own to import from
    vars(rules).update(runpy.run_path(str(FOLDER / "rules.py")))
    monkeypatch.setitem(sys.modules, "rules", rules)
    with serving_site() as web:
        web.hides = True

        def publish(address: str, report: Any) -> Any:
            return httpx.post(address, json=report, headers={"Idempotency-Key": "r1"}).json()

        def remove(url: str) -> dict[str, bool]:
            return {"removed": httpx.delete(url).status_code == 200}

        settings = settings_for(web, tmp_path)
        settings = msgspec.structs.replace(settings, policy=Policy(isolation="inline", rate_limits=settings.policy.rate_limits))
        given: dict[str, Any] = {
            "worker_settings": settings,
            "tools": {"publish_report": publish, "remove_report": remove},
            "decisions": {"sign-off": "approve"},
        }
        ran = pipeline_kit.run(FOLDER / "vendor_research.py", case_at(web), **given)
        found = {run.inputs["url"]: run for node in ("pages", "read-back") for run in ran.runs[node]}

        def scrape(inputs: dict[str, Any]) -> Any:
            """As the worker did in the straight run. Its own tests crash it."""
            run = found[inputs["url"]]
            if run.error_code is not None:
                raise WorkerError(run.error_code)
            return run.outputs

        stub = {"web-scrape-worker": scrape}
        crashes = pipeline_kit.crash_everywhere(FOLDER / "vendor_research.py", case_at(web), workers=stub, **given)
    assert (ran.status, ran.error.error_code, ran.nodes["publish"].state) == ("permanent_error", "page_not_found", "undone")
    assert [tool for tool, _ in ran.writes] == ["publish_report", "remove_report"]
    assert [(run.round, run.status) for run in ran.runs["facts"]] == [(1, "ok"), (2, "ok")]
    assert crashes > 80
    assert (len(web.received), len(web.removed)) == (crashes + 2, crashes + 2), "the server counts one of each in every run"
