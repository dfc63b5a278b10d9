"""A folder that a stranger wrote: until the user trusts it, nothing in it runs outside the sandbox or turns the jail off."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import holdfast
from holdfast.cli.arguments import StorePlace
from holdfast.cli.check import check
from holdfast.cli.consent import Consent, TrustRequest, run_terms
from holdfast.cli.new import worker as new_worker
from holdfast.cli.trust import trust
from holdfast.lambda_api.templates.discovery import discover
from holdfast.model.errors import InvalidParameter
from holdfast.operator.trust import TrustNeeded, TrustRefused
from holdfast.service.client import Client
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.workers.policy import Policy
from tests.surface.cli_program import PATIENCE_SECONDS, PROGRAM
from tests.surface.stranger import RUN, WITH_A_TOOL, WITHOUT, Stranger


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    return Stranger(tmp_path)


@pytest.fixture
def inside(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    stranger.enter(monkeypatch)
    return stranger


# --- author tools


def test_no_code_of_an_untrusted_folder_runs_outside_the_sandbox_and_the_printed_command_lets_it(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.write(WITH_A_TOOL)
    refused = stranger(*RUN)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"error[trust_needed]: {stranger.folder} is not trusted: its tools (pay with PAY_KEY) run outside the sandbox" in refused.stderr
    assert not stranger.ran_outside
    assert not (stranger.folder / "holdfast.db").exists()
    command = re.search(r"holdfast trust (\S+) \(or add --trust\)", refused.stderr)
    assert command is not None, refused.stderr
    stranger.enter(monkeypatch)
    trust([Path(command.group(1))])
    ran = stranger(*RUN)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"paid": 5}), ran.stderr
    assert stranger.ran_outside


def test_check_runs_no_author_code_and_says_which_trust_is_needed(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    inside.write(WITH_A_TOOL)
    check([Path("shop.py")])
    needs = f"shop.py: its tools (pay) run outside the sandbox; {inside.folder} is not trusted: holdfast trust {inside.folder}"
    assert capsys.readouterr().out.splitlines()[-1] == needs
    inside.trust()
    check([Path("shop.py")], json_output=True)
    (need,) = json.loads(capsys.readouterr().out)["trust"]
    assert (need["folder"], need["tools"], need["trusted"]) == (str(inside.folder), ["pay"], True)
    assert not inside.ran_outside


def test_a_worker_without_tools_and_without_a_toml_runs_without_a_question_even_where_the_record_is_damaged(
    inside: Stranger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inside.write(WITHOUT)
    inside.trust()
    inside.book.file.write_text("{")
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    terms = run_terms([Path("shop.py")], StorePlace.of(None, None), None, None, trust=False)
    assert (terms.settings, terms.tools, capsys.readouterr().err) == (WorkerSettings(), False, "")


def test_what_a_terminal_is_asked_is_asked_once_and_no_is_no(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger.enter(monkeypatch)
    stranger.write(WITH_A_TOOL)

    def answered(text: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*PROGRAM, *RUN], cwd=stranger.folder, env=stranger.environment, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL
        )
        os.close(theirs)
        said = b""
        while process.poll() is None or said.endswith(b"\n"):
            try:
                part = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            said += part
            if said.endswith(b"[y/N] "):
                os.write(ours, text.encode())
        os.close(ours)
        return process.wait(PATIENCE_SECONDS), said.decode()

    code, said = answered("n\n")
    assert (code, stranger.ran_outside, stranger.book.folders()) == (2, False, [])
    assert f"Trust {stranger.folder}? [y/N] " in said
    assert said.count("[y/N]") == 1
    code, said = answered("y\n")
    assert (code, stranger.ran_outside, stranger.book.folders()) == (0, True, [stranger.folder])
    run_terms([stranger.folder / "shop.py"], StorePlace.of("named.db", None), None, None, trust=False)  # it is in the record: no question


def test_a_trusted_folder_that_others_can_change_by_now_is_refused_at_the_next_use(inside: Stranger) -> None:
    inside.write(WITH_A_TOOL)
    inside.trust()
    place = StorePlace.of(None, None)
    run_terms([Path("shop.py")], place, None, None, trust=False)
    (inside.folder / "neighbour.py").write_text("")
    (inside.folder / "neighbour.py").chmod(0o666)
    with pytest.raises(TrustRefused, match=r"neighbour\.py is writable by all users \(chmod o-w "):
        run_terms([Path("shop.py")], place, None, None, trust=False)
    with pytest.raises(TrustRefused):
        run_terms([Path("shop.py")], place, None, None, trust=True)


def test_trust_on_the_command_covers_the_tools_and_the_toml_of_the_folder_and_is_remembered(inside: Stranger) -> None:
    inside.write(WITH_A_TOOL, holdfast_toml='[policy]\nisolation = "process"\n')
    terms = run_terms([Path("shop.py")], StorePlace.of(None, None), None, None, trust=True)
    assert (terms.settings.policy.isolation, terms.tools, terms.refusal) == ("process", True, None)
    assert inside.book.folders() == [inside.folder]


def test_a_worker_elsewhere_needs_its_own_folder_and_the_one_whose_store_is_found(inside: Stranger, tmp_path: Path) -> None:
    inside.write(WITH_A_TOOL)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.chdir(elsewhere)
    worker = inside.folder / "shop.py"
    with pytest.raises(TrustNeeded, match=rf"holdfast trust {inside.folder} {elsewhere} "):
        run_terms([worker], StorePlace.of(None, None), None, None, trust=False)
    with pytest.raises(TrustNeeded, match=rf"holdfast trust {inside.folder} \(or"):
        run_terms([worker], StorePlace.of("named.db", None), None, None, trust=False)


def test_where_the_record_cannot_be_written_the_trust_holds_for_the_command_and_that_is_said(
    inside: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(inside.environment["XDG_CONFIG_HOME"]).write_text("a file where the folder should be")
    Consent(trust=True).settle([TrustRequest(folder=inside.folder, why="a test")])
    assert "warning: trusted for this command only: " in capsys.readouterr().err


# --- holdfast.toml


def test_a_toml_of_an_untrusted_folder_turns_no_jail_off_and_plays_no_cassette_and_says_so(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = 'cassette = "replay:none.jsonl"\n[policy]\nisolation = "inline"\nmemory_mb = 256\n'
    stranger.write(WITHOUT, holdfast_toml=loose)
    ran = stranger(*RUN, "--json")
    assert ran.returncode == 0, ran.stderr
    response = json.loads(ran.stdout)
    assert (response["outputs"], response["observability"]["isolation"]) == ({"locked": True}, "all")
    assert f"holdfast.toml: ignored, because {stranger.folder} is not trusted: cassette, policy.isolation\n" in ran.stderr
    assert f"holdfast.toml: to apply all of it: holdfast trust {stranger.folder}\n" in ran.stderr
    assert not stranger.ran_outside
    stranger.trust()
    stranger.enter(monkeypatch)
    applied = run_terms([Path("shop.py")], StorePlace.of(None, None), None, None, trust=False).settings
    assert (applied.policy.isolation, applied.cassette.path) == ("inline", "none.jsonl")


def test_a_toml_that_only_tightens_applies_and_says_nothing(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    inside.write(WITHOUT, holdfast_toml="[policy]\nmemory_mb = 256\n")
    terms = run_terms([Path("shop.py")], StorePlace.of(None, None), None, None, trust=False)
    assert (terms.settings.policy.memory_mb, capsys.readouterr().err) == (256, "")


# --- what else lies in the folder


def test_code_that_a_planted_store_brings_along_has_no_tools_until_the_folder_is_trusted(stranger: Stranger) -> None:
    stranger.write(WITH_A_TOOL, approval=", approval=True")
    waits = stranger(*RUN, "--key", "k", "--trust")
    assert waits.returncode == 4, waits.stderr
    with Client.open(str(stranger.folder / "holdfast.db")) as client:
        (approval,) = client.approvals.list()
        client.approvals.decide(approval.approval_id, "approve")
    stranger.book.remove(stranger.folder)
    (stranger.mark / "ran").unlink(missing_ok=True)
    stranger.write(WITHOUT)  # harmless to look at; the run goes on with the code beside the store
    ran = stranger(*RUN, "--key", "k")
    assert ran.returncode == 1
    assert "permanent_error: tool_not_trusted: The code of this run is kept beside holdfast.db in" in ran.stderr
    assert f"holdfast trust {stranger.folder}" in ran.stderr
    assert not stranger.ran_outside


def test_a_module_in_the_current_folder_does_not_stand_in_for_one_of_the_programs(stranger: Stranger) -> None:
    for name in ("typer", "rich", "msgspec", "json"):
        (stranger.folder / f"{name}.py").write_text(
            f"import pathlib; pathlib.Path({str(stranger.mark)!r}, 'ran').touch(); raise SystemExit(9)"
        )
    assert stranger("--version").returncode == 0
    assert not stranger.ran_outside


def test_a_module_in_the_current_folder_does_not_stand_in_where_functions_are_discovered(inside: Stranger, tmp_path: Path) -> None:
    (inside.folder / "msgspec.py").write_text(f"import pathlib; pathlib.Path({str(inside.mark)!r}, 'ran').touch()")
    file = tmp_path / "functions.py"
    file.write_text("from holdfast.durable import durable_execution\n\n@durable_execution\ndef greet(event, context):\n    return 1\n")
    assert [found.name for found in discover(str(file)).functions] == ["greet"]
    assert not inside.ran_outside


# --- the command


def test_folders_are_listed_and_removed(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    trust(list_=True)
    trust([Path()])
    trust(list_=True)
    trust([Path("shop.md")], remove=True)
    told = capsys.readouterr()
    folder = inside.folder
    assert told.out == f"{folder}\n"
    assert told.err == f"no folder is trusted\ntrusted: {folder}\ntrusted no longer: {folder / 'shop.md'}\n"
    assert inside.book.folders() == []


def test_a_trusted_folder_that_became_unfit_is_listed_with_its_fault(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    inside.trust()
    inside.folder.chmod(0o777)
    trust(list_=True, json_output=True)
    ((listed),) = json.loads(capsys.readouterr().out)
    assert listed == {"folder": str(inside.folder), "faults": [f"{inside.folder} is writable by all users (chmod o-w {inside.folder})"]}


@pytest.mark.parametrize("said", [{}, {"remove": True}, {"list_": True, "paths": [Path()]}, {"paths": [Path("nowhere")]}])
def test_a_trust_command_that_says_nothing_is_refused(inside: Stranger, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        trust(**said)
    assert inside.book.folders() == []


def test_a_new_folder_is_trusted_and_where_it_cannot_be_that_is_said(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    new_worker("mine")
    assert inside.book.folders() == [inside.folder / "mine"]
    inside.folder.chmod(0o777)
    new_worker("other")
    assert "warning: the folder is not trusted: " in capsys.readouterr().err
    assert inside.book.folders() == [inside.folder / "mine"]


def test_a_program_that_opens_an_engine_is_the_operator_and_needs_no_trust(inside: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    inside.write(WITH_A_TOOL)
    monkeypatch.setenv("PAY_KEY", "k")
    with holdfast.open(":memory:", workers=["shop.py"], worker_settings=WorkerSettings(policy=Policy(isolation="inline"))) as engine:
        assert engine.run("shop", {}).outputs == {"paid": 5}


def test_check_names_what_a_package_must_not_carry(inside: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    inside.write(WITHOUT.replace('"shop.md"', '"shop.md", include=[".env"]'))
    (inside.folder / ".env").write_text("KEY=1")
    with pytest.raises(typer.Exit) as ended:
        check([Path("shop.py")])
    assert ended.value.exit_code == 2
    assert "shop.py:7: error[include_refused] include: .env is refused, because .env is hidden." in capsys.readouterr().out
