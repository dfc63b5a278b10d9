"""fetch_url: fetches one web page by GET. Neither the worker that asks nor the site that answers is trusted.

    each request:   check the name → robots.txt → resolve the name, check the address, connect to it → ask → follow a redirect
    last response:  check the status → check the media type → read at most `max_bytes` → decode to text

It uses nothing from the environment (no proxy, no netrc, no cookies), and it keeps no connection after its request.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import httpcore
import httpx
from msgspec import Struct

from holdfast.model.clock import monotonic
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools import robots
from holdfast.workers.tools.egress import Egress, UrlOrigin, host_of, target_of
from holdfast.workers.tools.pinned_connection import PinnedTransport, ResolveHost, asking_for, resolve
from holdfast.workers.tools.response_bodies import ACCEPTED_ENCODINGS, decoded, media_type, read_body
from holdfast.workers.tools.retry_after import USUAL_SECONDS, retry_after
from holdfast.workers.tools.seam import Call, CallResult, Effect, Remaining, Reservation, ToolFailed

_REDIRECTS: Final = {301, 302, 303, 307, 308}
_ROBOTS_HOPS: Final = 5
_SHOWN_HEADERS: Final = ("content-type", "content-language", "etag", "last-modified", "cache-control", "date", "link", "x-robots-tag")
_LONGEST_HEADER: Final = 1000
_SENT_HEADERS: Final = {"accept", "accept-language", "if-none-match", "if-modified-since"}
_ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,application/json;q=0.9,text/*;q=0.8,*/*;q=0.1"

ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "minLength": 1},
        "user_agent": {"type": "string", "minLength": 1, "maxLength": 300, "pattern": "^[\\x20-\\x7e]*$"},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string", "maxLength": 1000, "pattern": "^[\\x20-\\x7e]*$"},
            "propertyNames": {"enum": sorted(_SENT_HEADERS)},
        },
        "timeout_seconds": {"type": "number", "exclusiveMinimum": 0},
        "max_bytes": {"type": "integer", "minimum": 1},
    },
}


class FetchSettings(Struct, frozen=True, kw_only=True):
    """The operator's limits for fetching. A call may ask for less time and fewer bytes; if it asks for more, the operator's limits hold."""

    user_agent: str = "holdfast-worker/1"
    timeout_seconds: float = 30.0
    """The time limit of the whole call, including redirects and robots.txt."""
    silence_seconds: float = 10.0
    """How many seconds one connect, one read or one write may take."""
    max_bytes: int = 4 * 1024 * 1024
    """The most bytes of a page, before and after decompression."""
    max_redirects: int = 10
    content_types: tuple[str, ...] = ("text/*", "application/json", "application/xml", "application/xhtml+xml", "*+json", "*+xml")
    """The media types that a page may have: `text/*` covers every type of text, `*+json` every type that ends with `+json`. A page that
    names no type, or whose status is 300 or above, is not checked."""
    robots: bool = True
    """Whether the robots.txt of sites is obeyed."""
    robots_seconds: float = 5.0
    """The time limit for fetching one robots.txt."""
    allow_private: tuple[str, ...] = ()
    """Names, addresses or ranges inside your own network that workers may reach. Each may end with `:port`."""
    ports: tuple[int, ...] = (80, 443)
    """The ports that workers may reach. A domain with a port in a contract opens that port too, and so does an entry of `allow_private`."""
    ca_file: str | None = None
    """A PEM file with the certificate authorities to trust; None: those of the package certifi."""


class FetchUrl:
    """The tool `fetch_url`."""

    name = "fetch_url"
    effect = Effect.READ
    arguments_schema = ARGUMENTS

    def __init__(self, settings: FetchSettings | None = None, resolver: ResolveHost = resolve) -> None:
        self._settings = settings or FetchSettings()
        self.egress = Egress.of(self._settings.allow_private, self._settings.ports)
        """The operator's rules: which hosts and ports workers may reach."""
        self._resolver = resolver
        self._transport: PinnedTransport | None = None
        self.robots = robots.Robots()
        """The robots.txt files of the sites from which pages were fetched lately."""
        self._closed: dict[tuple[str, str], float] = {}

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """An empty reservation: fetching a page costs no tokens and no money."""
        return Reservation()

    def cool_down_keys(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The key of the host of the URL, such as `domain:shop.example`; empty if the URL is not valid."""
        try:
            return (f"domain:{target_of(str(arguments.get('url', ''))).host}",)
        except ToolFailed:
            return ()  # the call itself reports what is wrong

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Fetch one page. Returns its status, text, headers and hash, and the redirects that led to it. Raises ToolFailed if the page
        cannot be fetched, or if its status says that the server refuses or fails. A page with another status, such as 404, is returned."""
        limit = min(self._settings.timeout_seconds, float(arguments.get("timeout_seconds", self._settings.timeout_seconds)))
        seconds = max(min(limit, call.deadline - monotonic()), 0.0)
        fetch = _Fetch(self, call, arguments, self._settings)
        asking_for.set(call.tenant)
        try:
            async with asyncio.timeout(seconds):
                return CallResult(await fetch.page())
        except TimeoutError:
            raise ToolFailed("fetch_timeout", f"The page did not arrive within {seconds:.1f} seconds.") from None

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    # --- shared by all calls

    @property
    def transport(self) -> PinnedTransport:
        """The HTTP transport. It is made when the first page is fetched, because reading the CA file takes a while."""
        if self._transport is None:
            self._transport = PinnedTransport(self.egress, self._resolver, ca_file=self._settings.ca_file)
        return self._transport

    def cool(self, tenant: str, host: str, seconds: float) -> None:
        """For this many seconds, no call of this tenant may ask this host. The tool remembers this itself, because a redirect may lead to
        the host, and the gateway knows only the host of the first URL."""
        now = monotonic()
        self._closed = {key: until for key, until in self._closed.items() if until > now}
        self._closed[tenant, host] = now + seconds

    def cooling(self, tenant: str, host: str) -> float:
        """For how many more seconds this tenant may not ask this host; 0 or less if the tenant may ask it now."""
        return self._closed.get((tenant, host), 0.0) - monotonic()


class _Fetch:
    """One call of the tool."""

    def __init__(self, tool: FetchUrl, call: Call, arguments: Mapping[str, Any], settings: FetchSettings) -> None:
        self._tool = tool
        self._call = call
        self._settings = settings
        self._url = str(arguments["url"])
        self._user_agent = str(arguments.get("user_agent", settings.user_agent))
        self._cap = min(settings.max_bytes, int(arguments.get("max_bytes", settings.max_bytes)))
        self._headers = {"accept": _ACCEPT, "user-agent": self._user_agent, "accept-encoding": ACCEPTED_ENCODINGS}
        self._headers |= {name: value for name, value in arguments.get("headers", {}).items() if name in _SENT_HEADERS}

    async def page(self) -> dict[str, Any]:
        """Follow redirects until the page is found, and return the page. Each target is checked before it is asked."""
        url, before = self._url, None
        redirects: list[str] = []
        while True:
            target = self._admitted(url, before)
            if self._settings.robots:
                await self._tool.robots.check(target, url, self._user_agent, self._robots_txt)
            response = await self._ask(url, target, self._settings.silence_seconds)
            try:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    return await self._result(url, target, response, redirects)
                url, before = self._next(url, response), target
            finally:
                await response.aclose()
            redirects.append(url)
            if len(redirects) > self._settings.max_redirects:
                raise ToolFailed(
                    "tool_failed", f"The page redirects more than {self._settings.max_redirects} times; {target.origin} redirected last."
                )

    def _admitted(self, url: str, before: UrlOrigin | None) -> UrlOrigin:
        target = self._tool.egress.admit(url, self._call.egress, before)
        left = self._tool.cooling(self._call.tenant, target.host)
        if left > 0:
            raise self._limited(target, left, "asked not to be called for a while")
        return target

    async def _ask(self, url: str, target: UrlOrigin, silence: float) -> httpx.Response:
        request = httpx.Request("GET", _parsed(url, target), headers=self._headers)
        request.extensions = {"timeout": {"connect": silence, "read": silence, "write": silence, "pool": silence}}
        try:
            return await self._tool.transport.handle_async_request(request)
        except httpcore.TimeoutException as error:
            raise ToolFailed(
                "fetch_timeout", f"{target.host} did not answer within {silence:g} seconds ({type(error).__name__})."
            ) from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError) as error:
            raise ToolFailed("tool_unavailable", f"{target.host} could not be reached: {str(error) or type(error).__name__}") from None

    def _next(self, url: str, response: httpx.Response) -> str:
        location = response.headers["location"]
        try:
            joined = httpx.URL(url).join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise ToolFailed("tool_failed", f"The page redirects to {location[:200]!r}, which is not a valid URL: {error}") from None
        return str(joined.copy_with(fragment=None))

    async def _result(self, url: str, target: UrlOrigin, response: httpx.Response, redirects: list[str]) -> dict[str, Any]:
        self._judge(target, response)
        content_type = response.headers.get("content-type", "")
        kind = media_type(content_type)
        if kind and response.status_code < 300 and not any(covers(kind, pattern) for pattern in self._settings.content_types):
            allowed = ", ".join(self._settings.content_types)
            raise ToolFailed(
                "tool_failed", f"The page has the media type {kind[:100]!r}, and allowed are {allowed}.", details={"reason": "content_type"}
            )
        body = await self._body(target, response, self._cap)
        text, charset = await in_thread(Purpose.WORK, decoded, body, content_type)
        shown = {name: response.headers[name][:_LONGEST_HEADER] for name in _SHOWN_HEADERS if name in response.headers}
        return {
            "url": url,
            "status": response.status_code,
            "headers": shown,
            "text": text,
            "charset": charset,
            "sha256": hashlib.sha256(body).hexdigest(),
            "size_bytes": len(body),
            "fetched_at": datetime.fromtimestamp(self._call.now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "redirects": redirects,
        }

    async def _body(self, target: UrlOrigin, response: httpx.Response, cap: int, *, truncate: bool = False) -> bytes:
        try:
            return await read_body(response.aiter_raw(), response.headers.get("content-encoding", ""), cap, truncate=truncate)
        except httpcore.TimeoutException:
            raise ToolFailed("fetch_timeout", f"{target.host} stopped sending in the middle of the page.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
            raise ToolFailed("tool_unavailable", f"{target.host} broke off its answer: {str(error) or type(error).__name__}") from None

    def _judge(self, target: UrlOrigin, response: httpx.Response) -> None:
        """Raise ToolFailed if the status says that the server refuses or fails; another status, such as 404, is not an error here. After a
        429, or a 503 with Retry-After, the host is not asked for a while."""
        status = response.status_code
        wait = retry_after(response.headers.get("retry-after"), self._call.now)
        if status == 429 or (status == 503 and wait is not None):
            wait = USUAL_SECONDS if wait is None else wait
            self._tool.cool(self._call.tenant, target.host, wait)
            raise self._limited(target, wait, f"answered {status}")
        if status in (401, 403, 407, 451):
            raise ToolFailed("access_denied", f"{target.host} answered {status}.", details={"status": status})
        if status >= 500 or status in (408, 425):
            raise ToolFailed("tool_unavailable", f"{target.host} answered {status}.", details={"status": status})

    def _limited(self, target: UrlOrigin, seconds: float, why: str) -> ToolFailed:
        message = f"{target.host} {why}. Try again in {seconds:.0f} seconds."
        return ToolFailed("rate_limited", message, retry_after_seconds=seconds, closes=f"domain:{target.host}")

    async def _robots_txt(self, url: str) -> tuple[int, bytes]:
        """The status and the body of a robots.txt. The same addresses are refused as for a page, but the limits of time, size and redirects
        are those of a robots.txt. The body is cut off at its limit. After too many redirects, the result is 404 and an empty body."""
        before: UrlOrigin | None = None
        try:
            async with asyncio.timeout(self._settings.robots_seconds):
                for _ in range(_ROBOTS_HOPS + 1):
                    target = self._admitted(url, before)
                    response = await self._ask(url, target, self._settings.robots_seconds)
                    try:
                        if response.status_code not in _REDIRECTS or "location" not in response.headers:
                            return response.status_code, await self._body(target, response, robots.MAX_BYTES, truncate=True)
                        url, before = self._next(url, response), target
                    finally:
                        await response.aclose()
        except TimeoutError:
            raise ToolFailed("fetch_timeout", f"robots.txt did not arrive within {self._settings.robots_seconds:g} seconds.") from None
        return 404, b""  # RFC 9309 allows it: after too many redirects, assume that there is no robots.txt


def _parsed(url: str, target: UrlOrigin) -> httpx.URL:
    """The URL of the request. Raises ToolFailed if httpx cannot read the URL, or reads another scheme, host or port from it than
    `target_of` did."""
    try:
        parsed = httpx.URL(url)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        if (parsed.scheme, host_of(parsed.raw_host.decode("ascii")), port) == (target.scheme, target.host, target.port):
            return parsed
    except (httpx.InvalidURL, ValueError):
        pass
    raise ToolFailed(
        "egress_denied", f"The URL {url[:200]!r} is ambiguous: a second parser reads another host or port from it, or cannot read it."
    )


def covers(kind: str, pattern: str) -> bool:
    """Whether the pattern `pattern`, such as `text/*`, `*+json` or `text/html`, covers `kind`: a media type, or another pattern."""
    if pattern.endswith("/*"):
        return kind.startswith(pattern[:-1])
    return kind.endswith(pattern[1:]) if pattern.startswith("*+") else kind == pattern
