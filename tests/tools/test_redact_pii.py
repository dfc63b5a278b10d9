"""redact_pii: what counts as personal data, placeholders that can be mapped back, and hostile texts."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.workers.tools.pure import call_pure, redact_pii
from holdfast.workers.tools.redact_pii import PLACEHOLDER
from holdfast.workers.tools.seam import ToolFailed

IBAN = "DE89 3704 0044 0532 0130 00"
CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize("text, kind", [
    ("ann.lee+shop@mail.example", "email"), ("<ann@mail.example>", "email"), ("mailto:ann@mail.example", "email"),
    ("äöü@bücher.example", "email"), ("x" * 300 + "@mail.example", "email"),
    (IBAN, "iban"), ("DE89370400440532013000", "iban"), ("nl91 abna 0417 1643 00", "iban"), ("GB82-WEST-1234-5698-7654-32", "iban"),
    (CARD, "card"), ("4111-1111-1111-1111", "card"), ("4111111111111111", "card"), ("3782 822463 10005", "card"),
    ("6011000990139424", "card"),
    ("192.168.0.17", "ip"), ("2001:db8::8a2e:370:7334", "ip"), ("fe80::1", "ip"), ("::ffff:10.0.0.1", "ip"), ("10.0.0.1:8080", "ip"),
    ("+49 30 1234567", "phone"), ("+49 (0)30 / 123-4567", "phone"), ("0171 1234567", "phone"), ("06 12 34 56 78", "phone"),
    ("(555) 123-4567", "phone"), ("1-800-555-0199", "phone"), ("555-0199", "phone"), ("0049 30 1234567", "phone"),
])  # fmt: skip
def test_personal_data_is_found_and_nothing_of_it_is_left(text: str, kind: str) -> None:
    told = redact_pii([f"Please write to {text}, thank you."])
    (redacted,) = told["texts"]
    assert told["counts"] == {kind: 1}, told
    assert [f"[{kind}-1]"] == PLACEHOLDER.findall(redacted)
    (value,) = told["values"].values()
    assert value in text
    left = redacted.replace(f"[{kind}-1]", "").removeprefix("Please write to ").removesuffix(", thank you.")
    assert left in ("", "<>", "mailto:", ":8080", "("), left


@pytest.mark.parametrize("text", [
    "2026-11-17", "17.11.2026", "01/02/2026 10:00", "12:30:45", "order 4711", "A-1001", "1234567", "19.50 EUR", "0.1234567", "3 x 100",
    "4111 1111 1111 1112", "0000000000000000"[:6], "DE00 3704 1144 1532 1130 11", "std::vector", "a@b", "@ann", "ann@",
    "10.0.0.256", "1.2.3",
    "v1.2.3.4", "rate 5+12345678 sum", "XX89370400440532013000", "[email-1]", "",
])  # fmt: skip
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact_pii([text]) == {"texts": [text], "values": {}, "counts": {}}


def test_the_same_value_has_the_same_placeholder_in_every_text_and_the_next_value_the_next_number() -> None:
    told = redact_pii(["Ann@mail.example wrote, bob@mail.example answered.", f"ann@mail.example: {IBAN} is DE89370400440532013000"])
    assert told["texts"] == ["[email-1] wrote, [email-2] answered.", "[email-1]: [iban-1] is [iban-1]"]
    assert told["values"] == {"[email-1]": "Ann@mail.example", "[email-2]": "bob@mail.example", "[iban-1]": IBAN}


def test_a_stranger_who_writes_a_placeholder_does_not_get_the_value_of_another_person() -> None:
    told = redact_pii(["Tell me who [email-1] is. [email-2]?", "ann@mail.example"])
    assert told["texts"] == ["Tell me who [email-1] is. [email-2]?", "[email-3]"]
    assert told["values"] == {"[email-3]": "ann@mail.example"}


def test_names_are_redacted_only_where_they_are_given_and_the_forms_of_one_name_are_one_person() -> None:
    text = "ANN LEE and Bob met. Ann's dog, Lee; Annabel stays. Zoe\u0301 Ray too. Carl is no one."
    told = redact_pii([text], [["Ann Lee", "Ann", "Lee"], "Bob", "Zo\u00e9 Ray", "  "])
    assert told["texts"] == ["[name-1] and [name-2] met. [name-1]'s dog, [name-1]; Annabel stays. [name-3] too. Carl is no one."]
    assert told["values"] == {"[name-1]": "Ann Lee", "[name-2]": "Bob", "[name-3]": "Zo\u00e9 Ray"}
    assert redact_pii([text])["counts"] == {}


def test_numbers_in_a_row_are_each_found_and_places_that_overlap_leave_nothing_over() -> None:
    told = redact_pii([f"0171 1234567 0172 7654321, {CARD} +49 30 1234567; ann@ann.example ann"], ["ann"])
    assert told["texts"] == ["[phone-1] [phone-2], [card-1] [phone-3]; [email-1] [name-1]"]


@given(st.lists(st.text(alphabet=st.sampled_from("ab1 0+@.-:()[]DE89é\ud800\u0301,\n"), max_size=80), max_size=5))
def test_whatever_the_texts_are_mapping_back_gives_them_again_and_a_second_pass_finds_nothing(texts: list[str]) -> None:
    told = redact_pii(texts, ["ab a", "b"])
    values = told["values"]
    back = [PLACEHOLDER.sub(lambda hit: values.get(hit.group(), hit.group()), text) for text in told["texts"]]
    plain = re.compile(r"[\W_]+")
    assert [plain.sub("", text).casefold() for text in back] == [plain.sub("", text).casefold() for text in texts]
    assert redact_pii(told["texts"], ["ab a", "b"])["values"] == {}


HOSTILE = ["4 ", "a", "a@", "@", "1", "0", "4-", "+1 ", "00 ", "DE89 ", "1.", ":", "ab:", "ann ", "<a@b.c>", "4111 1111 1111 1111 "]


@pytest.mark.parametrize("unit", [unit if at < 2 else pytest.param(unit, marks=pytest.mark.long) for at, unit in enumerate(HOSTILE)])
def test_a_long_text_costs_little_whatever_it_repeats(unit: str) -> None:
    began = process_time()
    redact_pii([(unit * 200_000)[:200_000]], ["ann " * 20, "ann bob"])
    assert process_time() - began < 5


def test_more_text_than_a_call_takes_is_refused() -> None:
    with pytest.raises(ToolFailed, match="at most 1,000,000 characters"):
        redact_pii(["a" * 600_000, "b" * 600_000])
    with pytest.raises(ToolFailed, match="do not fit"):
        call_pure("redact_pii", {"texts": "ann"})
    assert call_pure("redact_pii", {"texts": []}) == {"texts": [], "values": {}, "counts": {}}
