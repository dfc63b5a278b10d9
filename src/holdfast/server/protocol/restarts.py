"""Restarts over HTTP: retry a run, restart it from a node or with other inputs, and compare two runs. To retry or restart, a caller needs
the role `operator` or `admin`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model import json_structs
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.model.threads import Purpose, in_thread
from holdfast.restarts.comparisons import compare_runs
from holdfast.restarts.runs import RestartAsked, prepare, restart_run
from holdfast.server.protocol.request_parts import patience
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import document_reply
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route

_LARGEST: Final = MAX_PAYLOAD_BYTES + 2 * 1024 * 1024
_MOST_NODES: Final = 1000


class _Restart(msgspec.Struct, forbid_unknown_fields=True, rename={"nodes": "from"}):
    """The body of a restart. It must have nodes or inputs, or both."""

    nodes: str | list[str] = []
    """The nodes that run again, together with all nodes after them. In JSON the name is `from`."""
    inputs: dict[str, Any] | None = None
    """The inputs of the new run; None: those of the earlier run."""
    resend: list[str] = []
    """The nodes that make their writes again. For any other node, a write that an earlier run made is not made again."""
    plan: bool = False
    """True: the reply says what the restart would do, and nothing is started."""


class _Retry(msgspec.Struct, forbid_unknown_fields=True):
    plan: bool = False


class Restarts:
    """The handlers of retries, restarts and comparisons."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        compare = RoutePolicy("CompareRuns", Needs.VIEW, Reach.HANDLER)
        retry = RoutePolicy("RetryRun", Needs.OPERATE, Reach.HANDLER, waits=Waits.WHEN_ASKED)
        restart = RoutePolicy("RestartRun", Needs.OPERATE, Reach.HANDLER, body_bytes=_LARGEST, waits=Waits.WHEN_ASKED)
        return [
            Route("POST", "/v1/runs/([^/]+)/retry", self.retry, retry),
            Route("POST", "/v1/runs/([^/]+)/restart", self.restart, restart),
            Route("GET", "/v1/runs/([^/]+)/compare/([^/]+)", self.compare, compare),
        ]

    async def retry(self, request: Request) -> Reply:
        """Start a new run that runs the failed parts of an earlier run again. With `"plan": true`, nothing is started: the reply says what
        the new run would do."""
        said = _body(request, _Retry)
        return await self._again(request, RestartAsked(is_retry=True), is_plan=said.plan)

    async def restart(self, request: Request) -> Reply:
        """Start a new run in which the named nodes and all nodes after them run again, or a new run with other inputs, or both. With
        `"plan": true`, nothing is started: the reply says what the new run would do."""
        said = _body(request, _Restart)
        nodes = [said.nodes] if isinstance(said.nodes, str) else said.nodes
        if len(nodes) > _MOST_NODES or len(said.resend) > _MOST_NODES:
            raise InvalidRequest(f"`from` (nodes that run again) or `resend` (nodes that write again) names more than {_MOST_NODES} nodes.")
        asked = RestartAsked(nodes=tuple(nodes), inputs=said.inputs, resend=tuple(said.resend))
        return await self._again(request, asked, is_plan=said.plan)

    async def _again(self, request: Request, asked: RestartAsked, *, is_plan: bool) -> Reply:
        served, caller = self._served, caller_of(request)
        if is_plan:
            prepared = await in_thread(Purpose.STORE, prepare, served.store, request.label, caller, asked, served.worker_service)
            return document_reply(prepared.plan.document())
        wait = patience(request, 0, served.limits.wait_seconds)
        header, accepted = await restart_run(served.worker_service, request.label, caller, asked)
        if wait == 0:
            return await served.begun(header, accepted)
        return await served.reply(header.id, accepted, await served.watched(request, header, accepted, wait), look=True)

    async def compare(self, request: Request) -> Reply:
        """Compare two runs of the same worker or pipeline: inputs, outputs, status and, for a pipeline, each node."""
        a, b = request.labels
        told = await in_thread(Purpose.STORE, compare_runs, self._served.store, a, b, caller_of(request))
        return document_reply(told.document())


def _body(request: Request, kind: Any) -> Any:
    try:
        return json_structs.received(request.content or b"{}", kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as wrong:
        raise InvalidRequest(f"The body is not valid: {wrong}.") from None
