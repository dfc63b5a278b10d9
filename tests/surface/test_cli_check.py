"""`holdfast check`: every problem with its file and line, what a worker may do when there is none, and an exit code for scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.surface.cli_program import Program
from tests.unit.worker_pages import AWS_LAMBDA, WEB_SCRAPE, flat, markdown


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    (tmp_path / "scrape.md").write_text(markdown(WEB_SCRAPE))
    (tmp_path / "lambda.md").write_text(flat(AWS_LAMBDA))
    (tmp_path / "bad.md").write_text(WEB_SCRAPE.replace("version: 1.0\n", "").replace('"max_tokens": 1500', '"max_tokens": "many"'))
    return program


def test_a_page_that_is_fine_is_summed_up(holdfast: Program) -> None:
    ended = holdfast("check", "scrape.md")
    assert (ended.returncode, ended.stderr) == (0, "")
    warning, *summary = ended.stdout.splitlines()
    assert re.match(r"scrape\.md:\d+: warning\[rate_limit_example\] Constraints: The rate is only an example", warning)
    assert summary == [
        "scrape.md: web-scrape-worker 1.0 is fine, 1 warning",
        "  takes      url: string, extraction_spec: object, user_agent: string (optional)",
        "  gives      data: object, source: object, warnings: array",
        "  may use    fetch_url, parse_html",
        "  may reach  any public address",
        "  limits     60 s for each attempt, 1500 tokens",
        "  rate       10 runs in 60 s for each tenant",
        "  retries    2 attempts, exponential backoff",
        "  errors     access_denied (not retryable), fetch_timeout (retryable)",
    ]


def test_a_page_with_errors_names_each_with_file_and_line_and_exits_with_2(holdfast: Program) -> None:
    ended = holdfast("check", "bad.md")
    assert (ended.returncode, ended.stderr) == (2, "")
    lines = (holdfast.folder / "bad.md").read_text().split("\n")
    spec, tokens = lines.index("Worker spec#") + 1, next(n for n, line in enumerate(lines, 1) if '"many"' in line)
    told = ended.stdout.splitlines()
    assert told[0].startswith(f"bad.md:{spec}: error[field_missing] Worker spec: There is no `version`.")
    assert told[1].startswith(f"bad.md:{tokens}: error[bad_value] Constraints: `max_tokens` is `many`.")
    assert told[-1] == "bad.md: 2 errors, 1 warning"


def test_a_workers_file_is_checked_with_its_page_which_knows_its_tools(holdfast: Program) -> None:
    page = markdown(WEB_SCRAPE).replace("parse_html", "save")
    source = 'from holdfast import tool, worker\n@tool\ndef save(call, url: str): ...\n@worker("own.md")\ndef own(inputs, ctx): ...\n'
    (holdfast.folder / "own.md").write_text(page)
    (holdfast.folder / "own.py").write_text(source)
    ended = holdfast("check", "own.py")
    assert (ended.returncode, "unknown_tool" in ended.stdout) == (0, False)
    assert "own.md: web-scrape-worker 1.0 is fine, 1 warning" in ended.stdout
    (holdfast.folder / "own.py").write_text(source.replace("@tool", "@tool(effect=EFFECT)") + "1 / 0\n")
    ended = holdfast("check", "own.py")
    told = ended.stdout.splitlines()
    assert (ended.returncode, told[0].startswith("own.py:2: error[worker_file] ")) == (2, True)
    (holdfast.folder / "own.py").write_text("1 / 0\n")
    assert holdfast("check", "own.py").stdout.startswith("own.py:1: error[worker_file] The file declares no worker: ")


def test_several_pages_are_all_checked_and_one_error_is_enough_for_exit_2(holdfast: Program) -> None:
    ended = holdfast("check", "lambda.md", "bad.md", "scrape.md")
    assert ended.returncode == 2
    assert [line for line in ended.stdout.splitlines() if re.search(r"is fine|\d errors?, ", line)] == [
        "lambda.md: aws-lambda-worker 1.0 is fine, 1 warning",
        "bad.md: 2 errors, 1 warning",
        "scrape.md: web-scrape-worker 1.0 is fine, 1 warning",
    ]
    assert holdfast("check", "lambda.md", "scrape.md").returncode == 0


@pytest.mark.parametrize("name, why", [("none.md", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_a_clear_error_and_the_others_are_checked(holdfast: Program, name: str, why: str) -> None:
    ended = holdfast("check", name, "scrape.md")
    assert (ended.returncode, ended.stderr) == (2, "")
    assert ended.stdout.splitlines()[0] == f"{name}: error[file_not_readable] The file could not be read: {why}."
    assert "scrape.md: web-scrape-worker 1.0 is fine" in ended.stdout


def test_no_file_at_all_is_a_mistake_that_is_explained(holdfast: Program) -> None:
    ended = holdfast("check")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "FILE" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_machines_get_one_document(holdfast: Program) -> None:
    ended = holdfast("check", "scrape.md", "bad.md", "none.md", "--json")
    document = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr, document["ok"]) == (2, "", False)
    scrape, bad, none = document["files"]
    assert (scrape["file"], scrape["ok"]) == ("scrape.md", True)
    assert scrape["contract"]["worker_id"] == "web-scrape-worker"
    assert scrape["contract"]["limits"]["tools"] == [{"name": "fetch_url", "optional": False}, {"name": "parse_html", "optional": False}]
    assert set(scrape["problems"][0]) == {"level", "code", "section", "line", "message"}
    assert (bad["ok"], bad["contract"], [problem["code"] for problem in bad["problems"]][:2]) == (
        False,
        None,
        ["field_missing", "bad_value"],
    )
    assert [problem["code"] for problem in none["problems"]] == ["file_not_readable"]
    assert holdfast.document("check", "scrape.md")["ok"] is True


def test_a_tool_of_ones_own_can_be_made_known(holdfast: Program) -> None:
    page = (holdfast.folder / "lambda.md").read_text().replace("parameter_store", "refund_payment")
    (holdfast.folder / "own.md").write_text(page)
    assert "warning[unknown_tool]" in holdfast("check", "own.md").stdout
    assert "unknown_tool" not in holdfast("check", "own.md", "--tool", "refund_payment").stdout


def test_a_hostile_page_cannot_steer_the_terminal(holdfast: Program) -> None:
    (holdfast.folder / "odd.md").write_text(WEB_SCRAPE.replace("version: 1.0", "version: \x1b[31mred\x07"))
    ended = holdfast("check", "odd.md")
    assert ended.returncode == 2
    assert "\x1b" not in ended.stdout


def test_all_that_a_contract_bounds_is_told() -> None:
    from holdfast.cli.check import _limits
    from holdfast.contract.terms import RunLimits

    values = {name: 7 for name in RunLimits.__struct_fields__ if name not in ("tool_quotas", "tools", "allow_subprocess")}
    told = ", ".join(_limits(RunLimits(**values, tool_quotas={"t": 7}, allow_subprocess=True)))  # type: ignore[arg-type]
    assert told.count("7") == len(values) + 1
    assert told.endswith("may start processes")


def test_the_page_about_worker_md_explains_every_problem_and_its_example_has_none(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "worker-md.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "holdfast" / "contract").glob("*.py")))
    for name in ("check_pages.py", "check_files.py"):
        source += (ROOT / "src" / "holdfast" / "cli" / name).read_text(encoding="utf-8")
    codes = set(re.findall(r'(?:\.error|\.warning|_failed|Level\.(?:ERROR|WARNING),)\s*\(?\s*"(\w+)"', source))
    codes |= set(re.findall(r'^    "(schema_\w+)": "', source, re.M))  # the limits of schemas, by the code each is refused with
    assert len(codes) > 30
    assert codes == set(re.findall(r"^\| `(\w+)` \| (?:error|warning)", page, re.M))
    (example,) = re.findall(r"^````markdown\n(.*?)^````$", page, re.M | re.S)
    (tmp_path / "refund-worker.md").write_text(example)
    ended = Program(tmp_path)("check", "refund-worker.md", "--tool", "refund_payment")
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, "refund-worker.md: refund-worker 1.0 is fine, no warnings")
    assert ended.stdout in page
