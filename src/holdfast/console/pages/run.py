"""The page of one run: its head, its graph, its timeline with a panel for one operation, its payloads and its events; and the actions of a
person on the run."""

from __future__ import annotations

import os
from typing import Any, Final
from urllib.parse import quote

from holdfast.console.pages.run_wire import picture_html, slice_json
from holdfast.console.rendering import address
from holdfast.console.site import Site, redirect
from holdfast.console.sources.run_operation import IMAGES, MOST_IMAGE
from holdfast.console.sources.timeline import PAGE, Trees
from holdfast.console.sources.timeline_tree import Choice
from holdfast.console.visit import Visit
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


class RunPages:
    """The pages of one run. They keep the trees of the timelines that people look at now."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._trees = Trees()

    def routes(self) -> list[Route]:
        """The routes of these pages."""
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

    def show(self, visit: Visit) -> Reply:
        """The whole page, or the part that a script asks for (`?part=`). A part has the same address as its page, so a link in it leads to
        the same place."""
        header = visit.source.run.find(visit.label)
        part = visit.text("part")
        if part in _PARTS:
            return self._site.rendering.page(visit, _PARTS[part], **self._part(visit, header, part))
        return self._page(visit, header)

    def _page(self, visit: Visit, header: Execution, status: int = 200, **more: Any) -> Reply:
        tab = visit.text("tab") if visit.text("tab") in _TABS else "timeline"
        values: dict[str, Any] = {"tab": tab, "panel": None, "problem": "", "given": {}, "picture": None, "header": header}
        values |= self._part(visit, header, "head")
        if tab == "timeline":
            values |= self._part(visit, header, "graph")
            choice = _choice(visit)
            wanted = visit.text("op") or more.get("wanted")
            values["slice"] = visit.source.timeline.slice(header, self._trees, choice, _number(visit, "from"), wanted or None)
            values |= {"choice": choice, "page": PAGE}
            if wanted:
                values |= self._panel(visit, header, wanted)
        elif tab == "data":
            values |= {"payloads": visit.source.run.payloads(header), "artifacts": visit.source.operations.artifacts(header)}
        else:
            after = _number(visit, "after")
            rows, is_more = visit.source.run.events(header, after)
            values |= {"events": rows, "is_more": is_more, "after": after}
        return self._site.rendering.page(visit, "run.html", status, **(values | more))

    def _part(self, visit: Visit, header: Execution, part: str) -> dict[str, Any]:
        if part == "head":
            head = visit.source.run.head(header)
            return {"head": head, "row": head, "header": header}
        if part == "graph":
            picture = visit.source.run.picture(header)
            return {"header": header, "picture": None if picture is None else picture_html(picture, header.id, visit.root)}
        return {"header": header, "problem": "", "given": {}} | self._panel(visit, header, visit.text("op"))

    def _panel(self, visit: Visit, header: Execution, operation: str) -> dict[str, Any]:
        return {"panel": visit.source.operations.detail(header, self._trees, operation, _number(visit, "items"))}

    def timeline(self, visit: Visit) -> Reply:
        """A slice of the rows, as JSON."""
        header = visit.source.run.find(visit.label)
        wanted = visit.text("op") or None
        found = visit.source.timeline.slice(header, self._trees, _choice(visit), _number(visit, "from"), wanted)
        return Reply(200, slice_json(found), (_JSON, *_PLAIN))

    def raw(self, visit: Visit) -> Reply:
        """One operation as a JSON file."""
        execution, operation = visit.labels
        header = visit.source.run.find(execution)
        body = visit.source.operations.raw(header, self._trees, operation)
        return Reply(200, body, (_JSON, *_PLAIN, _saved(f"{header.id}-{operation[:12]}.json")))

    def export(self, visit: Visit) -> Reply:
        """The whole execution as a JSON file."""
        header = visit.source.run.find(visit.label)
        return Reply(200, visit.source.run.export(header), (_JSON, *_PLAIN, _saved(f"{header.id}.json")))

    def artifact(self, visit: Visit) -> Reply:
        """The bytes of an artifact. The browser shows a small picture (`?view=1`), and saves everything else as a file."""
        execution, artifact = visit.labels
        header = visit.source.run.find(execution)
        ref, descriptor = visit.source.operations.artifact(header, artifact)
        with os.fdopen(descriptor, "rb") as file:
            if ref.size_bytes > _MOST_FILE:
                raise InvalidParameter(
                    f"The artifact has {ref.size_bytes:,} bytes, too many for a page. Get it over HTTP: GET /v1/artifacts/{ref.artifact_id}"
                )
            body = file.read()
        if visit.text("view") and ref.media_type in IMAGES and ref.size_bytes <= MOST_IMAGE:
            return Reply(200, body, ((b"content-type", ref.media_type.encode()), *_PLAIN))
        return Reply(200, body, ((b"content-type", b"application/octet-stream"), *_PLAIN, _saved(ref.name)))

    # --- acting

    def stop(self, visit: Visit) -> Reply:
        """Stop the run."""
        header = visit.source.run.find(visit.label)
        visit.source.run.stop(header, visit.field("reason"))
        return redirect(visit, f"runs/{header.id}")

    def release(self, visit: Visit) -> Reply:
        """Release the run from quarantine."""
        header = visit.source.run.find(visit.label)
        visit.source.run.release(header)
        return redirect(visit, f"runs/{header.id}")

    def redrive(self, visit: Visit) -> Reply:
        """Start the parked run again, and show the new one."""
        header = visit.source.run.find(visit.label)
        return redirect(visit, f"runs/{visit.source.run.redrive(header)}")

    def succeed(self, visit: Visit) -> Reply:
        """Answer a callback with a result."""
        return self._answered(visit, "succeed")

    def fail(self, visit: Visit) -> Reply:
        """Answer a callback with an error."""
        return self._answered(visit, "fail")

    def heartbeat(self, visit: Visit) -> Reply:
        """Send a heartbeat for a callback: its heartbeat timeout begins again."""
        return self._answered(visit, "heartbeat")

    def _answered(self, visit: Visit, how: str) -> Reply:
        """Answer a callback, or send a heartbeat. If this is refused, show the page of the run again, with what is wrong."""
        execution, wanted = visit.labels
        header = visit.source.run.find(execution)
        operation = visit.source.operations.operation(header, wanted)
        try:
            if how == "succeed":
                visit.source.run.succeed(header, operation, visit.field("result"))
            elif how == "fail":
                visit.source.run.fail(header, operation, visit.field("type"), visit.field("message"))
            else:
                visit.source.run.heartbeat(header, operation)
        except (Rejected, HoldfastError) as wrong:
            return self._page(visit, header, 422, wanted=wanted, problem=str(wrong), given=dict(visit.form))
        return redirect(visit, address(f"runs/{header.id}", op=wanted))


def _choice(visit: Visit) -> Choice:
    places = visit.text("toggled").split(",")[:_MOST_TOGGLED]
    toggled = frozenset(int(place) for place in places if place.isascii() and place.isdigit() and len(place) < 12)
    return Choice(errors=bool(visit.text("errors")), text=visit.text("q").strip()[:_MOST_TEXT], toggled=toggled)


def _number(visit: Visit, name: str) -> int:
    text = visit.text(name)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _saved(name: str) -> Header:
    return (b"content-disposition", f"attachment; filename*=UTF-8''{quote(name[:200], safe='', errors='replace')}".encode())
