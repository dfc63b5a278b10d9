"""The site: how the console's pages become routes.

    request → (gate) → page request → page, in a thread of the console's own → reply

A page is an ordinary function that gets a page request and returns a reply. It reads through `request.source`, and never runs on the
engine's event loop. An action is a page that changes something: the request must carry the caller's CSRF token, in the form or in the
header `x-csrf`. A read-only console has no actions.
"""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Callable
from typing import Any, Final

from holdfast.console.page_errors import PREFIX, error_page
from holdfast.console.page_request import PageRequest
from holdfast.console.rendering import Rendering
from holdfast.console.source import Source
from holdfast.model.clock import Clock
from holdfast.model.errors import AccessRefused
from holdfast.model.threads import Purpose, in_thread
from holdfast.web.auth.sessions import Sessions, cookie_header
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Handler, Route

FORM_BYTES: Final = 1024 * 1024
_OLD_FORM: Final = "This form is too old, or another site sent it. Open the page again, and send the form again."

PageView = Callable[[PageRequest], Reply]


class Site:
    """Makes the routes of the console's pages and actions. `acted` is called after each action, also if the action failed; but not if the
    request was refused because of its CSRF token."""

    def __init__(
        self,
        sources: Callable[[Request], Source],
        rendering: Rendering,
        clock: Clock,
        sessions: Sessions | None = None,
        *,
        read_only: bool = False,
        acted: Callable[[], None] = lambda: None,
        chance: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._sources = sources
        self.rendering = rendering
        self._clock = clock
        self._sessions = sessions
        self.read_only = read_only
        self._after_action = acted
        self._chance = chance
        self._own_csrf = base64.urlsafe_b64encode(chance(18)).decode()
        """The CSRF token for every caller without a login session. On a server without credentials these are all callers."""

    def page(self, path: str, view: PageView, operation: str, *, needs: Needs = Needs.VIEW, reach: Reach = Reach.HANDLER) -> Route:
        """The route of a page that shows something. `path` is a regular expression for the path after the console's prefix. `operation` is
        the name of the page in errors and in the audit log. `needs` is the permission that the caller needs. `reach` says how a caller of
        one tenant is kept from other tenants."""
        return Route("GET", PREFIX + path, self._shown(view), RoutePolicy(operation, needs, reach, session=True))

    def action(self, path: str, view: PageView, operation: str, *, needs: Needs, reach: Reach = Reach.HANDLER) -> list[Route]:
        """The route of a form that changes something, in a list of one element. On a read-only console the list is empty. `path`,
        `operation`, `needs` and `reach` are as for `page`."""
        if self.read_only:
            return []
        policy = RoutePolicy(operation, needs, reach, session=True, body_bytes=FORM_BYTES)
        return [Route("POST", PREFIX + path, self._acted(view), policy)]

    def page_request(self, request: Request) -> PageRequest:
        """Make the page request of an HTTP request."""
        session = request.session_of_browser
        nonce = base64.b64encode(self._chance(16)).decode()
        csrf = self._own_csrf if session is None else session.csrf
        return PageRequest(request, self._sources(request), now=self._clock.now(), csrf=csrf, nonce=nonce, read_only=self.read_only)

    def _shown(self, view: PageView) -> Handler:
        async def shown(request: Request) -> Reply:
            return await in_thread(Purpose.CONSOLE, self._rotated, request, view)

        return shown

    def _rotated(self, request: Request, view: PageView) -> Reply:
        """Call the page, and return its reply. If the cookie of the caller's session has had its value for longer than ROTATE_MS
        (web/auth/sessions.py), the reply also sets a new value."""
        reply = view(self.page_request(request))
        session = request.session_of_browser
        if session is not None and self._sessions is not None:
            fresh = self._sessions.rotate(session, self._clock.now())
            if fresh is not None:
                seconds = max(0, fresh.session.expires_at - self._clock.now()) // 1000
                reply.raw_headers.append(cookie_header(fresh.cookie, seconds=seconds, secure=is_secure(request)))
        return reply

    def _acted(self, view: PageView) -> Handler:
        def act(request: Request) -> Reply:
            page_request = self.page_request(request)
            page_request.read_form()
            given = page_request.form.get("csrf") or request.header(b"x-csrf") or ""
            if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), page_request.csrf.encode()):
                return error_page(request, 403, AccessRefused.code, _OLD_FORM)
            try:
                return view(page_request)
            finally:
                self._after_action()  # also after an error, because an action may have done a part

        async def acted(request: Request) -> Reply:
            return await in_thread(Purpose.CONSOLE, act, request)

        return acted


class PageGroup:
    """A group of pages. The base class of the groups."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def _render(self, request: PageRequest, template: str, status: int = 200, **values: Any) -> Reply:
        """The reply with the page that a template makes of these values."""
        return self._site.rendering.page(request, template, status, **values)


def is_secure(request: Request) -> bool:
    """Whether the request came over HTTPS, by its scheme. If so, the cookie is marked `Secure`, and the browser sends it only over
    HTTPS."""
    return bool(request.scope.get("scheme") == "https")


def redirect(page_request: PageRequest, to: str) -> Reply:
    """A reply that sends the browser to another page of the console. `to` is the path of that page without the console's prefix."""
    return Reply(303, headers=((b"location", f"{page_request.root}{to}".encode()), (b"cache-control", b"no-store")))
