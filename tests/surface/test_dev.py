"""`holdfast dev`: one command serves, reloads, opens the console, and without a target runs a sample that needs no key and no network."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.cli.sample import Sample, sample_of, source_folder
from holdfast.model.errors import InvalidParameter
from holdfast.operator.trust import TrustBook, configuration_folder
from tests.surface.serve_program import PATIENCE_SECONDS, Program, until


class Dev(Program):
    """The command in a folder, with a configuration of its own, and a browser that writes down where it is sent."""

    command = "dev"

    def __init__(self, folder: Path, *arguments: str) -> None:
        browser = folder.parent / "browser.sh"
        browser.write_text(f'#!/bin/sh\necho "$1" >> {folder.parent}/opened\n')
        browser.chmod(0o700)
        self.opened_file = folder.parent / "opened"
        environment = {"BROWSER": str(browser), "XDG_CONFIG_HOME": str(folder.parent / "configuration")}
        super().__init__("--port", "0", *arguments, cwd=folder, environment=environment)

    @property
    def opened(self) -> list[str]:
        return self.opened_file.read_text().splitlines() if self.opened_file.exists() else []


HELLO = """
from holdfast.durable import durable_execution


@durable_execution(execution_timeout=60)
def hello(event, context):
    return {!r}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    made = tmp_path / "here"
    made.mkdir(mode=0o755)
    return made


@pytest.fixture
def devs(folder: Path) -> Iterator[Any]:
    begun: list[Dev] = []

    def start(*arguments: str, mark: str = "console: ") -> Dev:
        begun.append(Dev(folder, *arguments))
        begun[-1].started(mark)
        return begun[-1]

    yield start
    for one in begun:
        one.close()


def test_without_a_target_a_sample_runs_and_waits_for_a_person_and_a_second_start_finds_the_same_run(folder: Path, devs: Any) -> None:
    dev = devs("--no-open", mark="The sample runs: ")
    run = dev.said[-1].removeprefix("The sample runs: ").partition(".")[0]
    with httpx.Client(base_url=dev.url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        (approval,) = until(lambda: client.get("/v1/approvals").json()["approvals"], "a question of the sample")
    assert approval["run_id"] == run
    assert f"console: {dev.url}/console/" in dev.said
    assert dev.opened == []
    assert stat.S_IMODE((folder / "holdfast.db.sample").stat().st_mode) == 0o700
    assert TrustBook(configuration_folder({"XDG_CONFIG_HOME": str(folder.parent / "configuration")})).folders() == [
        folder / "holdfast.db.sample"
    ]
    assert dev.leave(signal.SIGINT) == 0
    again = devs("--no-open", mark="The sample runs: ")
    assert run in again.said[-1]


def test_a_second_command_for_the_same_sample_is_refused_and_changes_nothing_of_it(folder: Path, devs: Any) -> None:
    devs("--no-open", mark="The sample runs: ")
    copy = sample_of(str(folder / "holdfast.db")).folder
    before = {file: file.read_bytes() for file in copy.rglob("*.*") if file.is_file()}
    second = Dev(folder, "--no-open")
    assert second.process.wait(PATIENCE_SECONDS) == 2
    second.close()
    assert second.warned[-1] == (
        f"error[invalid_parameter]: Another `holdfast dev` serves the sample {copy}. "
        "Open its console, end it, or name another store with --store."
    )
    assert {file: file.read_bytes() for file in copy.rglob("*.*") if file.is_file()} == before


def test_a_target_is_served_its_changes_are_published_and_the_console_is_opened(folder: Path, devs: Any) -> None:
    (folder / "hello.py").write_text(HELLO.format("one"))
    dev = devs("hello.py", mark="AWS_ENDPOINT_URL_LAMBDA=")
    assert dev.invoke("hello", {}, Qualifier="$LATEST")["Payload"] == "one"
    (folder / "hello.py").write_text(HELLO.format("two"))
    until(lambda: "hello is version 2 now" in dev.warned, "a new version")
    assert dev.invoke("hello", {}, Qualifier="$LATEST")["Payload"] == "two"
    until(lambda: dev.opened == [f"{dev.url}/console/"], "the browser")
    assert not (folder / "holdfast.db.sample").exists()


def test_a_store_of_the_folder_that_the_command_did_not_make_is_trusted_first(folder: Path) -> None:
    (folder / "holdfast.db").touch(0o600)
    dev = Dev(folder, "--no-open")
    try:
        assert dev.process.wait(PATIENCE_SECONDS) == 2
        until(lambda: any("error[trust_needed]" in line for line in dev.warned), "a refusal")
    finally:
        dev.close()


def test_the_copy_of_the_sample_is_private_and_a_changed_copy_stays(folder: Path) -> None:
    sample = sample_of(str(folder / "holdfast.db"))
    sample.fill()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in sample.folder.rglob("*")}
    assert modes == {0o600, 0o700}
    (sample.folder / "rules.py").write_text("RULES = []\n")
    sample.fill()
    assert (sample.folder / "rules.py").read_text() == "RULES = []\n"


def test_a_sample_that_cannot_be_written_is_refused_with_what_to_do(folder: Path) -> None:
    command = [sys.executable, "-m", "holdfast.cli", "dev", "--no-open", "--port", "0", "--store", str(folder / "nowhere" / "x.db")]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error[invalid_parameter]: The sample, ")
    assert ended.stderr.endswith(
        "could not be written: No such file or directory. "
        "The folder of the sample is beside the store: name a store elsewhere with --store.\n"
    )


@pytest.mark.parametrize("case", ["{", "[]", '{"urls": []}', '{"urls": ["https://vendor.example/"]}'])
def test_a_case_of_the_sample_that_was_changed_too_much_is_told_with_what_to_do(folder: Path, case: str) -> None:
    sample = sample_of(str(folder / "holdfast.db"))
    sample.fill()
    (sample.folder / "case.json").write_text(case)
    with pytest.raises(InvalidParameter, match=r"case\.json cannot be used: .* to begin anew\."):
        _ = sample.port


def test_the_web_of_the_sample_moves_to_another_port_if_its_own_is_taken(folder: Path) -> None:
    sample = sample_of(str(folder / "holdfast.db"))
    sample.fill()
    with sample.web() as first:
        other = Sample(folder / "other")
        other.fill()
        (other.folder / "case.json").write_text((sample.folder / "case.json").read_text())
        with other.web() as second:
            assert first != second
            assert httpx.get(f"{second}/acme/about.html", trust_env=False).status_code == 200
            assert f"http://127.0.0.1:{other.port}" == second
            assert f'allow_private = ["127.0.0.1:{other.port}"]' in other.config.read_text()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_wheel_has_all_files_of_the_sample_and_finds_them(root: Path, tmp_path: Path) -> None:
    """An editable install finds the sample among the examples, so only a real wheel shows what it lacks."""
    build = "import os, sys; from hatchling.build import build_wheel; os.chdir(sys.argv[1]); print(build_wheel(sys.argv[2]))"
    built = subprocess.run([sys.executable, "-c", build, str(root), str(tmp_path)], capture_output=True, check=True, text=True).stdout
    with zipfile.ZipFile(tmp_path / built.split()[-1]) as wheel:
        wheel.extractall(tmp_path / "installed")
    packed = tmp_path / "installed" / "holdfast" / "cli" / "samples" / "vendor_research"
    wanted = {
        path.relative_to(source_folder()) for path in source_folder().rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    left = {Path("README.md"), Path("demo.py"), *(path for path in wanted if path.name.startswith("holdfast.db"))}
    assert {path.relative_to(packed) for path in packed.rglob("*") if path.is_file()} == wanted - left
    script = "from holdfast.cli import sample; print(sample.source_folder())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(ran.stdout.strip()) == packed
