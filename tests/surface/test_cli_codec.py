"""`--codec` and `HOLDFAST_CODEC`: commands on a store whose payloads are encrypted, and what they say without the codec."""

import json
from pathlib import Path

import pytest

from tests.surface.cli_program import Program

CODEC = """
from holdfast import AesGcm

print("the codec's module was loaded")
codec = AesGcm({"a": b"k" * 32}, "a")
other = AesGcm({"b": b"k" * 32}, "b")
cls = AesGcm
nothing = object()
"""
KEYED = ("--codec", "codecs_of_shop.py:codec")


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    (tmp_path / "codecs_of_shop.py").write_text(CODEC)
    program.environment.pop("HOLDFAST_CODEC", None)
    return program


def test_every_command_works_with_the_codec_and_the_file_keeps_the_secret(holdfast: Program) -> None:
    given = ("--name", "a", "--input", '{"who": "the-secret"}')
    assert json.loads(holdfast("run", "functions.py:greet", *given, *KEYED).stdout) == {"greeting": "hello the-secret"}
    assert holdfast.document("executions", "show", "a", *KEYED)["result"] == {"greeting": "hello the-secret"}
    assert "hello the-secret" in holdfast("executions", "history", "a", "--json", *KEYED).stdout
    assert len(holdfast("executions", "list", "--json", *KEYED).stdout.splitlines()) == 1
    raw = b"".join(path.read_bytes() for path in holdfast.folder.glob("holdfast.db*") if path.is_file())
    assert b"the-secret" not in raw


def test_the_codec_comes_from_the_environment_too(holdfast: Program) -> None:
    holdfast.environment["HOLDFAST_CODEC"] = "codecs_of_shop:codec"
    assert holdfast("run", "functions.py:approve", "--detach", "--name", "a").returncode == 0
    shown = holdfast.document("executions", "show", "a")
    assert shown["input"] == {}
    assert holdfast("executions", "stop", "a", "--error-message", "the-secret").returncode == 0
    assert holdfast.document("executions", "show", "a")["error"]["ErrorMessage"] == "the-secret"


def test_a_command_that_works_on_the_store_repeats_the_option(holdfast: Program) -> None:
    process = holdfast.begin("run", "functions.py:approve", "--name", "a", *KEYED)
    try:
        assert process.stderr is not None
        told = ""
        while "answer it with" not in told:
            told = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    command = told.strip().partition("answer it with: holdfast ")[2].split()
    assert command[-2:] == list(KEYED)
    assert holdfast(*command).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "functions.py:greet", "--name", "a"],
        ["run", "functions.py:greet", "--detach", "--name", "b"],
        ["executions", "list"],
        ["executions", "show", "a"],
        ["executions", "history", "a"],
        ["executions", "stop", "a"],
        ["executions", "release", "a"],
        ["callbacks", "succeed", "x"],
        ["callbacks", "fail", "x"],
        ["callbacks", "heartbeat", "x"],
    ],
)
def test_without_the_codec_every_command_refuses_such_a_store(holdfast: Program, words: list[str]) -> None:
    holdfast("run", "functions.py:greet", "--detach", "--name", "a", *KEYED)
    ended = holdfast(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "error[codec_mismatch]: holdfast.db was made with the payload codec 'aes-gcm'. "
        "Open it with that codec: `codec=`, or --codec or HOLDFAST_CODEC.\n"
    )
    wrong = holdfast(*words, "--codec", "codecs_of_shop.py:other")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "error[codec_mismatch]: holdfast.db cannot be read with these keys." in wrong.stderr


def test_a_plain_store_is_refused_with_a_codec(holdfast: Program) -> None:
    holdfast("run", "functions.py:greet", "--detach", "--name", "a")
    ended = holdfast("executions", "list", *KEYED)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "error[codec_mismatch]: holdfast.db was made without a payload codec" in ended.stderr


@pytest.mark.parametrize(
    "address, told",
    [
        ("codecs_of_shop", "'codecs_of_shop' names no codec. Write FILE:NAME"),
        (":codec", "names no codec"),
        ("none.py:codec", "There is no file none.py"),
        ("no.module:codec", "There is no module 'no.module'"),
        ("codecs_of_shop.py:unknown", "There is no payload codec 'unknown' in codecs_of_shop.py"),
        ("codecs_of_shop.py:nothing", "is not a payload codec: it lacks name, encode, decode, fingerprint"),
        ("codecs_of_shop.py:cls", "is not a payload codec: it is a class"),
        ("short.py:codec", "short.py could not be imported: InvalidParameter at "),
        ("short.py:codec", "Key 'a' must be 32 bytes"),
        ("raises.py:codec", "raises.py could not be imported: ValueError at "),
    ],
)
def test_a_codec_that_cannot_be_loaded_is_told_without_a_line_of_its_file(holdfast: Program, address: str, told: str) -> None:
    (holdfast.folder / "short.py").write_text('from holdfast import AesGcm\ncodec = AesGcm({"a": b"the-secret-key"}, "a")\n')
    (holdfast.folder / "raises.py").write_text('raise ValueError("the-secret-key")\n')
    for ended in (
        holdfast("executions", "list", "--codec", address),
        holdfast("run", "functions.py:greet", "--name", "a", "--codec", address),
    ):
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "error[codec_not_loadable]: " in ended.stderr
        assert told in ended.stderr
        assert "the-secret-key" not in ended.stderr
        assert "Traceback" not in ended.stderr
