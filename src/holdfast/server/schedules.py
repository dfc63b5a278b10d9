"""Schedules over HTTP: list, add, show, remove, pause and resume them, ask for their next times, start one now, or backfill. A caller of a
tenant sees and changes only the schedules of that tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model import json_structs
from holdfast.model.clock import Clock
from holdfast.model.schedules import Origin, ScheduleState
from holdfast.model.threads import Purpose, in_thread
from holdfast.schedules.declarations import schedule_from, span_of
from holdfast.schedules.documents import described, iso, next_times
from holdfast.schedules.store_schedules import Backfilled, Schedules
from holdfast.server.protocol.worker_replies import WORKERS, document_reply
from holdfast.store.seam import ScheduleStore
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group

_BODY_BYTES: Final = 512 * 1024
_PAGE: Final = 100
_MOST: Final = 1000
_MOST_TIMES: Final = 100
_T = TypeVar("_T")


class ScheduleRoutes:
    """The handlers of schedules. After each change of a schedule, except a removal, they call `look_for_work`, which tells this server's
    own runner to read the schedules again."""

    def __init__(self, store: ScheduleStore, clock: Clock, look_for_work: Callable[[], None]) -> None:
        self._store, self._clock, self._look_for_work = store, clock, look_for_work

    def routes(self) -> list[Route]:

        def reads(name: str) -> RoutePolicy:
            return RoutePolicy(name, Needs.VIEW, Reach.HANDLER)

        def changes(name: str) -> RoutePolicy:
            return RoutePolicy(name, Needs.OPERATE, Reach.HANDLER, body_bytes=_BODY_BYTES)

        routes = [
            Route("GET", "/v1/schedules/?", self.list, reads("ListSchedules")),
            Route("POST", "/v1/schedules/?", self.add, changes("AddSchedule")),
            Route("GET", "/v1/schedules/([^/]+)", self.show, reads("GetSchedule")),
            Route("GET", "/v1/schedules/([^/]+)/next", self.next, reads("GetNextTimes")),
            Route("DELETE", "/v1/schedules/([^/]+)", self.remove, changes("RemoveSchedule")),
            Route("POST", "/v1/schedules/([^/]+)/pause", self.pause, changes("PauseSchedule")),
            Route("POST", "/v1/schedules/([^/]+)/resume", self.resume, changes("ResumeSchedule")),
            Route("POST", "/v1/schedules/([^/]+)/run-now", self.run_now, changes("RunSchedule")),
            Route("POST", "/v1/schedules/([^/]+)/backfill", self.backfill, changes("BackfillSchedule")),
        ]
        return in_group(WORKERS, routes)

    async def list(self, request: Request) -> Reply:
        """A page of schedules in the order of their names: those after the name in `?after=`, at most `?limit=` of them (else 100)."""
        limit = _number(request, "limit", _PAGE, _MOST)
        now, after = self._clock.now(), request.text("after") or ""

        def page() -> Reply:  # to describe a schedule takes up to two milliseconds: its next time may be years away
            return document_reply({"schedules": [described(state, now, times=1) for state in self._verbs(request).list(limit, after)]})

        return await in_thread(Purpose.STORE, page)

    async def show(self, request: Request) -> Reply:
        """One schedule, with at most five next times (none while it is paused) and how the last occurrences were handled."""
        state = await in_thread(Purpose.STORE, self._verbs(request).get, request.label)
        return self._told(state)

    async def next(self, request: Request) -> Reply:
        """The next times at which a schedule is due: at most `?count=`, else at most five; none while the schedule is paused."""
        count = _number(request, "count", 5, _MOST_TIMES)
        state = await in_thread(Purpose.STORE, self._verbs(request).get, request.label)
        return document_reply({"next": [iso(at) for at in next_times(state, self._clock.now(), count)]})

    async def add(self, request: Request) -> Reply:
        """Make a schedule. If a schedule of this name exists already, `"replace": true` changes it; without `replace` the request is
        refused. A schedule of another tenant is never changed: the request is refused."""
        body = _body(request)
        name, replace = body.pop("name", None), body.pop("replace", False)
        if not isinstance(name, str) or not isinstance(replace, bool):
            raise InvalidRequest("`name` must be a text, and `replace` must be true or false.")
        asked = schedule_from(name, body, "The body")
        state = await self._changed(lambda: self._verbs(request).add(asked, origin=Origin.HTTP, replace=replace))
        return self._told(state, 201)

    async def remove(self, request: Request) -> Reply:
        """Remove a schedule. Executions that it started continue."""
        verbs = self._verbs(request)
        state = await in_thread(Purpose.STORE, verbs.get, request.label)
        await in_thread(Purpose.STORE, verbs.remove, request.label)
        return document_reply({"removed": state.name})

    async def pause(self, request: Request) -> Reply:
        """Pause a schedule: nothing that is due is started until it is resumed. `run-now` and `backfill` still start occurrences."""
        _nothing(request)
        return self._told(await self._changed(lambda: self._verbs(request).pause(request.label)))

    async def resume(self, request: Request) -> Reply:
        """Resume a schedule. Without `"catch_up": true`, two kinds of occurrences are dropped: those that were due during the pause, and
        those that waited for an earlier occurrence to end. With it, the schedule's catch-up policy decides which occurrences of the pause
        are started, and those that waited still wait."""
        catch_up = _body(request, "catch_up").get("catch_up", False)
        if not isinstance(catch_up, bool):
            raise InvalidRequest("`catch_up` must be true or false.")
        return self._told(await self._changed(lambda: self._verbs(request).resume(request.label, catch_up=catch_up)))

    async def run_now(self, request: Request) -> Reply:
        """Ask for one occurrence now. A runner that hosts the function starts it after the reply."""
        _nothing(request)
        return self._told(await self._changed(lambda: self._verbs(request).run_now(request.label)), 202)

    async def backfill(self, request: Request) -> Reply:
        """Ask for the occurrences that were due from `from` on and before `to`: times with their zones, or dates, which are midnights in
        the schedule's zone. The reply says how many were due. After the reply, a runner that hosts the function starts those whose
        executions are not in the store."""
        body = _body(request, "from", "to")
        begin, end = _text(body, "from"), _text(body, "to")

        def fill() -> Backfilled:
            verbs = self._verbs(request)
            span = span_of(("from", "to"), begin, end, verbs.get(request.label).definition.timing)
            return verbs.backfill(request.label, *span)

        done = await self._changed(fill)
        return document_reply({"asked_for": done.due, "schedule": described(done.schedule, self._clock.now())}, 202)

    def _verbs(self, request: Request) -> Schedules:
        return Schedules(self._store, self._clock, actor=request.actor, tenant=request.tenant)

    async def _changed(self, change: Callable[[], _T]) -> _T:
        done = await in_thread(Purpose.STORE, change)
        self._look_for_work()
        return done

    def _told(self, state: ScheduleState, status: int = 200) -> Reply:
        headers = ((b"location", f"/v1/schedules/{state.name}".encode()),)
        return document_reply(described(state, self._clock.now()), status, headers)


def _number(request: Request, name: str, usual: int, most: int) -> int:
    found = request.number(name)
    if found is not None and not 1 <= found <= most:
        raise InvalidRequest(f"`{name}` must be a whole number from 1 to {most}.")
    return usual if found is None else found


def _body(request: Request, *known: str) -> dict[str, Any]:
    try:
        body = json_structs.received(request.content or b"{}", Any)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.")
    unknown = [str(key)[:50] for key in body if known and key not in known]
    if unknown:
        raise InvalidRequest(f"The body has the unknown members {', '.join(unknown)[:200]}; it may have {', '.join(known)}.")
    return body


def _nothing(request: Request) -> None:
    if _body(request):
        raise InvalidRequest("Send this request without a body.")


def _text(body: dict[str, Any], key: str) -> str:
    found = body.get(key)
    if not isinstance(found, str):
        raise InvalidRequest(f"`{key}` must be a date, or a text with a time and its zone, such as 2026-03-01T00:00:00Z.")
    return found
