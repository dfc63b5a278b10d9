"""The workers of examples/vendor_research, one after another as its pipeline runs them: real pages, real jails, a model played back."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.contract.merges import merged
from holdfast.contract.page_reader import read
from holdfast.pipelines.builder.build import build
from holdfast.pipelines.graph.graph import GateNode
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.testing import worker_kit
from holdfast.workers.packages import Packages
from tests.library.scene import ran
from tests.library.vendor_scene import ADDRESS, CASE, FOLDER, case_at, serving_site, settings_for

RULES = runpy.run_path(str(FOLDER / "rules.py"))["RULES"]
FILES = [FOLDER / f"{name}.py" for name in ("fact_worker", "fact_worker_small", "price_worker", "publish")]


@pytest.fixture
def web() -> Iterator[Any]:
    with serving_site() as site:
        yield site


@pytest.fixture
def settings(web: Any, tmp_path: Path) -> WorkerSettings:
    return settings_for(web, tmp_path)


async def test_the_workers_make_a_report_that_is_revised_published_and_taken_back(web: Any, settings: WorkerSettings) -> None:
    async with holdfast.open(":memory:", workers=[*FILES, "web-scrape-worker", "validator-worker"], worker_settings=settings) as engine:
        urls = case_at(web)["urls"]
        scraped = [await ran(engine, "web-scrape-worker", {"url": url, "extraction_spec": CASE["spec"]}) for url in urls]
        assert [one["status"] for one in scraped] == ["ok"] * 5 + ["permanent_error"], "one page is gone"
        pages = [one["outputs"] for one in scraped if one["status"] == "ok"]
        prices = (await ran(engine, "price-worker", {"vendor": CASE["vendor"]}))["outputs"]

        async def reported(**revision: Any) -> tuple[Any, dict[str, Any]]:
            facts = (await ran(engine, "fact-worker", {"pages": pages, **revision}))["outputs"]
            report = merged([("facts", facts), ("prices", prices)], "union")
            return report, (await ran(engine, "validator-worker", {"candidate": report.outputs, "rules": RULES}))["outputs"]

        report, gate = await reported()
        assert (gate["verdict"], [reason["code"] for reason in gate["reasons"]]) == ("revise", ["summary_too_long"])
        report, gate = await reported(revision={"round": 1, "reasons": gate["reasons"], "previous": report.outputs})
        assert gate["verdict"] == "allow"
        assert [conflict.path for conflict in report.conflicts] == [".delivery_days"]
        assert report.outputs["sources"] == urls[1:4]

        inputs = {"report": report.outputs}
        posted = await ran(engine, "publish-worker", inputs, idempotency_key="k")
        assert (await ran(engine, "publish-worker", inputs, idempotency_key="k"))["outputs"] == posted["outputs"]
        assert (list(web.reports.values()), len(web.received)) == ([report.outputs], 1)
        undone = await ran(engine, "unpublish-worker", {"inputs": inputs, "outputs": posted["outputs"]})
        assert (undone["outputs"], web.reports, len(web.removed)) == ({"removed": True}, {}, 1)


async def test_its_pipeline_builds_in_the_sandbox_with_the_rules_of_its_own_file(tmp_path: Path) -> None:
    (built,) = await build(FOLDER / "vendor_research.py", Packages(tmp_path))
    names = [node.name for node in built.graph.nodes]
    assert (built.graph.pipeline_id, names) == (
        "vendor-research",
        ["pages", "facts", "prices", "report", "check", "sign-off", "publish", "read-back"],
    )
    gate = built.graph.node("check")
    assert isinstance(gate, GateNode)
    assert gate.candidate["rules"] == {"$const": RULES}


PAGES = [{"data": {"vendor": "Acme", "product": None, "text": "x" * 300, "delivery_days": 3}, "source": {"url": "http://a/0"}}]
PAGES += [{"data": {"vendor": "Acme", "product": "Lamp", "text": "y", "delivery_days": None}, "source": {"url": "http://a/1"}}]


def test_the_small_worker_gives_the_same_outputs_without_a_tool() -> None:
    told = worker_kit.run(FOLDER / "fact_worker_small.py", {"pages": PAGES})
    assert (told.status, told.calls) == ("ok", ())
    assert told.outputs == {"vendor": "Acme", "summary": "x" * 280, "products": ["Lamp"], "delivery_days": 3, "sources": ["http://a/1"]}
    same = [read((FOLDER / f"{name}.md").read_text()).contract for name in ("fact-worker", "fact-worker-small")]
    assert same[0] is not None
    assert same[1] is not None
    assert same[0].output_schema == same[1].output_schema


def test_a_page_that_the_model_invents_is_not_believed() -> None:
    answer = {"vendor": "Acme", "summary": "s", "products": [{"name": "Lamp", "page": 2}], "delivery_days": None}
    told = worker_kit.run(FOLDER / "fact_worker.py", {"pages": PAGES}, tools={"language_model": answer})
    assert (told.status, told.error.error_code, told.observability.attempt) == ("retryable_error", "page_invented", 2)


def test_the_tools_refuse_an_address_that_is_not_on_this_machine(settings: WorkerSettings) -> None:
    inputs = {"inputs": {}, "outputs": {"url": "http://reports.example/1"}}
    told = worker_kit.run(FOLDER / "publish.py", inputs, worker="unpublish-worker", worker_settings=settings)
    assert (told.status, told.error.error_code) == ("permanent_error", "egress_denied")


def test_a_crash_at_any_point_publishes_once() -> None:
    tools = {"parameter_store": f"{ADDRESS}/reports", "publish_report": {"id": "1", "url": f"{ADDRESS}/reports/1"}}
    given: dict[str, Any] = {"worker": "publish-worker", "tools": tools}
    assert [tool for tool, _ in worker_kit.run(FOLDER / "publish.py", {"report": {"a": 1}}, **given).writes] == ["publish_report"]
    assert worker_kit.crash_everywhere(FOLDER / "publish.py", {"report": {"a": 1}}, **given) > 0
