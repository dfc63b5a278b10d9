"""The README's examples, as a reader would try them: run, kill in the middle, run again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.model.clock import monotonic
from holdfast.model.errors import HoldfastError
from holdfast.service.client import Client
from holdfast.testing import worker_kit
from tests.library.vendor_scene import case_at, copied_for, serving_site, settings_for


def test_the_readmes_example_is_killed_during_its_wait_and_charges_once(root: Path, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    assert found is not None
    counted = found[1].replace('    return f"receipt', '    print("charged", flush=True)\n    return f"receipt')
    assert counted != found[1]
    (tmp_path / "orders.py").write_text(counted)
    first = subprocess.Popen([sys.executable, "orders.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    wait_until_suspended(str(tmp_path / "orders.db"))
    first.kill()
    said, _ = first.communicate()
    again = subprocess.run([sys.executable, "orders.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert said == "charged\n"
    assert again.stdout == "{'order_id': '42', 'receipt': 'receipt-42'}\n"
    shown = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "run", "orders.py:process_order", "--input", '{"order_id": "42"}', "--name", "order-42",
         "--store", "orders.db"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert '"receipt-42"' in shown.stdout


def test_the_readmes_test_passes(root: Path, tmp_path: Path) -> None:
    example, _, _, kit = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    (tmp_path / "orders.py").write_text(example)
    (tmp_path / "tried.py").write_text(f"from orders import process_order\n{kit}")
    ran = subprocess.run([sys.executable, "tried.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "SUCCEEDED receipt-42\n5 crashes changed nothing\n"


def test_the_readmes_worker_is_the_librarys_and_runs_as_written(root: Path, tmp_path: Path) -> None:
    _, example, _, _ = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    page = root / "src/holdfast/library/refund/refund-worker.md"
    (tmp_path / page.name).write_text(page.read_text())
    (tmp_path / "refund.py").write_text(example)
    inputs = {"message": "It broke. Please refund.", "order_id": "42"}
    stubs = {"language_model": {"decision": "refund", "cents": 1900}, "refund_payment": {"id": "r-1"}}
    waits = worker_kit.run(tmp_path / "refund.py", inputs, tools=stubs)
    assert (waits.status, [approval["tool"] for approval in waits.approvals]) == ("needs_human", ["refund_payment"])
    paid = worker_kit.run(tmp_path / "refund.py", inputs, tools=stubs, decisions={"refund_payment": "approve"})
    assert (paid.status, paid.outputs) == ("ok", {"refund_id": "r-1"})
    unclear = worker_kit.run(tmp_path / "refund.py", inputs, tools={**stubs, "language_model": {"decision": "unclear"}})
    assert (unclear.status, unclear.error.error_code) == ("needs_human", "ambiguous_request")


async def test_the_readmes_pipeline_is_the_examples_and_runs_as_written(root: Path, tmp_path: Path) -> None:
    _, _, pipeline, _ = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.S)
    with serving_site() as web:
        folder = copied_for(web, tmp_path)
        assert (folder / "vendor_research.py").read_text().endswith(f'"""\n\n{pipeline}')
        (folder / "vendor_research.py").write_text(pipeline)
        settings = settings_for(web, tmp_path)
        async with holdfast.open(":memory:", workers=[folder / "vendor_research.py"], worker_settings=settings) as engine:
            waits = await engine.run("vendor-research", case_at(web), idempotency_key="v1")
        assert [approval["question"] for approval in waits.approvals] == ["Publish this report?"]


def wait_until_suspended(store: str) -> None:
    deadline = monotonic() + 60
    while monotonic() < deadline:
        try:
            with Client.open(store) as client:
                if client.describe("order-42").state == "suspended":
                    return
        except HoldfastError:
            continue
    raise AssertionError("the example did not reach its wait")
