"""The page of one run: its head, its graph, its timeline with a panel for one operation, its payloads and its events; and the actions of a
person on the run."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import quote

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.run_wire import picture_html, slice_json
from holdfast.console.rendering import address
from holdfast.console.site import PageGroup, Site, redirect
from holdfast.console.sources.run_operation import IMAGES, MOST_IMAGE
from holdfast.console.sources.timeline import PAGE, Trees
from holdfast.console.sources.timeline_tree import TimelineFilter
from holdfast.model.errors import HoldfastError, InvalidParameter, Rejected
from holdfast.model.execution import Execution
from holdfast.web.policy import Needs
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_ID: Final = "([^/]+)"
_TABS: Final = ("timeline", "data", "events")
_PARTS: Final = {"head": "run_head.html", "graph": "run_graph.html", "panel": "run_panel.html"}
_MOST_TOGGLED: Final = 1_000
_MOST_TEXT: Final = 200
_MOST_FILE: Final = 64 * 1024 * 1024
_PLAIN: Final[tuple[Header, ...]] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; sandbox; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_JSON: Final[Header] = (b"content-type", b"application/json")


class RunPages(PageGroup):
    """The pages of one run. They keep the trees of the last timelines in memory (`Trees`), so that a page need not read a whole run
    again."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._trees = Trees()

    def routes(self) -> list[Route]:
        site, run, op = self._site, f"runs/{_ID}", f"runs/{_ID}/op/{_ID}"
        return [
            site.page(run, self.show, "ShowRunPage"),
            site.page(f"{run}/timeline", self.timeline, "ShowRunTimeline"),
            site.page(f"{run}/export", self.export, "ExportRun"),
            site.page(f"{run}/artifact/{_ID}", self.artifact, "ShowRunArtifact"),
            site.page(f"{op}/raw", self.raw, "ShowOperationRaw"),
            *site.action(f"{run}/stop", self.stop, "StopRun", needs=Needs.OPERATE),
            *site.action(f"{run}/release", self.release, "ReleaseRun", needs=Needs.OPERATE),
            *site.action(f"{run}/redrive", self.redrive, "RedriveRun", needs=Needs.OPERATE),
            *site.action(f"{op}/succeed", self.succeed, "SucceedCallback", needs=Needs.APPROVE),
            *site.action(f"{op}/fail", self.fail, "FailCallback", needs=Needs.APPROVE),
            *site.action(f"{op}/heartbeat", self.heartbeat, "HeartbeatCallback", needs=Needs.APPROVE),
        ]

    # --- reading

    def show(self, request: PageRequest) -> Reply:
        """The whole page; with `?part=head`, `graph` or `panel` only that part."""
        header = request.source.viewer.find(request.label)
        part = request.text("part")
        if part in _PARTS:
            return self._render(request, _PARTS[part], **self._part(request, header, part))
        return self._page(request, header)

    def _page(self, request: PageRequest, header: Execution, status: int = 200, **more: Any) -> Reply:
        tab = request.text("tab") if request.text("tab") in _TABS else "timeline"
        values: dict[str, Any] = {"tab": tab, "panel": None, "problem": "", "given": {}, "picture": None, "header": header}
        values |= self._part(request, header, "head")
        if tab == "timeline":
            values |= self._part(request, header, "graph")
            choice = _choice(request)
            wanted = request.text("op") or more.get("wanted")
            values["slice"] = request.source.timeline.slice(header, self._trees, choice, _number(request, "from"), wanted or None)
            values |= {"choice": choice, "page": PAGE}
            if wanted:
                values |= self._panel(request, header, wanted)
        elif tab == "data":
            values |= {"payloads": request.source.run.payloads(header), "artifacts": request.source.operations.artifacts(header)}
        else:
            after = _number(request, "after")
            rows, is_more = request.source.run.events(header, after)
            values |= {"events": rows, "is_more": is_more, "after": after}
        return self._render(request, "run.html", status, **(values | more))

    def _part(self, request: PageRequest, header: Execution, part: str) -> dict[str, Any]:
        if part == "head":
            head = request.source.run.head(header)
            return {"head": head, "row": head, "header": header}
        if part == "graph":
            picture = request.source.run.picture(header)
            return {"header": header, "picture": None if picture is None else picture_html(picture, header.id, request.root)}
        return {"header": header, "problem": "", "given": {}} | self._panel(request, header, request.text("op"))

    def _panel(self, request: PageRequest, header: Execution, operation: str) -> dict[str, Any]:
        return {"panel": request.source.operations.detail(header, self._trees, operation, _number(request, "items"))}

    def timeline(self, request: PageRequest) -> Reply:
        """A slice of the timeline's rows, as JSON."""
        header = request.source.viewer.find(request.label)
        wanted = request.text("op") or None
        found = request.source.timeline.slice(header, self._trees, _choice(request), _number(request, "from"), wanted)
        return Reply(200, slice_json(found), (_JSON, *_PLAIN))

    def raw(self, request: PageRequest) -> Reply:
        """One operation and its first events (at most 200), as a JSON file, without secrets."""
        execution, operation = request.labels
        header = request.source.viewer.find(execution)
        body = request.source.operations.raw(header, self._trees, operation)
        return Reply(200, body, (_JSON, *_PLAIN, _saved(f"{header.id}-{operation[:12]}.json")))

    def export(self, request: PageRequest) -> Reply:
        """The whole execution as a JSON file, without secrets. Raises InvalidParameter if it is too large."""
        header = request.source.viewer.find(request.label)
        return Reply(200, request.source.run.export(header), (_JSON, *_PLAIN, _saved(f"{header.id}.json")))

    def artifact(self, request: PageRequest) -> Reply:
        """The bytes of an artifact. The browser shows a small picture if the address has `?view=1`, and saves everything else as a file.
        Raises InvalidParameter if the artifact is too large for a page."""
        execution, artifact = request.labels
        header = request.source.viewer.find(execution)
        ref, descriptor = request.source.operations.artifact(header, artifact)
        with os.fdopen(descriptor, "rb") as file:
            if ref.size_bytes > _MOST_FILE:
                raise InvalidParameter(
                    f"The artifact has {ref.size_bytes:,} bytes, too many for a page. Get it over HTTP: GET /v1/artifacts/{ref.artifact_id}"
                )
            body = file.read()
        if request.text("view") and ref.media_type in IMAGES and ref.size_bytes <= MOST_IMAGE:
            return Reply(200, body, ((b"content-type", ref.media_type.encode()), *_PLAIN))
        return Reply(200, body, ((b"content-type", b"application/octet-stream"), *_PLAIN, _saved(ref.name)))

    # --- acting

    def stop(self, request: PageRequest) -> Reply:
        """Stop the run, with the reason of the form. A run of a worker or a pipeline is cancelled."""
        header = request.source.viewer.find(request.label)
        request.source.run.stop(header, request.field("reason"))
        return redirect(request, f"runs/{header.id}")

    def release(self, request: PageRequest) -> Reply:
        """Let a run continue that is quarantined, or that waits for another try after its runners died."""
        header = request.source.viewer.find(request.label)
        request.source.run.release(header)
        return redirect(request, f"runs/{header.id}")

    def redrive(self, request: PageRequest) -> Reply:
        """Start the parked run again, and show the page of the new run."""
        header = request.source.viewer.find(request.label)
        return redirect(request, f"runs/{request.source.run.redrive(header)}")

    def succeed(self, request: PageRequest) -> Reply:
        """Answer a callback with a result."""
        return self._answered(request, "succeed")

    def fail(self, request: PageRequest) -> Reply:
        """Answer a callback with an error."""
        return self._answered(request, "fail")

    def heartbeat(self, request: PageRequest) -> Reply:
        """Send a heartbeat for a callback: its heartbeat timeout begins again."""
        return self._answered(request, "heartbeat")

    def _answered(self, request: PageRequest, how: str) -> Reply:
        """Answer a callback, or send a heartbeat, as `how` says. If the answer is refused, show the page of the run again, with what is
        wrong."""
        execution, wanted = request.labels
        header = request.source.viewer.find(execution)
        operation = request.source.operations.operation(header, wanted)
        try:
            if how == "succeed":
                request.source.run.succeed(header, operation, request.field("result"))
            elif how == "fail":
                request.source.run.fail(header, operation, request.field("type"), request.field("message"))
            else:
                request.source.run.heartbeat(header, operation)
        except (Rejected, HoldfastError) as wrong:
            return self._page(request, header, 422, wanted=wanted, problem=str(wrong), given=dict(request.form))
        return redirect(request, address(f"runs/{header.id}", op=wanted))


def _choice(request: PageRequest) -> TimelineFilter:
    places = request.text("toggled").split(",")[:_MOST_TOGGLED]
    toggled = frozenset(int(place) for place in places if place.isascii() and place.isdigit() and len(place) < 12)
    return TimelineFilter(errors=bool(request.text("errors")), text=request.text("q").strip()[:_MOST_TEXT], toggled=toggled)


def _number(request: PageRequest, name: str) -> int:
    text = request.text(name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _saved(name: str) -> Header:
    return (b"content-disposition", f"attachment; filename*=UTF-8''{quote(name[:200], safe='', errors='replace')}".encode())
