"""Logging in and out: a person types a token once, and from then on the browser sends a cookie instead."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Final

from holdfast.console.page_errors import PREFIX
from holdfast.console.page_request import PageRequest
from holdfast.console.rendering import Rendering
from holdfast.console.site import Site, is_secure
from holdfast.model.clock import monotonic
from holdfast.model.credentials import Credential
from holdfast.model.threads import Purpose, in_thread
from holdfast.web.auth.denials import Denial, Denied
from holdfast.web.auth.gate import Gate
from holdfast.web.auth.sessions import cookie_header, cookie_in
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_FORM_BYTES: Final = 4096
_BACK: Final = re.compile(r"(?!log(?:in|out)\b)[A-Za-z0-9_~%-][A-Za-z0-9_~%/-]{0,300}(?:\?[A-Za-z0-9._~%/&=+:,@!$'()*;-]{0,999})?")
"""After a login, the browser is sent to the path in the form's field `next`, if this expression matches the path; else to the first page.
It matches paths of pages of this console. It does not match another site, a path with `..`, the login or the logout."""
_UNKNOWN: Final = "This server does not know the token: it was typed wrongly, or it was revoked."
_TRIES: Final = 10
_TRIES_SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 10_000


class Login:
    """The handlers for logging in and out. They need no credential."""

    def __init__(self, site: Site, rendering: Rendering, gate: Gate) -> None:
        self._site = site
        self._rendering = rendering
        self._gate = gate
        self._tries = Tries(_TRIES, _TRIES_SECONDS)

    def routes(self) -> list[Route]:
        form = RoutePolicy("ShowLogin", Needs.NOTHING, Reach.ALL)
        log_in = RoutePolicy("LogIn", Needs.NOTHING, Reach.ALL, body_bytes=_FORM_BYTES)
        return [
            Route("GET", f"{PREFIX}login", self.form, form),
            Route("POST", f"{PREFIX}login", self.log_in, log_in),
            Route("POST", f"{PREFIX}logout", self.log_out, RoutePolicy("LogOut", Needs.NOTHING, Reach.ALL, body_bytes=_FORM_BYTES)),
        ]

    async def form(self, request: Request) -> Reply:
        return self._page(self._site.page_request(request))

    async def log_in(self, request: Request) -> Reply:
        """Log in with the token of the form: begin a session, and send the browser to the path in the form's field `next`. If `next` does
        not look like a path of the console, the browser is sent to the first page. On a server that needs no credentials, no session
        begins. If the token is refused (401), or after too many tries (429), the reply is the login page with the problem."""
        page_request = self._site.page_request(request)
        page_request.read_form()
        if not self._tries.take(request.origin, monotonic()):
            return self._page(page_request, "Too many tries from this address. Wait a minute.", 429)
        try:
            credential = await self._gate.log_in(request, page_request.field("token"))
        except Denied as refused:
            return self._page(page_request, _UNKNOWN if refused.why is Denial.UNKNOWN else str(refused), 401)
        headers = [(b"location", self._back(page_request).encode()), (b"cache-control", b"no-store")]
        if credential is not None:
            headers.append(await in_thread(Purpose.CONSOLE, self._begun, credential, page_request))
        return Reply(303, headers=headers)

    def _begun(self, credential: Credential, page_request: PageRequest) -> tuple[bytes, bytes]:
        begun = self._gate.sessions.begin(credential, page_request.now)
        seconds = (begun.session.expires_at - page_request.now) // 1000
        return cookie_header(begun.cookie, seconds=seconds, secure=is_secure(page_request.http))

    async def log_out(self, request: Request) -> Reply:
        """End the session, and send the browser to the login page. The form needs no CSRF token, because the browser does not send the
        cookie with a form of another site."""
        await in_thread(Purpose.CONSOLE, self._gate.sessions.end, cookie_in(request.header(b"cookie")))
        gone = cookie_header("", seconds=0, secure=is_secure(request))
        return Reply(303, headers=[(b"location", b"login"), (b"cache-control", b"no-store"), gone])

    def _page(self, page_request: PageRequest, problem: str = "", status: int = 200) -> Reply:
        back = page_request.text("next") or page_request.form.get("next", "")
        return self._rendering.page(page_request, "login.html", status, problem=problem, next=back, needed=self._gate.needs_credentials)

    def _back(self, page_request: PageRequest) -> str:
        back = page_request.form.get("next", "")
        return back if _BACK.fullmatch(back) else "./"


class Tries:
    """Limits how often one address may try to log in: `most` tries within `seconds`, counted from its first try. The first try after these
    seconds begins a new count. At most 10,000 addresses are remembered. The address whose last try is the oldest is forgotten first."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._begun: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        """Count one more try of this address, at the time `now` (seconds). Returns True if the try is allowed, and False if the address has
        tried too often. A refused try is counted too."""
        began, count = self._begun.pop(address, (now, 0))
        if now - began >= self._seconds:
            began, count = now, 0
        self._begun[address] = (began, count + 1)
        if len(self._begun) > _MOST_ADDRESSES:
            self._begun.popitem(last=False)
        return count < self._most
