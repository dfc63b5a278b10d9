"""Values: converts a text of a page to the type that the spec names, or says why that is not possible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from holdfast.library.web_scrape.specs import SpecField

LONGEST: Final = 100_000
# Languages in which a comma begins the fraction of a number, and a point separates thousands.
_COMMA_LANGUAGES: Final = frozenset([
    "af", "az", "be", "bg", "bs", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "gl", "hr", "hu", "hy", "id", "is",
    "it", "ka", "kk", "lt", "lv", "mk", "nb", "nl", "nn", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "tr", "uk", "vi",
])  # fmt: skip
_POINT_LOCALES: Final = frozenset(
    ["de-ch", "de-li", "es-mx", "es-us", "es-pr", "es-gt", "es-hn", "es-ni", "es-sv", "es-do", "es-pa", "es-pe", "it-ch"]
)
_NUMBER: Final = re.compile(r"[-+\u2212]?\s?(?:\d[\d.,'\u2019\u00a0\u202f\u2009 _]{0,60}\d|\d)|[-+\u2212]?[.,]\d{1,30}")
_SPACES: Final = re.compile("['\u2019\u00a0\u202f\u2009 _]")
_SYMBOLS: Final = {
    "US$": "USD", "A$": "AUD", "C$": "CAD", "CA$": "CAD", "NZ$": "NZD", "HK$": "HKD", "R$": "BRL", "S$": "SGD", "€": "EUR", "£": "GBP",
    "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "₴": "UAH", "₪": "ILS", "฿": "THB", "₫": "VND", "zł": "PLN", "Kč": "CZK", "Ft": "HUF",
    "¥": "JPY", "$": "USD",
}  # fmt: skip
_CODES: Final = frozenset([
    "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "CNY", "HKD", "SGD", "INR", "SEK", "NOK", "DKK", "ISK", "PLN", "CZK", "HUF",
    "RON", "BGN", "RUB", "UAH", "TRY", "ILS", "AED", "SAR", "ZAR", "BRL", "MXN", "ARS", "CLP", "COP", "KRW", "TWD", "THB", "VND", "IDR",
    "MYR", "PHP",
])  # fmt: skip
_CODE: Final = re.compile(r"(?<![A-Za-z])[A-Z]{3}(?![A-Za-z])")
_YES: Final = frozenset(["true", "yes", "y", "1", "on"])
_NO: Final = frozenset(["false", "no", "n", "0", "off"])
_MONTHS: Final = {
    name: at for at, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_NAMED_DATE: Final = re.compile(
    r"(?i)(?:(\d{1,2})(?:st|nd|rd|th)?[. ]{1,3})?([a-z]{3,9})\.?[ ,]{1,3}(?:(\d{1,2})(?:st|nd|rd|th)?,? {1,3})?(\d{4})(?!\d)"
)
_NUMERIC_DATE: Final = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?!\d)")


class Unfit(Exception):
    """A text cannot be converted to the type of its field. `code` is the code of the warning."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PageContext:
    """What is the same for all values of a page: the address to which its relative links refer, and its language."""

    def __init__(self, base_url: str, language: str) -> None:
        self.base_url = base_url
        self.language = language


def made(raw: Any, field: SpecField, page: PageContext) -> Any:
    """Convert what was found on the page to the type of the field. Raises Unfit if that is not possible."""
    if field.type == "json":
        return _json(raw)
    if isinstance(raw, Mapping | list):
        raw = json.dumps(raw, ensure_ascii=False)
    return _MAKERS[field.type](raw, field, page)


def _json(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Unfit("not_json", f"{_shown(raw)} is not JSON: {error}") from None


def _text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return raw if isinstance(raw, str) else "" if raw is None else str(raw)


def _string(raw: Any, field: SpecField, page: PageContext) -> str:
    return " ".join(_text(raw).split())[:LONGEST]


def _lines(raw: Any, field: SpecField, page: PageContext) -> str:
    lines = [" ".join(line.split()) for line in _text(raw).splitlines()]
    return "\n".join(line for line in lines if line)[:LONGEST]


def _html(raw: Any, field: SpecField, page: PageContext) -> str:
    return _text(raw)[:LONGEST]


def _number(raw: Any, field: SpecField, page: PageContext) -> int | float:
    amount = decimal_of(raw, field.locale or page.language)
    return int(amount) if amount == amount.to_integral_value() and abs(amount) < 2**53 else float(amount)


def _integer(raw: Any, field: SpecField, page: PageContext) -> int:
    amount = decimal_of(raw, field.locale or page.language)
    if amount != amount.to_integral_value():
        raise Unfit("not_an_integer", f"{_shown(raw)} is not a whole number")
    return int(amount)


def decimal_of(raw: Any, locale: str) -> Decimal:
    """The first number in a text; `raw` may also be a number itself. If the digits do not show whether a point or a comma begins the
    fraction, the locale decides. Raises Unfit if there is no finite number, or if the digits do not show where the fraction begins and no
    locale is known."""
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        number = Decimal(str(raw))
        if not number.is_finite():
            raise Unfit("not_a_number", f"{_shown(raw)} is not a number")
        return number
    hit = _NUMBER.search(_text(raw)[:LONGEST])
    if hit is None:
        raise Unfit("not_a_number", f"{_shown(raw)} contains no number")
    digits = _SPACES.sub("", hit.group()).replace("\u2212", "-")
    point = _fraction_mark(digits, locale.lower().replace("_", "-"))
    plain = "".join("." if char == point else char for char in digits if char not in ".," or char == point)
    try:
        return Decimal(plain)
    except InvalidOperation:
        raise Unfit("not_a_number", f"{_shown(raw)} contains no number that can be read") from None


def _fraction_mark(digits: str, locale: str) -> str | None:
    """The sign that begins the fraction, a point or a comma; None if there is no fraction. The digits decide if they leave no doubt;
    otherwise the locale decides. Raises Unfit if neither does."""
    marks = [char for char in digits if char in ".,"]
    if not marks:
        return None
    if len(set(marks)) == 2:
        return marks[-1] if digits.count(marks[-1]) == 1 else None
    mark = marks[0]
    if len(marks) > 1:
        return None  # 1.234.567
    after = len(digits) - digits.index(mark) - 1
    if after != 3 or digits.lstrip("+-").startswith(("0" + mark, mark)):
        return mark
    if not locale:
        raise Unfit("ambiguous_number", f"{digits[:40]!r} can be read in two ways; set `locale`")
    return mark if mark == _locale_mark(locale) else None


def _locale_mark(locale: str) -> str:
    return "," if locale.partition("-")[0] in _COMMA_LANGUAGES and locale not in _POINT_LOCALES else "."


def _price(raw: Any, field: SpecField, page: PageContext) -> dict[str, str | None]:
    amount = decimal_of(raw, field.locale or page.language)
    return {"amount": format(amount, "f"), "currency": currency_of(_text(raw)) or field.currency}


def currency_of(text: str) -> str | None:
    """The ISO code of the currency that a text names by a code or a sign; None if it names none. `$` alone means USD, `¥` means JPY."""
    code = next((hit.group() for hit in _CODE.finditer(text[:LONGEST]) if hit.group() in _CODES), None)
    return code or next((_SYMBOLS[sign] for sign in sorted(_SYMBOLS, key=len, reverse=True) if sign in text), None)


def _boolean(raw: Any, field: SpecField, page: PageContext) -> bool:
    word = _text(raw).strip().lower()
    if word not in _YES | _NO:
        raise Unfit("not_a_boolean", f"{_shown(raw)} is not a truth value such as yes, no, true, false, 1 or 0")
    return word in _YES


def _exists(raw: Any, field: SpecField, page: PageContext) -> bool:
    return True


def _url(raw: Any, field: SpecField, page: PageContext) -> str:
    try:
        url = urljoin(page.base_url, _text(raw).strip())
        parts = urlsplit(url)
    except ValueError:
        raise Unfit("not_a_url", f"{_shown(raw)} is not a valid address") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Unfit("not_a_url", f"{_shown(raw)} is not an http or https address")
    return url


# --- dates


def _date(raw: Any, field: SpecField, page: PageContext) -> str:
    moment = moment_of(_text(raw).strip(), field.format, field.locale or page.language)
    return (moment.date() if isinstance(moment, datetime) else moment).isoformat()


def _datetime(raw: Any, field: SpecField, page: PageContext) -> str:
    moment = moment_of(_text(raw).strip(), field.format, field.locale or page.language)
    return moment.isoformat() if isinstance(moment, datetime) else f"{moment.isoformat()}T00:00:00"


def moment_of(text: str, form: str | None, locale: str) -> datetime | date:
    """The date, or the date and time, in a text. If the format `form` is given, only that format is allowed; otherwise the usual ones are
    tried. `locale` decides whether the day or the month is first, if the text does not show it. Raises Unfit if the text is no date, or is
    ambiguous."""
    if form is not None:
        try:
            return datetime.strptime(text, form)  # noqa: DTZ007 - the page says which zone, or none
        except (ValueError, re.error):  # a format that names one part twice is no pattern for Python
            raise Unfit("not_a_date", f"{_shown(text)} is not written as {form!r}") from None
    for read in (_iso, _rfc, _named):
        found = read(text)
        if found is not None:
            return found
    return _numeric(text, locale.lower().replace("_", "-"))


def _iso(text: str) -> datetime | date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text) if len(text) > 10 else None
    except ValueError:
        return None


def _rfc(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if "," in text or ":" in text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _named(text: str) -> date | None:
    for hit in _NAMED_DATE.finditer(text[:200]):
        month, day = _MONTHS.get(hit.group(2)[:3].lower()), hit.group(1) or hit.group(3)
        if month and day:
            return _day(int(hit.group(4)), month, int(day), text)
    return None


def _numeric(text: str, locale: str) -> date:
    hit = _NUMERIC_DATE.search(text[:200])
    if hit is None:
        raise Unfit("not_a_date", f"{_shown(text)} is not a date in a usual form; set `format`")
    first, mark, second, last = int(hit.group(1)), hit.group(2), int(hit.group(3)), int(hit.group(4))
    if len(hit.group(1)) == 4:
        return _day(first, second, last, text)
    if len(hit.group(4)) != 4:
        raise Unfit("ambiguous_date", f"{_shown(text)} can be read in several ways; set `format`")
    if mark == "." or first > 12:
        return _day(last, second, first, text)
    if second > 12:
        return _day(last, first, second, text)
    if first == second:
        return _day(last, first, second, text)
    if "-" in locale or (locale and locale != "en"):
        return _day(last, first, second, text) if locale.startswith("en-us") else _day(last, second, first, text)
    raise Unfit("ambiguous_date", f"{_shown(text)} can be read in two ways; set `format`")


def _day(year: int, month: int, day: int, text: str) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise Unfit("not_a_date", f"{_shown(text)} is not a day of the calendar") from None


def _shown(raw: Any) -> str:
    return repr(_text(raw)[:60])


_MAKERS: Final[Mapping[str, Callable[[Any, SpecField, PageContext], Any]]] = {
    "string": _string, "text": _lines, "html": _html, "number": _number, "integer": _integer, "boolean": _boolean, "exists": _exists,
    "date": _date, "datetime": _datetime, "url": _url, "price": _price,
}  # fmt: skip
