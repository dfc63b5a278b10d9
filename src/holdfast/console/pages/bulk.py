"""Actions on all runs that match a search in the list of runs. The first page counts the runs; the person gives a reason and types the
number of runs. The next page shows the progress."""

from __future__ import annotations

import re
from typing import Final

from holdfast.console.bulk_jobs import KEPT, MOST_FAILURES, BulkJob, BulkJobs
from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages
from holdfast.console.query import query_from
from holdfast.console.rendering import address
from holdfast.console.site import Site, redirect
from holdfast.console.sources.bulk import EXAMPLES, MOST, SENTENCES, BulkPlan, BulkRun, Verb
from holdfast.console.tables import (
    Age,
    Bar,
    Button,
    Cell,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Number,
    StatusMark,
    Table,
    TextCell,
)
from holdfast.model.errors import ExecutionNotFound, InvalidParameter
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LONGEST_REASON: Final = 150
_STATES: Final = {"running": "running", "cancelled": "stopped", "done": "ok"}
_MEMORY = f"Jobs are in the memory of this console: when the console ends, its jobs end too. The console keeps the newest {KEPT} jobs."
_COUNT: Final = re.compile(r"[0-9]{1,9}")
_JOB: Final = "runs/-/bulk/([^/]+)"


class BulkPages(TablePages):
    """The pages of actions on many runs."""

    def __init__(self, site: Site, jobs: BulkJobs) -> None:
        super().__init__(site)
        self._jobs = jobs

    def routes(self) -> list[Route]:
        site = self._site
        return [
            site.page("runs/-/bulk", self.ask, "AskBulk", needs=Needs.OPERATE),
            site.page(_JOB, self.show, "ShowBulk", needs=Needs.OPERATE),
            *site.action("runs/-/bulk", self.start, "StartBulk", needs=Needs.OPERATE),
            *site.action(f"{_JOB}/cancel", self.cancel, "CancelBulk", needs=Needs.OPERATE),
        ]

    def ask(self, request: PageRequest) -> Reply:
        """The page that counts the runs on which the action would act and shows the newest ten of them, with the form that starts the
        action."""
        return self._ask(request, request.text("q"), request.text("verb"))

    def start(self, request: PageRequest) -> Reply:
        """Start the job on the runs that match now, without runs newer than the newest run that the form counted. Starts nothing and shows
        the form again with what is wrong, if no run matches, if more runs match than the form counted, if the person typed another number
        than the form counted, or if the reason or the search is not valid. Raises InvalidParameter if there is no such action, or if too
        many jobs run."""
        text, verb = request.field("q"), _verb(request.field("verb"))
        reason, confirm = request.field("reason"), request.field("confirm")
        if not reason or len(reason) > _LONGEST_REASON:
            return self._ask(request, text, verb.value, f"Give a reason of 1 to {_LONGEST_REASON} characters: the audit log keeps it.")
        source = request.source.bulk
        try:
            plan = source.plan(query_from(text), verb, request.field("newest"))
        except InvalidParameter as wrong:
            return self._ask(request, text, verb.value, str(wrong))
        if not plan.items:
            return self._ask(request, text, verb.value, "Nothing matches any more.")
        if confirm != request.field("count") or not _COUNT.fullmatch(confirm) or len(plan.items) > int(confirm):
            return self._ask(request, text, verb.value, "The number that you typed is not the number of runs.")
        job = self._jobs.start(source, verb, plan.items, question=text, reason=reason)
        return redirect(request, f"runs/-/bulk/{job.name}")

    def show(self, request: PageRequest) -> Reply:
        """The page with the progress of a job: how many runs are done, failed and left, and the reasons of the first failures."""
        job = self._found(request)
        above = (("Runs", "runs"), ("Act on all matches", address("runs/-/bulk", q=job.question)))
        stop = Button(label="Cancel", to=f"runs/-/bulk/{job.name}/cancel", needs="operate", style="small danger")
        page = ConsolePage(
            title=f"{job.verb.value.capitalize()} {len(job.items):,} {_runs(len(job.items))}",
            path=f"runs/-/bulk/{job.name}",
            above=above,
            lead=_MEMORY,
            sections=(_progress(job, stop), _failures(job)),
        )
        return self._tables(request, page)

    def cancel(self, request: PageRequest) -> Reply:
        """Cancel the job. The job still finishes the run on which it acts now, and acts on no further run."""
        job = self._found(request)
        job.cancelled.set()
        return redirect(request, f"runs/-/bulk/{job.name}")

    def _found(self, request: PageRequest) -> BulkJob:
        job = self._jobs.find(request.label, request.source.bulk.tenant)
        if job is None:
            raise ExecutionNotFound(f"There is no such job. {_MEMORY}")
        return job

    def _ask(self, request: PageRequest, text: str, chosen: str, problem: str = "") -> Reply:
        verb = _verb(chosen) if chosen else Verb.STOP
        plan = BulkPlan(items=(), bounded=False)
        try:
            query, bulk = query_from(text), request.source.bulk
            verb = verb if chosen else bulk.likely(query)
            plan = bulk.plan(query, verb)
        except InvalidParameter as wrong:
            problem = problem or str(wrong)
        here = address("runs", q=text)
        jobs = self._jobs.all(request.source.bulk.tenant)
        page = ConsolePage(
            title="Act on all matches",
            path=address("runs/-/bulk", q=text, verb=verb.value),
            above=(("Runs", here),),
            lead=f"Question: {text or 'everything'}",
            tabs=tuple((one.value.capitalize(), address("runs/-/bulk", q=text, verb=one.value), one is verb) for one in Verb),
            problem=problem,
            sections=(_matches(plan, verb, text, here, request.field("reason")), *((_all(jobs),) if jobs else ())),
        )
        return self._tables(request, page)


def _verb(text: str) -> Verb:
    if text not in set(Verb):
        raise InvalidParameter(f"{text!r:.50} is not an action: there are {', '.join(Verb)}.")
    return Verb(text)


def _runs(count: int) -> str:
    return "run" if count == 1 else "runs"


def _matches(plan: BulkPlan, verb: Verb, text: str, back: str, reason: str) -> ConsoleSection:
    count = len(plan.items)
    cut = f"The first {EXAMPLES} of {count:,}, newest first." if count > EXAMPLES else ""
    table = Table(
        columns=(Column("Status"), Column("Name"), Column("Function"), Column("Started")),
        rows=tuple(map(_row, plan.items[:EXAMPLES])),
        empty=f"There is nothing to {verb.value}.",
        hint="Change the question in the list, or choose another action.",
        cut=cut,
        narrow=True,
    )
    bounded = f" There may be more: an action acts on at most {MOST:,}." if plan.bounded else ""
    hidden = (("q", text), ("verb", verb.value), ("newest", plan.newest), ("count", str(count)))
    fields = (
        *(ConsoleField(name=name, label="", value=value, type="hidden") for name, value in hidden),
        ConsoleField(name="reason", label="Reason", value=reason, required=True, hint="The audit log keeps it for each run."),
        ConsoleField(name="confirm", label=f"Type {count} to confirm", required=True),
    )
    label = f"{verb.value.capitalize()} {count:,} {_runs(count)}"
    form = ConsoleForm(to="runs/-/bulk", fields=fields, submit=label, needs="operate", back=back)
    note = f"{SENTENCES[verb]}{bounded} It does not act on runs that begin from now on."
    return ConsoleSection(
        id="matches", title=f"{count:,} {_runs(count)} to {verb.value}", note=note, table=table, form=form if count else None
    )


def _row(item: BulkRun) -> tuple[Cell, ...]:
    return (
        StatusMark(item.status.value),
        LinkCell(item.name, f"runs/{item.id}", mono=True, title=item.id),
        TextCell(item.function),
        Age(item.started_at),
    )


def _progress(job: BulkJob, stop: Button) -> ConsoleSection:
    whole = max(1, len(job.items))
    facts: tuple[tuple[str, Cell], ...] = (
        ("State", StatusMark(_STATES[job.state], job.state)),
        ("Progress", Bar(job.done / whole, job.failed / whole, f"{job.done:,} done, {job.failed:,} failed, of {len(job.items):,}")),
        ("Done", Number(job.done, quiet=False)),
        ("Failed", Number(job.failed, quiet=False)),
        ("Left", Number(job.left, quiet=False)),
        ("Began", Age(job.began_at)),
        ("Reason", TextCell(job.reason)),
        ("By", TextCell(job.source.owner)),
        ("Question", TextCell(job.question or "everything", mono=True)),
    )
    going_on = job.ended_at is None
    return ConsoleSection(id="progress", title="Progress", facts=facts, buttons=(stop,) if going_on else (), every=1 if going_on else 0)


def _failures(job: BulkJob) -> ConsoleSection:
    table = Table(
        columns=(Column("Name"), Column("Function"), Column("Why", fill=True)),
        rows=tuple(
            (
                LinkCell(one.item.name, f"runs/{one.item.id}", mono=True, title=one.item.id),
                TextCell(one.item.function),
                TextCell(one.reason, wraps=True),
            )
            for one in job.failures
        ),
        empty="Nothing has failed.",
        cut=f"The first {MOST_FAILURES} of {job.failed:,} failures." if job.failed > MOST_FAILURES else "",
    )
    return ConsoleSection(id="failures", title="Not done", table=table, every=1 if job.ended_at is None else 0)


def _all(jobs: list[BulkJob]) -> ConsoleSection:
    columns = (
        Column("Job"),
        Column("State"),
        Column("Done", number=True),
        Column("Failed", number=True),
        Column("Left", number=True),
        Column("Began"),
        Column("By"),
    )
    rows = tuple(
        (
            LinkCell(f"{job.verb.value} {len(job.items):,}", f"runs/-/bulk/{job.name}"),
            StatusMark(_STATES[job.state], job.state),
            Number(job.done),
            Number(job.failed),
            Number(job.left),
            Age(job.began_at),
            TextCell(job.source.owner),
        )
        for job in jobs
    )
    return ConsoleSection(id="jobs", title="Earlier actions", note=_MEMORY, table=Table(columns=columns, rows=rows))
