"""Every ready worker: its page is clean, its example fits, and it is found by its id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.contract.checking import checker_of
from holdfast.contract.page_reader import read
from holdfast.contract.terms import Contract, PageReading
from holdfast.hosts.sandbox.snapshot import gather
from holdfast.library import WORKERS, find
from holdfast.testing import worker_kit
from holdfast.workers.tools.declarations import declarations_of
from tests.conftest import ROOT
from tests.library.scene import case_of, copied, file_of
from tests.surface.cli_program import Program
from tests.unit.worker_pages import SITE_PAGES

every_worker = pytest.mark.parametrize("worker", sorted(WORKERS))


def page_of(worker: str) -> Path:
    (declared,) = declarations_of(file_of(worker).read_bytes()).workers
    return file_of(worker).parent / declared.page


def reading(worker: str) -> PageReading:
    tools = frozenset(tool.name for tool in declarations_of(file_of(worker).read_bytes()).tools)
    return read(page_of(worker).read_text(), tools=tools)


def contract(worker: str) -> Contract:
    found = reading(worker).contract
    assert found is not None
    return found


@every_worker
def test_its_page_is_clean_and_carries_its_id(worker: str) -> None:
    assert reading(worker).problems == ()
    assert contract(worker).worker_id == worker


@every_worker
def test_its_file_declares_one_worker_and_nothing_that_cannot_be_read(worker: str) -> None:
    declared = declarations_of(file_of(worker).read_bytes())
    assert (len(declared.workers), declared.problems) == (1, ())


@every_worker
def test_its_example_fits_its_input_schema(worker: str) -> None:
    assert checker_of(contract(worker).input_schema).problems(case_of(worker)) == ()


@every_worker
def test_its_snapshot_is_its_own_folder_and_not_the_whole_of_holdfast(worker: str) -> None:
    folder = file_of(worker).parent
    files = gather(file_of(worker), page_of(worker))
    assert {path.parent for path in files.values()} == {folder}
    assert {file_of(worker).name, page_of(worker).name} <= set(files)


@every_worker
def test_the_reference_page_has_a_heading_for_it(worker: str) -> None:
    assert f"\n## {worker}\n" in (ROOT / "docs" / "reference" / "library.md").read_text()


@every_worker
def test_holdfast_check_finds_nothing(worker: str, tmp_path: Path) -> None:
    tools = [part for tool in declarations_of(file_of(worker).read_bytes()).tools for part in ("--tool", tool.name)]
    ended = Program(tmp_path)("check", str(page_of(worker)), *tools)
    assert ended.returncode == 0
    assert f"{worker} 1.0 is fine, no warnings" in ended.stdout


def test_every_folder_of_the_library_is_a_worker_that_can_be_found() -> None:
    folders = {path.parent.name for path in (ROOT / "src" / "holdfast" / "library").glob("*/__init__.py")}
    assert {file_of(worker).parent.name for worker in WORKERS} == folders
    assert find("no-such-worker") is None


@pytest.mark.parametrize("worker", sorted(SITE_PAGES))
def test_the_contract_is_the_one_of_the_page_it_comes_from(worker: str) -> None:
    ours, theirs = contract(worker), read(SITE_PAGES[worker]).contract
    assert theirs is not None
    assert theirs.rate_limit is not None
    prose = {"title": "", "problem": "", "sha256": ""}
    assert set(theirs.errors.items()) <= set(ours.errors.items())
    same = msgspec.structs.replace(
        theirs, **prose, errors=ours.errors, rate_limit=msgspec.structs.replace(theirs.rate_limit, was_example=False)
    )
    assert msgspec.structs.replace(ours, **prose) == same


# --- by id -------------------------------------------------------------------------------------------------------------------

TEXT = "<h1>Tea</h1>"
PAGE: dict[str, Any] = {
    "url": "https://shop.example/", "status": 200, "text": TEXT, "headers": {}, "fetched_at": "2026-01-01T00:00:00.000Z",
    "sha256": "0", "size_bytes": 12, "redirects": [],
}  # fmt: skip


def test_the_testing_kit_runs_it_by_its_id() -> None:
    told = worker_kit.run("web-scrape-worker", {"url": PAGE["url"], "extraction_spec": {"h": "h1"}}, tools={"fetch_url": PAGE})
    assert told.outputs["data"] == {"h": "Tea"}


def test_the_command_line_runs_it_by_its_id_from_any_folder(tmp_path: Path) -> None:
    cassette = tmp_path / "calls.jsonl"
    cassette.write_text(json.dumps({"tool": "fetch_url", "arguments": {"url": PAGE["url"]}, "result": PAGE}) + "\n")
    (tmp_path / "holdfast.toml").write_text('cassette = "replay:calls.jsonl"\n')
    inputs = json.dumps({"url": PAGE["url"], "extraction_spec": {"h": "h1"}})
    ended = Program(tmp_path)("run", "web-scrape-worker", "--input", inputs, "--trust")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["data"] == {"h": "Tea"}
    assert "isolation: all" in ended.stderr


def test_a_file_of_ones_own_comes_before_the_library(tmp_path: Path) -> None:
    file = copied("web-scrape-worker", tmp_path)
    file.write_text(file.read_text().replace('"data": found.data', '"data": {"mine": True}'))
    told = worker_kit.run(file, {"url": PAGE["url"], "extraction_spec": {"h": "h1"}}, tools={"fetch_url": PAGE})
    assert told.outputs["data"] == {"mine": True}
