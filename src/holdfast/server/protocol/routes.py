"""Joins the routes by which clients start workers and look at runs. Each handler's module declares its own routes. `holdfast serve` adds
the routes of queues (queues.py) itself, because a server without workers has them, too."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.server.protocol.approvals import Approvals
from holdfast.server.protocol.artifacts import ArtifactRoutes
from holdfast.server.protocol.costs import Costs
from holdfast.server.protocol.links import Links
from holdfast.server.protocol.restarts import Restarts
from holdfast.server.protocol.runs import Runs
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import WORKERS
from holdfast.server.protocol.workers import Workers
from holdfast.web.routing import Route, in_group


def worker_routes(served: ServedWorkers) -> Sequence[Route]:
    """The routes for workers, runs, restarts, approvals, links, artifacts and costs."""
    parts = (Workers(served), Runs(served), Restarts(served), Approvals(served), Links(served), ArtifactRoutes(served), Costs(served))
    return in_group(WORKERS, (route for part in parts for route in part.routes()))
