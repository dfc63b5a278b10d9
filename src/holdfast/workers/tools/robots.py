"""Robots: whether a site wants this page fetched, asked once per origin and remembered for a while (RFC 9309).

No such file, or no right to read it: everything may be fetched. A server that fails: nothing may, until it answers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from holdfast.model.clock import monotonic
from holdfast.workers.tools.egress import Target
from holdfast.workers.tools.seam import ToolFailed

MAX_BYTES: Final = 512 * 1024
_KEPT_SECONDS: Final = 3600.0
_KEPT_ORIGINS: Final = 1024
_LONGEST_LINE: Final = 4096
_MOST_LINES: Final = 10_000  # every rule is asked for every page


class Rules(Protocol):
    """What a robots.txt says."""

    def can_fetch(self, url: str, user_agent: str) -> bool: ...


Read: TypeAlias = Callable[[str], Awaitable[tuple[int, bytes]]]
"""Fetches a robots.txt: status and body."""


class _Kept(Struct):
    rules: Rules | None
    until: float


class Robots:
    """The rules of the origins asked lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def check(self, target: Target, url: str, user_agent: str, read: Read) -> None:
        """Raise when the site does not want it."""
        kept = self._kept.get(target.origin)
        if kept is None or kept.until <= monotonic():
            kept = _Kept(await self._ask(target, read), monotonic() + _KEPT_SECONDS)
            self._keep(target.origin, kept)
        if kept.rules is not None and not kept.rules.can_fetch(url, user_agent):
            message = f"robots.txt of {target.host} does not allow {user_agent!r} to fetch this page."
            raise ToolFailed("access_denied", message, details={"reason": "robots"})

    def _keep(self, origin: str, kept: _Kept) -> None:
        self._kept[origin] = kept
        self._kept.move_to_end(origin)
        while len(self._kept) > _KEPT_ORIGINS:
            self._kept.popitem(last=False)

    async def _ask(self, target: Target, read: Read) -> Rules | None:
        status, body = await read(f"{target.origin}/robots.txt")
        if status == 429 or status >= 500:
            raise ToolFailed("tool_unavailable", f"robots.txt of {target.host} answered {status}, so nothing there is fetched for now.")
        if status != 200:
            return None
        return await asyncio.to_thread(_parsed, body)


def _parsed(body: bytes) -> Rules:
    from protego import Protego  # loaded with the first page

    text = body.decode("utf-8", errors="replace")
    return Protego.parse("\n".join(line[:_LONGEST_LINE] for line in text.splitlines()[:_MOST_LINES]))
