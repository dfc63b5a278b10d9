"""Workers, pipelines and functions: one list of all, and for each a page with a form that starts it."""

from __future__ import annotations

from typing import Any

import msgspec
from markupsafe import Markup

from holdfast.console import schema_form
from holdfast.console.rendering import address
from holdfast.console.schema_form import Form, form_of, rows_of
from holdfast.console.site import Site, redirect
from holdfast.console.sources.catalog import Subject
from holdfast.console.sources.gate_verdicts import DECISIONS, VERDICTS
from holdfast.console.visit import Visit
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.model.errors import FunctionNotFound, Rejected
from holdfast.model.operations import Kind
from holdfast.web.page_errors import error_page
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_NAME = "workers/([^/]+)"
_KINDS = {"worker": Kind.WORKER, "pipeline": Kind.PIPELINE, "function": Kind.FUNCTION}
_MOST_PAGES = 10_000


class CatalogPages:
    """The pages of the catalog."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        site = self._site
        return [
            site.page("workers", self.list, "ListWorkersPage"),
            site.page(_NAME, self.show, "ShowWorkerPage"),
            site.page(f"{_NAME}/recent", self.recent, "ShowWorkerRecent"),
            site.page(f"{_NAME}/gates", self.gates, "ShowWorkerGates"),
            *site.action(f"{_NAME}/start", self.start, "StartFromConsole", needs=Needs.OPERATE),
        ]

    def list(self, visit: Visit) -> Reply:
        """The list, with a tab for each kind."""
        kind, text = _KINDS.get(visit.text("kind")), visit.text("q")[:200].strip()
        asked = visit.text("page")
        number = min(int(asked), _MOST_PAGES) if asked.isdecimal() and len(asked) < 6 and int(asked) else 1
        page = visit.source.catalog.page(kind, text, number)
        return self._site.rendering.page(visit, "catalog.html", page=page, kind="" if kind is None else kind.value, text=text)

    def show(self, visit: Visit) -> Reply:
        """The page of one worker, pipeline or function."""
        try:
            subject = visit.source.catalog.find(visit.label)
        except FunctionNotFound as missing:
            return error_page(visit.request, 404, missing.code, str(missing))
        return self._shown(visit, subject)

    def recent(self, visit: Visit) -> Reply:
        """Only the newest runs and the figures of a worker, pipeline or function. An open page asks for this part again."""
        return self._site.rendering.page(visit, "catalog_recent.html", name=visit.label, recent=visit.source.catalog.recent(visit.label))

    def gates(self, visit: Visit) -> Reply:
        """The verdicts of a pipeline's gates beside the decisions of people. A script asks for them after the page is shown, because they
        take longer to read."""
        subject = visit.source.catalog.find(visit.label)
        gates, looked = visit.source.catalog.gates(subject)
        page = "catalog_gates.html" if visit.is_fragment else "catalog_gates_page.html"
        return self._site.rendering.page(visit, page, name=visit.label, gates=gates, looked=looked, verdicts=VERDICTS, decisions=DECISIONS)

    def start(self, visit: Visit) -> Reply:
        """Start a run with the form that a person filled in. If the inputs do not fit the contract, the form is shown again, with each
        problem at its field."""
        subject = visit.source.catalog.find(visit.label)
        if subject.kind is Kind.FUNCTION:
            return self._start_function(visit, subject)
        contract = _of_version(subject, visit.field("version"))
        if contract is None:
            raise InvalidRequest(visit.source.starting.why_not(subject.name, subject.kind), error_code="worker_not_found")
        form = form_of(contract.input_schema)
        if visit.field("as") == "json":
            form = Form()
        form, inputs = schema_form.filled(form, visit.form)
        if inputs is None:
            return self._shown(visit, subject, form, 422)
        try:
            run = visit.source.starting.run(subject.name, contract.version, inputs, visit.field("key") or None)
        except InvalidRequest as refused:
            return self._shown(visit, subject, schema_form.with_problems(form, refused.details, str(refused)), 422)
        return redirect(visit, f"runs/{run}")

    def _start_function(self, visit: Visit, subject: Subject) -> Reply:
        text = visit.form.get(schema_form.WHOLE, "").strip()
        form = Form(whole=text)
        try:
            schema_form.loads(text or "null")
            run = visit.source.starting.function(subject.name, text or "null", visit.field("name") or None)
        except (ValueError, Rejected) as wrong:
            told = f"This is not JSON: {wrong}" if isinstance(wrong, ValueError) else str(wrong)
            return self._shown(visit, subject, msgspec.structs.replace(form, problem=told), 422)
        return redirect(visit, f"runs/{run}")

    def _shown(self, visit: Visit, subject: Subject, form: Form | None = None, status: int = 200) -> Reply:
        contract = _of_version(subject, visit.field("version") or visit.text("version"))
        return self._site.rendering.page(
            visit,
            "catalog_one.html",
            status,
            subject=subject,
            name=subject.name,
            contract=contract,
            form=form or self._form(visit, contract),
            sides=_sides(contract),
            drawing=None if subject.graph is None else Markup(visit.source.catalog.drawing(subject.graph)),
            text=None if subject.graph is None else visit.source.catalog.text(subject.graph),
            recent=visit.source.catalog.recent(subject.name),
            why_not=visit.source.starting.why_not(subject.name, subject.kind),
            as_json=visit.text("as") == "json" or visit.field("as") == "json",
            here=address(f"{visit.root}workers/{subject.name}", version=visit.text("version")),
        )

    @staticmethod
    def _form(visit: Visit, contract: Contract | None) -> Form:
        if contract is None:
            return Form(whole="{}")
        if visit.text("as") == "json":
            return Form(whole=_example(contract))
        return form_of(contract.input_schema)


def _of_version(subject: Subject, version: str) -> Contract | None:
    return next((one for one in subject.contracts if one.version == version), subject.contract)


def _sides(contract: Contract | None) -> list[tuple[str, Any, bool, dict[str, Any]]]:
    """The inputs and the outputs of a contract. For each: the rows of a table, whether rows are left out, and the schema itself."""
    if contract is None:
        return []
    return [(title, *rows_of(schema), schema) for title, schema in (("Inputs", contract.input_schema), ("Outputs", contract.output_schema))]


def _example(contract: Contract) -> str:
    """The inputs that the defaults and examples of the schema make, as JSON."""
    form = form_of(contract.input_schema)
    _, inputs = schema_form.filled(form, {field.key: field.value or field.example for field in form.fields})
    return schema_form.dumps(inputs or {}) if form.fields else form.whole
