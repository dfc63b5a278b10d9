"""Response bodies: read with a limit on their decompressed size, and decoded to text as browsers do.

A few kilobytes of gzip can become gigabytes of zeros, so decompression stops at the limit.
"""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import AsyncIterator
from typing import Final

from holdfast.workers.tools.seam import ToolFailed

ACCEPTED_ENCODINGS: Final = "gzip, deflate"
_STEP: Final = 64 * 1024
_DECODED: Final = 8 * 1024
_META_BYTES: Final = 4096
# Browsers read Latin-1 and ASCII as this charset.
_LATIN: Final = "windows-1252"
_LATIN_LABELS: Final = {"iso8859-1", "ascii", "cp1252"}
_META_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}["']?\s{0,8}([\w:.-]{1,40})""", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"""^<\?xml[^>]{0,200}?encoding\s{0,8}=\s{0,8}["']([\w:.-]{1,40})["']""")
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class TooLarge(ToolFailed):
    """The body is larger than the limit, compressed or decompressed."""

    def __init__(self, cap: int) -> None:
        message = f"The answer is larger than {cap:,} bytes, the limit before and after decompression."
        super().__init__("tool_failed", message, details={"reason": "too_large"})


async def read_body(parts: AsyncIterator[bytes], encoding: str, cap: int, *, truncate: bool = False) -> bytes:
    """The whole body, decompressed. `encoding` is its `Content-Encoding`. Raises TooLarge if it has more than `cap` bytes, compressed or
    decompressed; with `truncate`, returns what was decompressed until then, at most `cap` bytes. Raises ToolFailed if the compression is
    broken or unknown."""
    unpack = _unpacker(encoding)
    body = bytearray()
    packed = 0
    try:
        async for part in parts:
            packed += len(part)
            for start in range(0, len(part), _STEP):
                unpack.feed(part[start : start + _STEP], body, cap)
            if packed > cap:
                raise TooLarge(cap)
        unpack.finish()
    except TooLarge:
        if not truncate:
            raise
    return bytes(body[:cap])


class _Plain:
    def feed(self, part: bytes, into: bytearray, cap: int) -> None:
        into += part
        if len(into) > cap:
            raise TooLarge(cap)

    def finish(self) -> None:
        """Do nothing: there is no buffer to empty."""


class _Inflate:
    """Decompresses gzip and deflate, and stops at the limit. Several gzip members one after the other are one body."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16 if gzip else zlib.MAX_WBITS)
        self._begun = False

    def feed(self, part: bytes, into: bytearray, cap: int) -> None:
        try:
            while part:
                if self._stream.eof:
                    if not self._gzip or not part.strip(b"\0"):
                        return  # zeros after the end are padding
                    self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
                into += self._inflate(part, cap - len(into) + 1)
                if len(into) > cap:
                    raise TooLarge(cap)
                part = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
                self._begun = True
        except zlib.error as error:
            raise ToolFailed("tool_failed", f"The answer's compression is broken: {error}.") from None

    def _inflate(self, part: bytes, room: int) -> bytes:
        try:
            return self._stream.decompress(part, room)
        except zlib.error:
            if self._gzip or self._begun:
                raise
            self._stream = zlib.decompressobj(-zlib.MAX_WBITS)  # many servers send deflate without its header
            return self._stream.decompress(part, room)

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise ToolFailed("tool_unavailable", "The answer ended in the middle of its compressed data.")


def _unpacker(encoding: str) -> _Plain | _Inflate:
    match encoding.strip().lower():
        case "" | "identity":
            return _Plain()
        case "gzip" | "x-gzip":
            return _Inflate(gzip=True)
        case "deflate":
            return _Inflate(gzip=False)
        case other:
            raise ToolFailed("tool_failed", f"The answer has the content encoding {other[:40]!r}; the request allows {ACCEPTED_ENCODINGS}.")


def decoded(body: bytes, content_type: str) -> tuple[str, str]:
    """The text of a body, and the name of its charset. The charset is the first of these that is given and known: that of the byte order
    mark, of the header `content_type`, of the page's own declaration; UTF-8 if the body is valid UTF-8 (its last character may be cut off);
    else windows-1252. Call this in a thread: a page of bytes that its charset does not have takes a second."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _replaced(body[len(mark) :], name), name
    declared = _known(_charset_of(content_type)) or _known(_declared_inside(body))
    if declared is not None:
        try:
            return _replaced(body, declared), declared
        except (LookupError, UnicodeError):
            pass  # Python has a codec of this name that does not decode text
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        name = "utf-8" if error.start > len(body) - 4 else _LATIN
        return _replaced(body, name), name


def _replaced(body: bytes, name: str) -> str:
    """The text of a body in this charset, with a mark in place of bytes that are not text. It is decoded in small steps, because a step
    holds up all other threads. Without a byte order mark, UTF-16 and UTF-32 are little-endian, as in browsers."""
    plain = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name)
    steps = (body[start : start + _DECODED] for start in range(0, len(body), _DECODED))
    return "".join(codecs.iterdecode(steps, plain, errors="replace"))


def media_type(content_type: str) -> str:
    """The media type in a `Content-Type` header, without parameters such as `charset`, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def _charset_of(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""


def _declared_inside(body: bytes) -> str:
    head = body[:_META_BYTES]
    found = _XML_ENCODING.search(head) or _META_CHARSET.search(head)
    label = found.group(1).decode("ascii", errors="ignore").lower() if found else ""
    return "utf-8" if label.startswith("utf-16") else label  # a declaration that was readable as ASCII is not in UTF-16


def _known(label: str) -> str | None:
    try:
        info = codecs.lookup(label)
    except (LookupError, ValueError):
        return None
    if not info._is_text_encoding or info.name in ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7"):
        return None
    return _LATIN if info.name in _LATIN_LABELS else info.name
