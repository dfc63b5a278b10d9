"""A page request: one request for a page or an action of the console, with its caller, the source of what that caller may see, and the
fields of the form."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from holdfast.console.page_errors import PREFIX, root_of
from holdfast.console.source import Source
from holdfast.web.policy import Needs, may
from holdfast.web.requests import Request
from holdfast.web.routing import path_of

_DEEPEST: Final = 8
"""A path in the header `hx-current-url` is used only if it has at most this many slashes after the console's prefix."""


class PageRequest:
    """One request, as a page sees it."""

    def __init__(self, http: Request, source: Source, *, now: int, csrf: str, nonce: str, read_only: bool) -> None:
        self.http = http
        self.source = source
        """What the caller may see and do. For a caller of one tenant it has nothing of other tenants."""
        self.now = now
        self.csrf = csrf
        """The CSRF token of this caller. Every form that changes something must send it."""
        self.nonce = nonce
        """The browser runs only scripts that carry this random text."""
        self.read_only = read_only
        self.path = path_of(http.scope).removeprefix(PREFIX)
        self.root = root_of(self._page_path())
        """The relative path from the page that the person sees to the console's first page, such as `../../`. All links begin with it, also
        those in a part of a page."""
        self.form: Mapping[str, str] = {}
        self.chosen: Mapping[str, tuple[str, ...]] = {}
        """All values of each field of the form, for fields that may be given several times."""

    @property
    def label(self) -> str:
        """The first variable part of the path. Raises IndexError if the path has none."""
        return self.http.label

    @property
    def labels(self) -> tuple[str, ...]:
        """The variable parts of the path."""
        return self.http.labels

    @property
    def is_fragment(self) -> bool:
        """Whether a script of an open page sent this request, to get only a part of the page."""
        return self.http.header(b"hx-request") is not None

    def _page_path(self) -> str:
        """The path of the page that the browser shows. For a whole page it is the path of the request. If a script asks for a part of a
        page, it is the path in the header `hx-current-url`; if that header cannot be used, the path of the request."""
        shown = self.http.header(b"hx-current-url")
        if shown is None or not self.is_fragment:
            return path_of(self.http.scope)
        with contextlib.suppress(ValueError):
            _, found, rest = urlsplit(shown).path.partition(PREFIX)
            if found and rest.count("/") <= _DEEPEST:
                return PREFIX + rest
        return path_of(self.http.scope)

    def text(self, name: str) -> str:
        """The first value of a field of the query; empty if it is not given."""
        return next(iter(self.http.texts(name)), "")

    def may(self, needs: str) -> bool:
        """Whether the caller has this permission (`operate`, `approve`, `administer` …) on this console. A read-only console permits only
        `view`."""
        asked = Needs(needs)
        return may(self.http.identity.roles, asked) and (asked is Needs.VIEW or not self.read_only)

    def field(self, name: str) -> str:
        """The first value of a field of the form, without spaces around it; empty if it is not given."""
        return self.form.get(name, "").strip()

    def read_form(self) -> None:
        """Read the fields of the form that a browser sent, into `form` (the first value of each field) and `chosen` (all values). Raises
        InvalidParameter if the form is not UTF-8, or has too many fields."""
        self.chosen = self.http.form_values()
        self.form = {name: values[0] for name, values in self.chosen.items()}
