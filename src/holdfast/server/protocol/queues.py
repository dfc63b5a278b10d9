"""Queues over HTTP: a caller enqueues messages, looks at queues and starts parked runs again; an operator changes the settings of queues.

    POST /v1/queues/emails   {"target": "send", "inputs": {"to": "ada"}, "idempotency_key": "m-7", "key": "ada", "ttl": 3600}
    202                      {"run_id": "…", "target": "send", "state": "queued"}

The queue must exist: code or holdfast.toml declares it, or an operator makes it with `set`.

A tenant sees its own lanes and its own parked runs. Actions that concern all tenants (pause, resume, drain, set) are refused to a caller
who belongs to one tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.contract.codes import meaning_of
from holdfast.contract.protocol import request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import enqueue_of
from holdfast.model import codec, json_structs
from holdfast.model.admission import Enqueue
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.model.credentials import tenant_of
from holdfast.model.errors import AccessRefused, HoldfastError, InvalidParameter
from holdfast.model.execution import Execution
from holdfast.model.ids import IdSource
from holdfast.model.queue_errors import QueueFull
from holdfast.model.threads import Purpose, in_thread
from holdfast.queues.documents import parked_document, queue_document, queue_page, settings_document
from holdfast.queues.redrives import start_again
from holdfast.queues.setting_names import flattened
from holdfast.queues.store_queues import QueueView, StoreQueues, new_queue, note_of_queue
from holdfast.server.protocol.request_parts import body_of, trace_of
from holdfast.server.protocol.worker_replies import WORKERS, document_reply
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Header, Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route, in_group
from holdfast.workers.run_lookup import Caller, state_of
from holdfast.workers.service import WorkerService

_LARGEST: Final = MAX_PAYLOAD_BYTES + 2 * 1024 * 1024
_MOST_MESSAGES: Final = 1000
"""One request enqueues at most this many messages."""
_MOST_REDRIVEN: Final = 1000
"""One request starts at most this many parked runs again."""
_MOST_SHOWN: Final = 1000
_PUSH: Final = RoutePolicy("EnqueueMessages", Needs.OPERATE, Reach.HANDLER, body_bytes=_LARGEST)
_SEE: Final = "GetQueue"


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    target: str
    inputs: Any = None
    version: str | None = None
    idempotency_key: str | None = None
    key: str | None = None
    delay: float = 0.0
    ttl: float | None = None
    head_start: float = 0.0
    units: int | None = None
    same: str = "existing"
    tenant: str | None = None


class _Messages(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[_Message]


class _Set(msgspec.Struct, forbid_unknown_fields=True):
    set: dict[str, Any] = {}
    reset: list[str] = []


class _Redrive(msgspec.Struct, forbid_unknown_fields=True):
    runs: list[str] = []
    all: bool = False
    error: str | None = None


class Queues:
    """The handlers of queues."""

    def __init__(self, engine: Engine, ids: IdSource, workers: WorkerService | None) -> None:
        self._engine, self._ids, self._workers = engine, ids, workers
        self._known: set[str] = set()

    def routes(self) -> list[Route]:
        place = "/v1/queues/([^/]+)"
        changes = {"pause": self.pause, "resume": self.resume, "drain": self.drain, "set": self.set}
        routes = [
            Route("GET", "/v1/queues/?", self.list, RoutePolicy("ListQueues", Needs.VIEW, Reach.HANDLER)),
            Route("GET", place, self.show, RoutePolicy(_SEE, Needs.VIEW, Reach.HANDLER)),
            Route("POST", place, self.push, _PUSH),
            Route("GET", f"{place}/parked", self.parked, RoutePolicy("ListParked", Needs.VIEW, Reach.HANDLER)),
            Route("POST", f"{place}/redrive", self.redrive, RoutePolicy("RedriveParked", Needs.OPERATE, Reach.HANDLER)),
            *(
                Route("POST", f"{place}/{verb}", handler, RoutePolicy(f"{verb.title()}Queue", Needs.OPERATE, Reach.NONE))
                for verb, handler in changes.items()
            ),
        ]
        return in_group(WORKERS, routes)

    # --- looking

    async def list(self, request: Request) -> Reply:
        """All queues, without their lanes. A caller who belongs to a tenant sees only the numbers of that tenant."""
        queues, tenant = self._queues(request), _kept_to(request)
        found = await in_thread(Purpose.STORE, lambda: list(queues.list(tenant=tenant, limit=1 << 62)))
        return document_reply({"queues": [queue_document(view) for view in found]})

    async def show(self, request: Request) -> Reply:
        """One queue with its settings and its lanes: at most `?lanes=` lanes, else at most 100."""
        queues, lanes = self._queues(request), _number(request, "lanes", 100)
        view = await in_thread(Purpose.STORE, lambda: queues.get(request.label, tenant=_kept_to(request), lanes=lanes))
        return document_reply(queue_page(view))

    async def parked(self, request: Request) -> Reply:
        """Parked runs of a queue, the oldest first: at most `?limit=`, else at most 100. With `?error=`, only those with this error
        code."""
        queues, limit, error = self._queues(request), _number(request, "limit", 100), request.text("error")
        asked = {"tenant": _kept_to(request), "limit": limit, "error": error}
        found = await in_thread(Purpose.STORE, lambda: list(queues.parked(request.label, **asked)))  # type: ignore[arg-type]
        return document_reply({"parked": [parked_document(run) for run in found]})

    # --- filling

    async def push(self, request: Request) -> Reply:
        """Enqueue one message, or a list of messages. The reply to one message is its run. The reply to a list has a run or an error for
        each message."""
        said = body_of(request, dict[str, Any])
        if "messages" not in said:
            message = _converted(said, _Message)
            await self._check_known(request)
            header = await self._enqueued(request, message)
            return document_reply(_run(header), 202, ((b"location", f"/v1/runs/{header.id}".encode()),))
        messages = _converted(said, _Messages).messages
        if not 1 <= len(messages) <= _MOST_MESSAGES:
            raise InvalidRequest(f"One request enqueues 1 to {_MOST_MESSAGES:,} messages, not {len(messages):,}.")
        await self._check_known(request)
        done = await asyncio.gather(*(self._enqueued(request, message) for message in messages), return_exceptions=True)
        return _many_reply([_told(one) for one in done])

    async def _check_known(self, request: Request) -> None:
        """Refuse a queue that the store does not have: a misspelled name would make a queue without limits. A name that was found is not
        looked up again, because no queue is ever removed."""
        if request.label not in self._known:
            await in_thread(Purpose.STORE, partial(self._queues(request).get, request.label, lanes=0))
            self._known.add(request.label)

    async def _enqueued(self, request: Request, message: _Message) -> Execution:
        caller, tenant = caller_of(request), _kept_to(request)
        if message.tenant is not None:
            if tenant not in (None, message.tenant):
                raise AccessRefused("A caller of one tenant cannot enqueue for another tenant.")
            tenant = message.tenant
            caller = msgspec.structs.replace(caller, tenant=tenant)
        asked = enqueue_of(
            request.label,
            key=message.key,
            delay=message.delay,
            ttl=message.ttl,
            head_start=message.head_start,
            units=message.units,
            same=message.same,
        )
        if self._workers is not None and message.target in self._workers.served:
            return await self._worker_enqueued(request, message, caller, asked)
        payload = codec.dumps(message.inputs)
        return await self._engine.enqueue(
            message.target, payload, asked, name=message.idempotency_key, tenant=tenant, version=message.version
        )

    async def _worker_enqueued(self, request: Request, message: _Message, caller: Caller, asked: Enqueue) -> Execution:
        assert self._workers is not None
        document = {"inputs": {} if message.inputs is None else message.inputs}
        may = {"version": message.version, "idempotency_key": message.idempotency_key}
        order = request_from({**document, **{key: value for key, value in may.items() if value is not None}}, worker_id=message.target)
        trace = trace_of(request)
        return await self._workers.enqueue(order, caller, asked, sampled=None if trace is None else trace.sampled)

    # --- what an operator changes

    async def pause(self, request: Request) -> Reply:
        """Pause the queue: it accepts new runs, but lets no waiting run begin until it is resumed."""
        return await self._changed(request, "pause")

    async def resume(self, request: Request) -> Reply:
        """Resume the queue: it accepts and admits runs again."""
        return await self._changed(request, "resume")

    async def drain(self, request: Request) -> Reply:
        """Drain the queue: it admits the runs that wait, and accepts no new ones."""
        return await self._changed(request, "drain")

    async def _changed(self, request: Request, verb: str) -> Reply:
        view: QueueView = await in_thread(Purpose.HOUSE, getattr(self._queues(request), verb), request.label)
        self._engine.look_for_work()
        row = view.row
        return document_reply({"queue": row.name, "mode": row.mode.value})

    async def set(self, request: Request) -> Reply:
        """Set settings of the queue (`set`), and remove settings that an operator set (`reset`), so that the declared ones are in force
        again. A queue that does not exist yet is made."""
        said = _converted(body_of(request, dict[str, Any]), _Set)
        is_new = await in_thread(Purpose.STORE, new_queue, self._queues(request), request.label) is not None
        row = (await in_thread(Purpose.HOUSE, self._queues(request).set, request.label, flattened(said.set), said.reset)).row
        self._engine.look_for_work()
        return document_reply({"queue": row.name, "is_new": is_new, "settings": settings_document(row)}, 201 if is_new else 200)

    async def redrive(self, request: Request) -> Reply:
        """Start parked runs of the queue again: those that the body names, or all, or all with one error code; at most a thousand in one
        request. The reply has a new run or an error for each of them."""
        said, tenant, queues = _converted(body_of(request, dict[str, Any]), _Redrive), _kept_to(request), self._queues(request)
        if said.all is bool(said.runs) or (said.error is not None and not said.all) or len(said.runs) > _MOST_REDRIVEN:
            raise InvalidRequest(
                f"Give `runs` with 1 to {_MOST_REDRIVEN:,} ids, or `all` as true. `error` is allowed only together with `all`."
            )

        def found() -> dict[str, Execution]:
            if said.all:
                listed = queues.parked(request.label, tenant=tenant, limit=_MOST_REDRIVEN, error=said.error)
                return {one.header.id: one.header for one in listed}
            queues.get(request.label, lanes=0)  # raises QueueNotFound if there is no such queue
            return {header.id: header for run in said.runs if (header := self._parked(request.label, run, tenant)) is not None}

        parked = await in_thread(Purpose.STORE, found)
        chosen = list(parked) if said.all else said.runs
        done = [await self._redriven(parked.get(run), run) for run in chosen]
        started = sum(1 for one in done if "error" not in one)
        await in_thread(Purpose.HOUSE, note_of_queue, queues, "redrive", request.label, f"{started} started again")
        return document_reply({"found": len(chosen), "runs": done}, 202)

    def _parked(self, queue: str, run: str, tenant: str | None) -> Execution | None:
        """The parked run with the id `run`. None if this queue has no such parked run, or if it belongs to another tenant than `tenant`; if
        `tenant` is None, every tenant is allowed."""
        header = self._engine.store.find(run)
        if header is None or header.place is None or header.place.queue != queue or not header.parked:
            return None
        return header if tenant in (None, tenant_of(header.tenant)) else None

    async def _redriven(self, header: Execution | None, run: str) -> dict[str, Any]:
        try:
            if header is None:
                raise InvalidParameter(f"No parked run of this queue has the id {run!r:.100}.")
            after = await self._engine.redrive(header.id, start_again)
        except HoldfastError as refused:
            return {"parked": run, **_told(refused)}
        return {"parked": run, "run_id": after.id}

    def _queues(self, request: Request) -> StoreQueues:
        return StoreQueues(self._engine.store, self._engine.clock, self._ids, request.actor)


def _kept_to(request: Request) -> str | None:
    """The tenant that the caller belongs to. None for a caller who may see all tenants, and for every caller of a server without logins."""
    caller = caller_of(request)
    return caller.tenant if caller.logged_in and not caller.everywhere else None


def _run(header: Execution) -> dict[str, Any]:
    return {"run_id": header.id, "target": header.function, "state": state_of(header)}


def _told(done: Execution | BaseException) -> dict[str, Any]:
    """The entry of the reply for one message or one parked run: the run that was enqueued, or the error. An error that is not Holdfast's
    own is raised."""
    if isinstance(done, Execution):
        return _run(done)
    if not isinstance(done, HoldfastError):
        raise done
    code = done.error_code if isinstance(done, InvalidRequest) else done.code
    error: dict[str, Any] = {"error_code": code, "message": str(done), "retryable": meaning_of(code).retryable}
    if isinstance(done, QueueFull):
        error["retry_after_seconds"] = done.retry_after_seconds
    return {"error": error}


def _many_reply(told: Sequence[dict[str, Any]]) -> Reply:
    """The reply for many messages. Its status is 202 if at least one message was enqueued. If none was, it is 503 if at least one was
    refused because the queue was full, else 400. `told` has the entry of each message."""
    waits = [one["error"]["retry_after_seconds"] for one in told if "retry_after_seconds" in one.get("error", {})]
    headers: tuple[Header, ...] = ((b"retry-after", str(max(waits)).encode()),) if waits else ()
    accepted = any("error" not in one for one in told)
    return document_reply({"runs": told}, 202 if accepted else 503 if waits else 400, headers)


def _converted(said: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return json_structs.converted(said, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The body is not valid: {error}") from None


def _number(request: Request, name: str, default: int) -> int:
    text = request.text(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= _MOST_SHOWN):
        raise InvalidRequest(f"{name}: {text!r:.50} is not a whole number from 0 to {_MOST_SHOWN:,}.")
    return int(text)
