"""Errors as HTML pages, for a person whose browser sent a request to the console that was refused or failed.

A person who is not logged in and opens a page is redirected to the login page. The addresses are relative, so that they also work behind a
proxy that adds a path in front.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from holdfast.model.errors import AccessRefused, ExecutionNotFound, HoldfastError, Rejected
from holdfast.web.auth.denials import Denial, Denied, RoleMissing, TenantTooNarrow
from holdfast.web.plain_html import shown
from holdfast.web.refusals import Header, Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.route_groups import RouteGroup
from holdfast.web.routing import path_of

PREFIX: Final = "/console/"
SAFE_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Without a referrer a browser sends `Origin: null` with forms, and the gate refuses that. With this value no referrer is sent to other
    # sites.
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_CSP: Final[Header] = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
)
_LOGIN: Final = frozenset({Denial.MISSING, Denial.UNKNOWN, Denial.EXPIRED})
_FRAGMENT: Final = b"hx-request"


def root_of(path: str) -> str:
    """The relative address that leads from the page at `path` to the first page of the console."""
    return "../" * path.removeprefix(PREFIX).count("/") or "./"


class ConsoleGroup(RouteGroup):
    """The routes of the console. An error is an HTML page, for a person."""

    prefix = PREFIX.rstrip("/")

    def denial(self, refused: Refused, request: Request) -> Reply:
        """If a login can help, and the browser asked for a whole page with GET: a redirect to the login page. In all other cases: an error
        page."""
        path = path_of(request.scope)
        if isinstance(refused, Denied) and refused.why in _LOGIN:
            login = f"{root_of(path)}login"
            if request.method == "GET" and request.header(_FRAGMENT) is None:
                query = request.scope.get("query_string", b"").decode("latin-1")
                back = path.removeprefix(PREFIX) + (f"?{query}" if query else "")
                return Reply(303, headers=((b"location", f"{login}?next={quote(back[:1000], safe='')}".encode()), *SAFE_HEADERS[1:]))
            return error_page(request, 401, AccessRefused.code, "You are not logged in. Log in, and try again.")
        status = refused.why.plain_status if isinstance(refused, Denied) else refused.status
        return error_page(request, status, AccessRefused.code, _told(refused, request), refused.headers)

    def failure(self, error: Exception, request: Request) -> Reply:
        if isinstance(error, TimeoutError):
            return error_page(
                request,
                503,
                "overloaded",
                "The page took too long. A change that you asked for may still be made: look first. To see a page, try again, or ask for "
                "less: a shorter time, fewer rows.",
            )
        if isinstance(error, Refused):
            return error_page(request, error.status, error.shape, str(error), error.headers)
        if isinstance(error, HoldfastError):
            status = 404 if isinstance(error, ExecutionNotFound) else 422 if isinstance(error, Rejected) else 503
            return error_page(request, status, error.code, str(error))
        return error_page(request, 500, "internal_error", "The server had an internal error. Its log has the details.")


PAGES: Final = ConsoleGroup()


def _told(refused: Refused, request: Request) -> str:
    """Why the gate does not admit the request, with the name of the page: a person does not know the names of operations."""
    name = path_of(request.scope).removeprefix(PREFIX).partition("/")[0].partition(".")[0].title() or "Home"
    what = f"The page {name}" if request.method in ("GET", "HEAD") else f"This action on the page {name}"
    if isinstance(refused, RoleMissing):
        return f"{what} needs the role {refused.roles}, which your credential does not have."
    if isinstance(refused, TenantTooNarrow):
        return f"{what} needs a credential for all tenants. Yours is limited to the tenant {refused.tenant!r}."
    return str(refused)


def error_page(request: Request, status: int, code: str, message: str, headers: tuple[Header, ...] = ()) -> Reply:
    """A page with one error: what was wrong, and its stable code."""
    root = root_of(path_of(request.scope))
    title = HTTPStatus(status).phrase
    body = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{title} · Holdfast</title><link rel="icon" href="{root}static/holdfast.svg">'
        f'<link rel="stylesheet" href="{root}static/console.css"></head>'
        f'<body class="lone"><main><h1>{title}</h1><p class="problem">{shown(message)}</p>'
        f'<p class="muted">{status} <code>{shown(code)}</code></p><p><a href="{root}">To the console</a></p></main></body></html>'
    )
    return Reply(status, body.encode(), (*SAFE_HEADERS, _CSP, *headers))
