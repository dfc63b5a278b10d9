"""The static files of the console: its own styles and scripts, and a few files of other projects (static/vendor). A page fetches no file
from another server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Final

from holdfast.console.page_errors import PREFIX
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.refusals import Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_KINDS: Final[Mapping[str, bytes]] = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}


class ConsoleFiles:
    """Serves the files from memory. A browser that has a file already asks whether the file has changed. If it has not, the reply has no
    body."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, bytes, bytes]] = {}
        root = resources.files("holdfast.console") / "static"
        for folder, prefix in ((root, ""), (root / "vendor", "vendor/")):
            for file in folder.iterdir():
                kind = _KINDS.get(file.name.rpartition(".")[2])
                if file.is_file() and kind is not None:
                    body = file.read_bytes()
                    self._files[prefix + file.name] = (body, kind, b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"')

    def routes(self) -> list[Route]:
        """The route of the files. It needs no credential, because the login page uses them too."""
        return [Route("GET", f"{PREFIX}static/([A-Za-z0-9._/-]+)", self.file, RoutePolicy("ConsoleFile", Needs.NOTHING, Reach.ALL))]

    async def file(self, request: Request) -> Reply:
        """The reply with one file. If the browser has this version of the file already, the reply is 304 without a body. Raises Refused
        (404) if there is no such file."""
        found = self._files.get(request.label)
        if found is None:
            raise Refused(404, "NotFound", "There is no such file.")
        body, kind, tag = found
        headers = ((b"content-type", kind), (b"etag", tag), (b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff"))
        if request.header(b"if-none-match") == tag.decode():
            return Reply(304, headers=headers)
        return Reply(200, body, headers)
