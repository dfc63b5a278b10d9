"""Secrets: where they come from, and how they are kept out of what is written down."""

import base64
import errno
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.workers.tools.seam import ToolFailed, Usage
from holdfast.workers.tools.secrets import EnvironmentSecrets, FileSecrets, Redactor, Secrets

KEY = 'p@ss/word+ with ü and "quotes"'
REDACTED = "[redacted:KEY]"


def test_sources_are_asked_in_order(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[secrets]\nA = "from-file"\nB = "b-file"\n[parameters]\nC = "c"\n')
    (tmp_path / "s.json").write_text('{"secrets": {"D": "d-json", "E": 7}}')
    folder = tmp_path / "mounted"
    folder.mkdir()
    (folder / "F").write_text("f-mounted\n")
    files = [FileSecrets(tmp_path / "s.toml"), FileSecrets(tmp_path / "s.json"), FileSecrets(folder)]
    secrets = Secrets([EnvironmentSecrets({"A": "from-environment", "EMPTY": ""}), *files])
    found = secrets.resolve(["A", "B", "D", "F"], "pay")
    assert found == {"A": "from-environment", "B": "b-file", "D": "d-json", "F": "f-mounted"}
    with pytest.raises(ToolFailed, match=r"not found: C, E, EMPTY, .*searched: the runner's environment, s\.toml, s\.json, mounted/"):
        secrets.resolve(["C", "E", "EMPTY", "../s.toml"], "pay")


def test_the_runners_own_variables_are_no_tools_secret() -> None:
    environment = {"HOLDFAST_MODEL_KEY": "k", "HOLDFAST_KEYS_SECRET": "s", "PAY_KEY": "p"}
    source = EnvironmentSecrets(environment)
    assert [source.get(name) for name in environment] == [None, None, "p"]


def test_no_source_and_a_broken_file_are_clear(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="no source is set"):
        Secrets([]).resolve(["A"], "pay")
    (tmp_path / "s.toml").write_text("= broken")
    with pytest.raises(ToolFailed, match=r"s\.toml is not valid TOML or JSON"):
        Secrets([FileSecrets(tmp_path / "s.toml")]).resolve(["A"], "pay")


def test_a_mounted_secret_that_cannot_be_read_fails_the_call_with_a_known_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "A").write_bytes(b"\xff\xfe secret")
    secrets = Secrets([FileSecrets(tmp_path)])
    with pytest.raises(ToolFailed, match=r"'A' in .* is not UTF-8 text") as not_text:
        secrets.resolve(["A"], "pay")
    assert "ff" not in not_text.value.message

    def refused(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refused)  # the tests may run as root, who may read every file
    with pytest.raises(ToolFailed, match=r"'A' in .* cannot be read: Permission denied") as denied:
        secrets.resolve(["A"], "pay")
    assert (not_text.value.known, denied.value.known) == (True, True)


@pytest.mark.parametrize("form", [
    KEY, quote(KEY), quote(KEY, safe=""), quote_plus(KEY), json.dumps(KEY)[1:-1], json.dumps(KEY, ensure_ascii=False)[1:-1],
    KEY.encode().hex(),
    KEY.encode().hex().upper(), base64.b64encode(KEY.encode()).decode(), base64.urlsafe_b64encode(KEY.encode()).decode(),
])  # fmt: skip
def test_a_secret_is_found_in_every_usual_form(form: str) -> None:
    clean = Redactor({"KEY": KEY}).text(f"before {form} after")
    assert clean.startswith(f"before {REDACTED}")
    assert KEY not in clean
    assert form not in clean


@given(st.text(min_size=8, max_size=40), st.binary(max_size=7), st.binary(max_size=7))
def test_a_secret_is_found_inside_a_longer_base64_text(secret: str, before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    clean = Redactor({"KEY": secret}).text(encoded)
    assert REDACTED in clean
    assert len(clean.replace(REDACTED, "")) <= 4 * (len(before + after) // 3 + 4)  # what surrounds it, and the edges


def test_values_and_keys_of_json_are_cleaned_at_every_depth() -> None:
    value = {"a": [KEY, {"b": f"x{KEY}y", KEY: 1}], "n": None, "t": True, "i": 5}
    assert Redactor({"KEY": KEY}).value(value) == {"a": [REDACTED, {"b": f"x{REDACTED}y", REDACTED: 1}], "n": None, "t": True, "i": 5}


def test_a_short_secret_is_taken_out_only_where_it_stands_alone() -> None:
    redactor = Redactor({"PIN": "12", "NUMBER": "123456", "NOTHING": ""})
    clean = redactor.value({"a": "12", "b": "1234", "c": 123456, "d": 12, "": ""})
    assert clean == {"a": "[redacted:PIN]", "b": "1234", "c": "[redacted:NUMBER]", "d": "[redacted:PIN]", "": ""}


def test_the_lines_of_a_long_secret_are_secret_too() -> None:
    pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----"
    assert "MIIEvQ" not in Redactor({"KEY": pem}).text("line 2: MIIEvQIBADANBgkqhkiG9w0B is odd")


def test_of_two_secrets_the_longer_goes_first() -> None:
    assert Redactor({"A": "token", "B": "token-and-more"}).text("token-and-more token") == "[redacted:B] [redacted:A]"


def test_a_failure_keeps_everything_but_the_secret() -> None:
    failed = ToolFailed(
        "rate_limited", f"no {KEY}", retry_after_seconds=3, closes="tool:x", known=False, usage=Usage(1, 2), details={"k": KEY}
    )
    clean = Redactor({"KEY": KEY}).failure(failed)
    assert (clean.code, clean.message, clean.retry_after_seconds, clean.closes, clean.known) == (
        "rate_limited",
        f"no {REDACTED}",
        3,
        "tool:x",
        False,
    )
    assert (clean.usage, clean.details) == (Usage(1, 2), {"k": REDACTED})


def test_without_secrets_nothing_changes() -> None:
    value = {"a": ["x"]}
    assert Redactor({}).value(value) is value
