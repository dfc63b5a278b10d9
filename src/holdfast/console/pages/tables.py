"""All pages that are made of tables."""

from __future__ import annotations

from holdfast.console.bulk_jobs import BulkJobs
from holdfast.console.pages.audit import AuditPages
from holdfast.console.pages.bulk import BulkPages
from holdfast.console.pages.cost import CostPages
from holdfast.console.pages.keys import KeysPages
from holdfast.console.pages.queues import QueuesPages
from holdfast.console.pages.runners import RunnersPages
from holdfast.console.pages.schedules import SchedulesPages
from holdfast.console.pages.signals import SignalsPages
from holdfast.console.site import Site
from holdfast.web.routing import Route


class TablePages:
    """The pages of queues, schedules, cost, runners, signals, audit, keys, and actions on many runs."""

    def __init__(self, site: Site, jobs: BulkJobs) -> None:
        simple = (QueuesPages(site), SchedulesPages(site), CostPages(site), RunnersPages(site), SignalsPages(site), AuditPages(site))
        self._parts = (*simple, KeysPages(site), BulkPages(site, jobs))

    def routes(self) -> list[Route]:
        return [route for part in self._parts for route in part.routes()]
