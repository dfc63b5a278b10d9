"""robots.txt: whether a site allows a page to be fetched (RFC 9309). The file is fetched for each origin, and kept for at most an hour.

If the server fails (429 or 5xx), no page may be fetched. If it answers with any other status than 200, such as 404, every page may be
fetched.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from holdfast.model.clock import monotonic
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.egress import UrlOrigin
from holdfast.workers.tools.seam import ToolFailed

MAX_BYTES: Final = 512 * 1024
_KEPT_SECONDS: Final = 3600.0
_KEPT_ORIGINS: Final = 1024
_KEPT_BYTES: Final = 16 * 1024 * 1024
_KEPT_AGENTS: Final = 4
_LONGEST_LINE: Final = 4096
_LONGEST_RULE: Final = 512
_MOST_RULES: Final = 1_000
"""At most this many rules of a robots.txt are used for one user agent, because each page is compared with every rule."""
_MOST_LINES: Final = 20_000


class Rules(Protocol):
    """The parsed rules of a robots.txt."""

    def can_fetch(self, url: str, user_agent: str) -> bool: ...


Read: TypeAlias = Callable[[str], Awaitable[tuple[int, bytes]]]
"""Fetches the robots.txt at this URL, and returns its status and body."""


class _Kept(Struct):
    body: bytes | None
    """The compressed file. None if the server answered with another status than 200, such as 404: every page may be fetched."""
    until: float
    """Until when the file is kept, in seconds of `monotonic`."""
    rules: dict[str, Rules] = {}
    """The parsed rules, by user agent."""


class Robots:
    """The robots.txt files of the origins from which pages were fetched lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    async def check(self, target: UrlOrigin, url: str, user_agent: str, read: Read) -> None:
        """Raise ToolFailed if the robots.txt of `target` does not allow this user agent to fetch this URL, or if the server does not
        answer the request for that file, or answers it with 429 or 5xx. `read` fetches the file, if none is kept."""
        kept = self._kept.get(target.origin)
        if kept is None or kept.until <= monotonic():
            body = await self._ask(target, read)
            kept = _Kept(None if body is None else await in_thread(Purpose.WORK, zlib.compress, body, 1), monotonic() + _KEPT_SECONDS)
            self._keep(target.origin, kept)
        if kept.body is not None and not (await self._rules(kept, kept.body, user_agent)).can_fetch(url, user_agent):
            message = f"robots.txt of {target.host} does not allow {user_agent!r} to fetch this page."
            raise ToolFailed("access_denied", message, details={"reason": "robots"})

    async def _rules(self, kept: _Kept, body: bytes, user_agent: str) -> Rules:
        if user_agent not in kept.rules:
            parsed = await in_thread(Purpose.WORK, _parsed, body, user_agent)
            while len(kept.rules) >= _KEPT_AGENTS:
                kept.rules.pop(next(iter(kept.rules)))
            kept.rules[user_agent] = parsed
        return kept.rules[user_agent]

    def _keep(self, origin: str, kept: _Kept) -> None:
        before = self._kept.pop(origin, None)
        self._bytes += _size(kept) - _size(before)
        self._kept[origin] = kept
        while len(self._kept) > _KEPT_ORIGINS or self._bytes > _KEPT_BYTES:
            self._bytes -= _size(self._kept.popitem(last=False)[1])

    async def _ask(self, target: UrlOrigin, read: Read) -> bytes | None:
        status, body = await read(f"{target.origin}/robots.txt")
        if status == 429 or status >= 500:
            raise ToolFailed(
                "tool_unavailable", f"robots.txt of {target.host} answered {status}. Until it can be read, no page there is fetched."
            )
        return body if status == 200 else None


def _size(kept: _Kept | None) -> int:
    return 0 if kept is None or kept.body is None else len(kept.body)


def _parsed(body: bytes, user_agent: str) -> Rules:
    from protego import Protego  # imported when the first robots.txt is read

    return Protego.parse("\n".join(_spoken_to(zlib.decompress(body).decode("utf-8", errors="replace"), user_agent.lower())))


def _spoken_to(text: str, user_agent: str) -> Iterator[str]:
    """The lines of a robots.txt that apply to this user agent, with at most `_MOST_RULES` rules, because each rule costs time for each
    page."""
    meant = naming = False
    rules = 0
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        word, _, value = line[:_LONGEST_LINE].partition("#")[0].strip().partition(":")
        word, value = word.strip().lower(), value.strip()
        if word == "user-agent":
            here = value == "*" or (bool(value) and value.lower().split("/")[0] in user_agent)
            meant, naming = here or (naming and meant), True
            if here and rules < _MOST_RULES:
                rules += 1
                yield f"User-agent: {value[:_LONGEST_RULE]}"
        elif word in ("allow", "disallow"):
            naming = False
            if meant and rules < _MOST_RULES:
                rules += 1
                yield f"{word}: {value[:_LONGEST_RULE]}"
