"""The ready codec: AES-256-GCM that binds each text to its place, tells keys apart, and never shows one."""

import base64
import builtins
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.model.errors import CodecFailed, ExtraMissing, InvalidParameter
from holdfast.service.settings import Settings
from holdfast.store.encryption import AesGcm

OLD, NEW = b"o" * 32, b"n" * 32


def codec(*names: str) -> AesGcm:
    """A codec with these keys, the last one current."""
    keys = {"old": OLD, "new": NEW}
    return AesGcm({name: keys[name] for name in names}, names[-1])


@pytest.mark.parametrize("text", ["", "plain", '{"who": "Zoë"}', "x" * 100_000])
def test_what_is_encoded_comes_back_and_does_not_show(text: str) -> None:
    made = codec("old").encode(text, "here/1")
    assert made.startswith("old:")
    assert text not in made or not text
    assert codec("old").decode(made, "here/1") == text


def test_the_same_text_never_looks_the_same_twice() -> None:
    assert codec("old").encode("plain", "here/1") != codec("old").encode("plain", "here/1")


def test_chance_is_an_argument() -> None:
    fixed = AesGcm({"old": OLD}, "old", chance=lambda count: b"\0" * count)
    assert fixed.encode("plain", "here/1") == fixed.encode("plain", "here/1")
    assert codec("old").decode(fixed.encode("plain", "here/1"), "here/1") == "plain"


def test_a_text_is_bound_to_its_place() -> None:
    made = codec("old").encode("plain", "here/1")
    with pytest.raises(CodecFailed, match="belongs to another place"):
        codec("old").decode(made, "here/2")


def test_every_bit_counts() -> None:
    made = codec("old").encode("plain", "here/1")
    raw = bytearray(base64.b64decode(made.removeprefix("old:")))
    for place in range(len(raw)):
        raw[place] ^= 1
        with pytest.raises(CodecFailed, match="damaged"):
            codec("old").decode(f"old:{base64.b64encode(raw).decode()}", "here/1")
        raw[place] ^= 1


@pytest.mark.parametrize("text", ["old:", "old:####", "old:QUJD", "old", "", "plain text", ":", "old:é"])
def test_what_no_key_made_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(CodecFailed) as refused:
        codec("old").decode(text, "here/1")
    assert "plain text" not in str(refused.value)


def test_an_old_key_still_reads_after_a_new_one_has_come() -> None:
    made = codec("old").encode("plain", "here/1")
    rotated = codec("old", "new")
    assert rotated.decode(made, "here/1") == "plain"
    assert rotated.encode("plain", "here/1").startswith("new:")


def test_a_key_that_is_gone_is_named() -> None:
    with pytest.raises(CodecFailed, match="it was made with key 'old'; the codec has the keys new"):
        codec("new").decode(codec("old").encode("plain", "here/1"), "here/1")


def test_another_key_under_the_same_id_is_noticed() -> None:
    with pytest.raises(CodecFailed, match="another key of that id"):
        AesGcm({"old": NEW}, "old").decode(codec("old").encode("plain", "here/1"), "here/1")


def test_a_fingerprint_is_the_same_for_the_same_text_and_needs_the_key() -> None:
    mark = codec("old").fingerprint("plain")
    assert mark == codec("old").fingerprint("plain")
    assert mark != codec("old").fingerprint("other")
    assert mark != AesGcm({"old": NEW}, "old").fingerprint("plain")


def test_a_fingerprint_survives_a_change_of_keys() -> None:
    mark = codec("old").fingerprint("plain")
    rotated = codec("old", "new")
    assert rotated.fingerprint("plain") != mark
    assert rotated.fingerprint("plain", mark) == mark
    assert rotated.fingerprint("other", mark) != mark
    with pytest.raises(CodecFailed, match="key 'old'"):
        codec("new").fingerprint("plain", mark)


@pytest.mark.parametrize(
    "keys, current, told",
    [
        ({}, "a", "there are none"),
        ({"a": OLD}, "b", "`current` is 'b', which is not among the keys: a"),
        ({"a": b"short"}, "a", "Key 'a' must be 32 bytes"),
        ({"a": "text" * 8}, "a", "Key 'a' must be 32 bytes"),
        ({"a:b": OLD}, "a:b", "The id of a key must be"),
        ({"": OLD}, "", "The id of a key must be"),
        ({1: OLD}, 1, "The id of a key must be"),
    ],
)
def test_what_is_no_key_is_refused_and_not_shown(keys: Mapping[Any, Any], current: Any, told: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        AesGcm(keys, current)
    assert told in str(refused.value)
    assert "short" not in str(refused.value)
    assert "text" not in str(refused.value)


def test_a_codec_shows_the_ids_of_its_keys_but_no_key() -> None:
    assert repr(codec("old", "new")) == "AesGcm(keys=['new', 'old'], current='new')"
    assert OLD.decode() not in repr(Settings(codec=codec("old", "new")))


def test_without_the_package_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[encryption\]'") as refused:
        codec("old")
    assert refused.value.code == "extra_missing"
