"""Token streams: the text of a model's answer, sent to followers while it arrives. Many small parts become one event, and secrets are
removed.

A stream does not delay the call while text arrives: `add` only keeps the text; a separate task takes the secrets out and sends the text to
the followers. While the run has no follower, a stream keeps only the end of the text.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Final

from holdfast.contract.redaction import REDACTED
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.seam import Hears
from holdfast.workers.tools.secrets import Redactor

log = logging.getLogger("holdfast.workers")

EVERY_SECONDS: Final = 0.1
"""There are at least this many seconds between two events of one call, unless there is enough text for a full event earlier."""
MOST_BYTES: Final = 4 * 1024
"""The most bytes of text in one event."""
_AT_ONCE: Final = 1024
"""The most characters that are searched for secrets on the event loop."""
_KEPT: Final = 8 * 1024
"""While the run has no follower, the last characters of the text are kept: at least this many (if there are so many), at most twice as
many."""


class TokenStream:
    """The text of one call's answer. Used with `async with`: when the block ends, the text that was not sent yet is sent to followers, if
    there are any, unless the block was cancelled."""

    def __init__(self, tell: Callable[[int, str], None], is_followed: Callable[[], bool], redactor: Callable[[], Redactor | None]) -> None:
        self._tell = tell
        """Sends text to the followers. Its arguments are the number of characters before this text, and the text."""
        self._is_followed = is_followed
        self._made = redactor
        """Makes the redactor, when the first text is sent. It returns None if there are too many secrets; then followers get a mark in
        place of the text."""
        self._redactor: Redactor | None = None
        self._has_redactor = False
        self._text = ""
        self._waiting = 0
        """How many characters were held back when the last part was sent, because they may be the beginning of a secret."""
        self._offset = 0
        self._skip: int | None = 0
        """How many characters at the beginning of the text are not shown. None: the text may begin inside a secret, so as many characters
        as the longest secret has are not shown."""
        self._task: asyncio.Task[None] | None = None
        self._is_new = False
        self._full = asyncio.Event()
        self._ended = False

    def add(self, text: str) -> None:
        """Take the next part of the answer. Returns at once."""
        self._text += text
        self._is_new = True
        is_idle = self._task is None or self._task.done()
        if not self._is_followed():
            if is_idle:  # otherwise the task is working on a part of the text
                self._drop()
        elif is_idle:
            self._task = asyncio.create_task(self._told())
        elif len(self._text) >= self._waiting + MOST_BYTES:
            self._full.set()

    def _drop(self) -> None:
        """If the kept text is long, drop all but its end. The end may begin in the middle of a secret, so the first characters of the end
        are never sent."""
        dropped = len(self._text) - _KEPT
        if dropped > _KEPT:
            self._text, self._offset, self._skip, self._waiting = self._text[dropped:], self._offset + dropped, None, 0

    async def __aenter__(self) -> Hears:
        return self.add

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended = True
        self._full.set()
        if kind is not None and not issubclass(kind, Exception):
            if self._task is not None:
                self._task.cancel()
            return
        try:
            if self._task is not None:
                await self._task
            if self._text and self._is_followed():
                await self._tell_next(is_last=True)
        except Exception as wrong:  # the call itself has its answer; only followers miss some text
            log.warning("the text of a model's answer could not be sent to followers: %s: %s", type(wrong).__name__, wrong)

    async def _told(self) -> None:
        """Send text to the followers as it arrives. Returns when no new text has come for EVERY_SECONDS, or when the call has ended."""
        while not self._ended:
            self._full.clear()
            self._is_new = False
            await self._tell_next(is_last=False)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_SECONDS):
                    await self._full.wait()
            if not self._is_new:
                return

    def _prepared(self) -> Redactor | None:
        """Make the redactor, and prepare it for searching; None if there are too many secrets. This runs in a thread, because it may take
        long: the caller chooses how many secrets there are."""
        redactor = self._made()
        if redactor is not None:
            _ = redactor.beginnings
        return redactor

    async def _tell_next(self, *, is_last: bool) -> None:
        """Send the text that was not sent yet. If more text may follow (`is_last` is False), hold back an end that may be the beginning of
        a secret."""
        if not self._has_redactor:
            self._redactor, self._has_redactor = await in_thread(Purpose.WORK, self._prepared), True
        redactor, text = self._redactor, self._text
        if redactor is None:
            shown, taken, skip = REDACTED if text else "", len(text), 0
        else:
            longest = redactor.beginnings.longest
            skip = min(len(text), longest if self._skip is None else self._skip)
            release = partial(redactor.released, text, begin=skip, is_first=self._offset == 0, is_last=is_last)
            shown, taken = release() if len(text) <= _AT_ONCE or not longest else await in_thread(Purpose.WORK, release)
            self._skip = max(0, (longest if self._skip is None else self._skip) - taken)
        self._text = self._text[taken:]
        self._waiting = len(text) - taken
        self._offset += min(skip, taken)
        for part in _parts(shown):
            self._tell(self._offset, part)
            self._offset += len(part)


def _parts(text: str) -> Iterator[str]:
    """The text in parts of at most `MOST_BYTES` bytes. A lone half of a surrogate pair, which UTF-8 cannot encode, is replaced."""
    if not text.isascii():
        text = text.encode(errors="replace").decode()
    size = MOST_BYTES if text.isascii() else MOST_BYTES // 4
    for at in range(0, len(text), size):
        yield text[at : at + size]
