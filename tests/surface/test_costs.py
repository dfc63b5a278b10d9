"""Costs over HTTP and on the command line, by the real programs: what runs have cost, what a run may cost, and who may see it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.ledger import EntryState, LedgerEntry, expiry
from holdfast.model.verbs import Checkpoint
from holdfast.store.backends import open_store
from holdfast.testing.stores.writes import LEASE, T0, answers, checkpoint, live, step
from holdfast.web.auth.keys import Issued
from tests.surface.auth_server import token
from tests.surface.cli_program import Program
from tests.surface.serve_program import Program as Server
from tests.surface.serve_program import programs
from tests.surface.served_workers import web

SOURCE = """from holdfast import Pipeline

RULES = [{"path": "/n", "op": "exists", "code": "no_n", "message": "There is no n."}]
p = Pipeline("judging", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
judged = p.map("judge", "validator-worker", p.inputs.ns, {"candidate": p.item, "rules": p.const(RULES)}, at_most=10)
p.gives({"n": judged.counts.ok})
"""
PRICES = '[model]\nmodel = "m"\n[model.prices.m]\ninput = 1.0\noutput = 2.0\n'


def entries(tenant: str, run: str, nanos: int) -> tuple[LedgerEntry, ...]:
    """A call that began and ended."""
    who: dict[str, Any] = {"tenant": tenant, "worker": "=w", "run": run, "root": run, "path": run, "call": "c", "model": "m"}
    when: dict[str, Any] = {"at": T0, "expires_at": expiry(T0, 396)}
    begun = LedgerEntry(**who, **when, state=EntryState.RESERVED, held_tokens=20, held_nanos=nanos)
    spent: dict[str, Any] = {
        "input_tokens": 7,
        "output_tokens": 3,
        "cached_tokens": 5,
        "nanos": nanos,
        "held_tokens": -20,
        "held_nanos": -nanos,
    }
    return begun, LedgerEntry(**who, **when, state=EntryState.SETTLED, **spent)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pipeline, prices, and a store whose ledger has a call of each of two tenants."""
    made = tmp_path_factory.mktemp("costs")
    (made / "judging.py").write_text(SOURCE)
    (made / "holdfast.toml").write_text(PRICES)
    store = open_store(str(made / "holdfast.db"), "maker")
    store.join("maker", LEASE)
    for tenant, nanos in (("acme", 1_500_000), ("zoo", 250)):
        write = checkpoint(live(store, tenant), step("s"))
        answers(store, Checkpoint(write.at, write.updates, ledger=entries(tenant, f"run-{tenant}", nanos)))
    store.leave("maker")
    store.close()
    return made


@pytest.fixture
def holdfast(folder: Path) -> Program:
    return Program(folder)


def test_costs_are_a_table_a_document_and_a_sheet(holdfast: Program) -> None:
    table = holdfast("cost", "--by", "tenant").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["TENANT", "acme", "zoo", "all"]
    assert "$0.00150025" in table[-1]
    told = json.loads(holdfast("cost", "--by", "tenant", "--json").stdout)
    assert [(line["tenant"], line["cost_usd"], line["tokens"]["cached"]) for line in told["lines"]] == [
        ("acme", 0.0015, 5),
        ("zoo", 2.5e-7, 5),
    ]
    sheet = list(csv.DictReader(io.StringIO(holdfast("cost", "--by", "worker,day", "--csv").stdout)))
    assert [(row["worker"], row["day"], row["cost_usd"], row["calls"]) for row in sheet] == [("'=w", "2026-01-01", "0.00150025", "2")]
    assert "run-zoo" in holdfast("cost", "run-zoo", "--by", "run").stdout
    assert holdfast("cost", "--until", "2025-12-31").stderr.startswith("nothing was spent")


@pytest.mark.parametrize(
    "words, told",
    [
        (["--by", "colour"], "Costs are summed by day, tenant"),
        (["--by", "run"], "name that run"),
        (["--since", "yesterday"], "is not a day"),
        (["--until", "30d"], "'30d' is not a day: write the last day that is counted, such as 2026-11-01."),
        (["--until", "2026-02-31"], "'2026-02-31' is not a day"),
        (["no-run"], "There is no run no-run"),
        (["--json", "--csv"], "give one of them"),
        (["--input", "{}"], "--input is for an estimate"),
        (["missing.py"], "There is no file missing.py"),
        (["judging.py", "--since", "1d"], "An estimate is not summed"),
    ],
)
def test_a_question_that_has_no_answer_is_one_line_with_a_code(holdfast: Program, words: list[str], told: str) -> None:
    asked = holdfast("cost", *words)
    assert (asked.returncode, told in asked.stderr, "Traceback" in asked.stderr) == (2, True, False), asked.stderr


def test_an_estimate_counts_the_items_of_its_input_and_runs_nothing(holdfast: Program) -> None:
    words = ("--input", '{"ns": [1, 2, 3]}', "--trust", "--json")
    told = json.loads(holdfast("cost", "judging.py", *words).stdout)
    assert (told["most"], told["nodes"][0]["runs"], told["unknown"]) == ({"tokens": 24_000, "cost_usd": 0.048}, 3, [])
    assert json.loads(holdfast("run", "judging.py", "--estimate", *words).stdout) == told
    assert holdfast("runs", "list").stdout == ""


def test_an_estimate_of_a_worker_with_tools_needs_no_trust(tmp_path: Path) -> None:
    there = Program(tmp_path)
    assert there("new", "worker", "facts").returncode == 0
    assert there("trust", "--remove", "facts").returncode == 0
    there = Program(tmp_path / "facts")
    wanted = there("run", "facts.py", "--input", "@case.json")
    assert (wanted.returncode, "error[trust_needed]" in wanted.stderr) == (2, True)
    for words in (("cost", "facts.py"), ("run", "facts.py", "--estimate", "--input", "@case.json")):
        told = json.loads(there(*words, "--json").stdout)
        assert (told["nodes"][0]["node"], told["most"]["tokens"]) == ("facts", 1500)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[tuple[Server, Issued, Issued]]:
    """A server, and two who may look: one at everything, one at what belongs to the tenant zoo."""
    store = open_store(str(folder / "holdfast.db"), "issuer")
    whole, zoo = token(store, "viewer"), token(store, "viewer", tenant="zoo")
    store.close()
    with programs(folder) as started:
        yield started.begun("judging.py", "--trust", store="holdfast.db").started("/v1/workers/"), whole, zoo


def test_http_has_the_same_answers(server: tuple[Server, Issued, Issued]) -> None:
    with web(*server[:2]) as http:
        told = http.get("/v1/cost", params={"by": "tenant"}).json()
        assert [line["tenant"] for line in told["lines"]] == ["acme", "zoo"]
        assert http.get("/v1/cost", params={"run": "run-acme"}).json()["total"]["cost_usd"] == 0.0015
        assert (http.get("/v1/cost", params={"by": "x"}).status_code, http.get("/v1/cost", params={"run": "none"}).status_code) == (
            400,
            404,
        )
        estimate = http.post("/v1/workers/judging/estimate", json={"inputs": {"ns": [1]}}).json()
        assert estimate["most"] == {"tokens": 8000, "cost_usd": 0.016}
        assert http.post("/v1/workers/none/estimate", json={"inputs": {}}).status_code == 404
        assert http.get("/v1/runs/none/estimate").status_code == 404


def test_a_credential_of_a_tenant_sees_the_costs_of_its_own_tenant_only(server: tuple[Server, Issued, Issued]) -> None:
    program, _, zoo = server
    with web(program, zoo) as http:
        seen = http.get("/v1/cost", params={"by": "tenant"}).json()
        other, run = http.get("/v1/cost", params={"tenant": "acme"}), http.get("/v1/cost", params={"run": "run-acme"})
    assert [line["tenant"] for line in seen["lines"]] == ["zoo"]
    assert (other.status_code, other.json()["error"]["error_code"]) == (403, "access_denied")
    assert (run.status_code, run.json()["total"]["calls"], run.json()["lines"]) == (200, 0, [])
