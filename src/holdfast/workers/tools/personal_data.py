"""Finds personal data in a text: e-mail addresses, IBANs, IP addresses, card numbers, phone numbers, and names that the caller gives.

The time of each search is proportional to the length of the text, whatever the text contains. If a kind of data has a checksum, a text that
does not pass it is not reported: a card number must pass Luhn's check, and an IBAN its own.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, TypeAlias

PersonalDataKind: TypeAlias = Literal["email", "iban", "ip", "card", "phone", "name"]

_LOCAL: Final = r"\s<>()\[\],;:\"@"
_EMAIL: Final = re.compile(rf"(?<![^{_LOCAL}])[^{_LOCAL}]++@[\w-]++(?:\.[\w-]++)++")
"""A match begins only at the first character of a word, and the search does not go back. So the time is proportional to the length of the
text."""
_IBAN: Final = re.compile(r"(?<![^\W_])([A-Za-z]{2})\d\d(?=[^\W_ ]|[ \u00a0-][^\W_])")
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]++(?:\.\d{1,3}){0,3}+(?![\w:])")
_LONGEST_IPV6: Final = 45
_DIGITS: Final = re.compile(r"\d+")
_BETWEEN: Final = frozenset(" -\u00a0\u2009\u202f")
_SIGNS: Final = _BETWEEN | frozenset("()./")
_DATE: Final = re.compile(r"(?<!\d)(?:\d{4}[-./]\d\d?[-./]\d\d?|\d\d?[-./]\d\d?[-./](?:\d{4}|\d\d))(?!\d)")
_NATIONAL: Final = re.compile(r"(?<![\w+.-])(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?!\w)|(?<![\w+.-])\d{3}-\d{4}(?![\w-])")
_WORD: Final = re.compile("[\\w\u0300-\u036f]+")
_CARD_LENGTHS: Final = (13, 19)
_CARD_BEGINS: Final = frozenset("23456")
_PHONE_LENGTHS: Final = (7, 15)

_IBAN_COUNTRIES: Final = {
    15: "NO", 16: "BE", 18: "DK FI FO GL NL", 19: "MK SI", 20: "AT BA EE KZ LT LU XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC",
}  # fmt: skip
_IBAN_LENGTHS: Final = {country: length for length, countries in _IBAN_COUNTRIES.items() for country in countries.split()}
"""By country code: how many characters an IBAN of that country has."""


class Span(NamedTuple):
    """A place in a text that has personal data."""

    start: int
    end: int
    kind: PersonalDataKind
    person: int = -1
    """For a name: the index of the person in the given list. Otherwise -1."""


Names: TypeAlias = Mapping[str, Any]
"""The words of the given names as a tree of dicts, word by word. If a name may end after a word, the dict below that word has the key `""`,
with the index of the person."""


def names_of(persons: Sequence[Sequence[str]]) -> Names:
    """The tree of the names to look for. `persons` has one list for each person: the forms of that person's name. If two persons share a
    form, it belongs to the person that comes first in `persons`."""
    tree: dict[str, Any] = {}
    for number, forms in enumerate(persons):
        for form in forms:
            at = tree
            words = [_plain(word.group()) for word in _WORD.finditer(form)]
            for word in words:
                at = at.setdefault(word, {})
            if words:
                at.setdefault("", number)
    return tree


def found_in(text: str, names: Names) -> list[Span]:
    """Every place with personal data, in the order of the text. Places that overlap are joined into one, with the kind of the first of
    them, so that no part of them remains in the text."""
    found = [*_emails(text), *_ibans(text), *_addresses(text), *_cards(text), *_phones(text), *_named(text, names)]
    kept: list[Span] = []
    for span in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end > kept[-1].end:
            kept[-1] = Span(kept[-1].start, span.end, kept[-1].kind)
    return kept


def _emails(text: str) -> Iterator[Span]:
    return (Span(*hit.span(), "email") for hit in _EMAIL.finditer(text))


def _ibans(text: str) -> Iterator[Span]:
    """The IBANs in a text: letters and digits, as many as an IBAN of the country has, with the right check digits. After the first four
    characters there may be one space or hyphen between two characters."""
    for hit in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(hit.group(1).upper())
        taken, at = hit.group(), hit.end()
        while length is not None and len(taken) < length and at < len(text):
            at += text[at] in _BETWEEN
            if at == len(text) or not (text[at].isascii() and text[at].isalnum()):
                break
            taken, at = taken + text[at], at + 1
        if len(taken) == length and not text[at : at + 1].isalnum() and _checks_97(taken.upper()):
            yield Span(hit.start(), at, "iban")


def _checks_97(iban: str) -> bool:
    return int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1


def _addresses(text: str) -> Iterator[Span]:
    for hit in _IPV4.finditer(text):
        if _is_address(hit.group()):
            yield Span(*hit.span(), "ip")
    for hit in _IPV6.finditer(text):
        told = hit.group()
        if len(told) <= _LONGEST_IPV6 and told.count(":") > 1 and any(map(str.isdigit, told)) and _is_address(told):
            yield Span(*hit.span(), "ip")


def _is_address(told: str) -> bool:
    try:
        ipaddress.ip_address(told)
    except ValueError:
        return False
    return True


def _groups(text: str) -> list[tuple[int, int]]:
    return [hit.span() for hit in _DIGITS.finditer(text)]


def _cards(text: str) -> Iterator[Span]:
    """Card numbers: 13 to 19 digits that begin with 2 to 6 and pass Luhn's check. There may be one space or hyphen between groups of
    digits."""
    groups = _groups(text)
    luhn = _Luhn("".join(text[start:end] for start, end in groups))
    places = [0, *accumulate(end - start for start, end in groups)]  # for each group, the position of its first digit among all digits
    after = 0
    for first, (start, _) in enumerate(groups):
        if start < after or text[start] not in _CARD_BEGINS:
            continue
        for last in _card_ends(text, groups, places, first):
            if luhn.passes(places[first], places[last + 1]):
                after = groups[last][1]
                yield Span(start, after, "card")
                break


def _card_ends(text: str, groups: Sequence[tuple[int, int]], places: Sequence[int], first: int) -> Iterator[int]:
    """A card number may consist of several groups of digits. For one that begins with the group `first`, the indexes of the groups with
    which it may end."""
    least, most = _CARD_LENGTHS
    for number in range(first, len(groups)):
        start = groups[number][0]
        if number > first and (start - groups[number - 1][1] != 1 or text[start - 1] not in _BETWEEN):
            return
        length = places[number + 1] - places[first]
        if length > most:
            return
        if length >= least:
            yield number


class _Luhn:
    """Luhn's check for any part of a row of digits. Sums from the beginning are computed once, so each check costs the same small time."""

    def __init__(self, digits: str) -> None:
        values = list(map(int, digits))
        doubled = [2 * value - 9 * (value > 4) for value in values]
        self._sums = [
            [
                0,
                *accumulate(
                    other if place % 2 == parity else value for place, (value, other) in enumerate(zip(values, doubled, strict=True))
                ),
            ]
            for parity in (0, 1)
        ]

    def passes(self, start: int, end: int) -> bool:
        """Whether the digits from index `start` to the one before index `end` pass Luhn's check, which doubles every second digit, counted
        from the last digit backwards."""
        sums = self._sums[end % 2]
        return (sums[end] - sums[start]) % 10 == 0


def _phones(text: str) -> Iterator[Span]:
    """Phone numbers: 7 to 15 digits, also in groups, that begin with 0 or have a + before them; or the digits of a North American number in
    its usual groups (ten, perhaps with a 1 before them, or seven). Digits that belong to a date are not used for a number of the first
    form."""
    yield from (Span(*hit.span(), "phone") for hit in _NATIONAL.finditer(text))
    dated = {at for hit in _DATE.finditer(text) for at in range(*hit.span())}
    groups = [span for span in _groups(text) if span[0] not in dated]
    number = 0
    while number < len(groups):
        begin, end, number = _phone_at(text, groups, number)
        if begin < end:
            yield Span(begin, end, "phone")


def _phone_at(text: str, groups: Sequence[tuple[int, int]], first: int) -> tuple[int, int, int]:
    """The phone number that begins with the group `first` of digits: its start, its end (equal to the start if there is none), and the
    index of the group to look at next."""
    least, most = _PHONE_LENGTHS
    start, end = groups[first]
    begin = _phone_begins(text, start, end)
    if begin is None:
        return start, start, first + 1
    digits, number = end - start, first + 1
    while number < len(groups):
        start, stop = groups[number]
        if not _is_between(text[end:start]) or digits + stop - start > most:
            break
        if digits >= least and _phone_begins(text, start, stop) is not None:
            break
        digits, end, number = digits + stop - start, stop, number + 1
    fits = least <= digits <= most and not text[end : end + 1].isalpha()
    return (begin, end, number) if fits else (begin, begin, number)


def _phone_begins(text: str, start: int, end: int) -> int | None:
    """If a phone number may begin with the digits from `start` to `end`, the position where it begins; else None. It begins with the
    digits, or with a + before them, unless a letter or a digit stands before the +."""
    before = text[max(0, start - 2) : start]
    if before.endswith("+") and not before[:-1].isalnum():
        return start - 1
    return start if text[start] == "0" and end - start > 1 and not before[-1:].isalpha() else None


def _is_between(told: str) -> bool:
    return 0 < len(told) <= 3 and all(sign in _SIGNS for sign in told)


def _named(text: str, names: Names) -> Iterator[Span]:
    """The given names in a text. If several begin at the same word, the longest is taken. Capital letters, and the way in which accents are
    encoded, make no difference."""
    if not names:
        return
    words = [(hit.start(), hit.end(), _plain(hit.group())) for hit in _WORD.finditer(text)]
    at = 0
    while at < len(words):
        end, person, tree, number = 0, -1, names, at
        while number < len(words) and (number == at or words[number][0] - words[number - 1][1] <= 2):
            tree = tree.get(words[number][2], {})
            number += 1
            if not tree:
                break
            if "" in tree:
                end, person = number, tree[""]
        if person >= 0:
            yield Span(words[at][0], words[end - 1][1], "name", person)
        at = max(end, at + 1)


def _plain(word: str) -> str:
    return unicodedata.normalize("NFC", word).casefold()
