"""Reads the sentences of a page: its error codes with their retry rules, and the fields of its logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.contract.codes import CODES, Named, ResponseStatus
from holdfast.contract.notes import PageNotes
from holdfast.contract.page import FAILURES, PageLine, Section

_BULLET = re.compile(r"[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+(.*)")
_CODE = re.compile(r"\berror_code[`\"']?[ \t]*[=:][ \t]*[`\"']?([A-Za-z][A-Za-z0-9_]*)")
_FLAG = re.compile(r"\bretryable[`\"']?[ \t]*[=:][ \t]*[`\"']?(true|false|yes|no)\b", re.I)
_NEVER = re.compile(r"\b(?:non|not|never|un)[- ]?retr(?:yable|ied|y)\b|\b(?:do not|don't|must not be) retr(?:y|ied)\b|\bpermanent\b", re.I)
_AGAIN = re.compile(r"\bretryable\b", re.I)
_POLICY = re.compile(r"\bunless (?:the |a )?policy\b", re.I)
_STATUS = re.compile(r"\bstatus[`\"']?[ \t]*[=:][ \t]*[`\"']?(\w+)|\b(needs_human)\b", re.I)
_LOGS = re.compile(r"[*_`]*logs?[*_`]*[ \t]*:[*_`]*[ \t]*(.*)", re.I)
_NAME = re.compile(r"[A-Za-z_]\w*")


def bullets(section: Section) -> list[PageLine]:
    """The bullets of a section. A bullet of several lines becomes one line. A paragraph that is no bullet is also in the list."""
    found: list[PageLine] = []
    new = True
    for line in section.lines:
        text = line.text.strip()
        if hit := _BULLET.fullmatch(line.text):
            found.append(PageLine(line.number, hit.group(1).strip()))
            new = False
        elif text and new:
            found.append(PageLine(line.number, text))
            new = False
        elif text:
            found[-1] = PageLine(found[-1].number, f"{found[-1].text} {text}")
        else:
            new = True
    return found


def deployed(section: Section | None, notes: PageNotes) -> dict[str, Named]:
    """The error codes that the page names in its failure modes, each with its rule. An error is noted if a code has two different rules."""
    found: dict[str, Named] = {}
    for bullet in bullets(section) if section else ():
        for named in _codes(bullet.text):
            first = found.setdefault(named.code, named)
            if _rule(first) != _rule(named) and None not in (_rule(first), _rule(named)):
                told = f"`{named.code}` has two different rules on this page; one of them is on this line. Keep one rule."
                notes.error("error_code_twice", FAILURES, bullet.number, told)
            elif _rule(first) is None:
                found[named.code] = named
            _compare(named, bullet, notes)
    return found


def _codes(text: str) -> list[Named]:
    hits = list(_CODE.finditer(text))
    ends = [*(hit.start() for hit in hits[1:]), len(text)][: len(hits)]
    found = [_ruled(hit.group(1), text[hit.end() : end]) for hit, end in zip(hits, ends, strict=True)]
    if len(found) == 1 and _rule(found[0]) is None:
        found = [_ruled(found[0].code, text[: hits[0].start()])]  # "Not retryable: error_code=…"
    return found


def _ruled(code: str, text: str) -> Named:
    retryable: bool | None = None
    if flag := _FLAG.search(text):
        retryable = flag.group(1).lower() in ("true", "yes")
    elif _NEVER.search(text):
        retryable = False
    elif _AGAIN.search(text):
        retryable = True
    status = None
    if hit := _STATUS.search(text):
        status = next(
            (known for known in ResponseStatus if known == (hit.group(1) or hit.group(2)).lower() and known is not ResponseStatus.OK), None
        )
    return Named(code, retryable, status, _POLICY.search(text) is not None)


def _rule(named: Named) -> tuple[bool | None, ResponseStatus | None] | None:
    return None if named.retryable is None and named.status is None else (named.retryable, named.status)


def _compare(named: Named, bullet: PageLine, notes: PageNotes) -> None:
    """Warn about a code that is not in the table of codes and for which the page gives no rule. Also warn about a rule that differs from
    the table: then the table applies, because its codes mean the same for every worker."""
    known = CODES.get(named.code)
    if known is None:
        if _rule(named) is None:
            told = f"`{named.code}` has no retry rule, so it is not retried. Write `retryable=true` or `retryable=false` after it."
            notes.warning("retry_rule_missing", FAILURES, bullet.number, told)
        return
    if named.retryable not in (None, known.retryable) or named.status not in (None, known.status):
        says = f"{known.status.value}, {'retryable' if known.retryable else 'not retryable'}"
        told = f"`{named.code}` is a code of the runtime and means {says}, whatever the page says. Use a code of your own."
        notes.warning("error_code_differs", FAILURES, bullet.number, told)


def log_fields(section: Section | None) -> tuple[str, ...]:
    """The fields that the page's bullet `logs:` names; empty without such a bullet."""
    for bullet in bullets(section) if section else ():
        if hit := _LOGS.fullmatch(bullet.text):
            return names(hit.group(1).split(","))
    return ()


def names(given: Sequence[object]) -> tuple[str, ...]:
    """The names in a list, each once. Of each text only the name at its beginning is used; a text that does not begin with a name is left
    out."""
    found = [hit.group() for one in given if isinstance(one, str) and (hit := _NAME.match(one.strip().strip("`")))]
    return tuple(dict.fromkeys(found))
