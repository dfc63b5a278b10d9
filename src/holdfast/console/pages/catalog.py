"""Workers, pipelines and functions: one list of all, and for each a page with a form that starts it."""

from __future__ import annotations

from typing import Any

import msgspec
from markupsafe import Markup

from holdfast.console import schema_form
from holdfast.console.page_errors import error_page
from holdfast.console.page_request import PageRequest
from holdfast.console.rendering import address
from holdfast.console.schema_form import SchemaForm, form_of, rows_of
from holdfast.console.site import PageGroup, redirect
from holdfast.console.sources.catalog import CatalogDetails
from holdfast.console.sources.gate_verdicts import DECISIONS, VERDICTS
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.model.errors import FunctionNotFound, Rejected
from holdfast.model.operations import Kind
from holdfast.pipelines.graph.contract import time_limit
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_NAME = "workers/([^/]+)"
_KINDS = {"worker": Kind.WORKER, "pipeline": Kind.PIPELINE, "function": Kind.FUNCTION}
_MOST_PAGES = 10_000


class CatalogPages(PageGroup):
    """The pages of the catalog."""

    def routes(self) -> list[Route]:
        site = self._site
        return [
            site.page("workers", self.list, "ListWorkersPage"),
            site.page(_NAME, self.show, "ShowWorkerPage"),
            site.page(f"{_NAME}/recent", self.recent, "ShowWorkerRecent"),
            site.page(f"{_NAME}/gates", self.gates, "ShowWorkerGates"),
            *site.action(f"{_NAME}/start", self.start, "StartFromConsole", needs=Needs.OPERATE),
        ]

    def list(self, request: PageRequest) -> Reply:
        """The list of workers, pipelines and functions, with a tab for each kind."""
        kind, text = _KINDS.get(request.text("kind")), request.text("q")[:200].strip()
        asked = request.text("page")
        number = min(int(asked), _MOST_PAGES) if asked.isdecimal() and len(asked) < 6 and int(asked) else 1
        page = request.source.catalog.page(kind, text, number)
        return self._render(request, "catalog.html", page=page, kind="" if kind is None else kind.value, text=text)

    def show(self, request: PageRequest) -> Reply:
        """The page of one worker, pipeline or function; an error page (404) if there is none of this name."""
        try:
            subject = request.source.catalog.find(request.label)
        except FunctionNotFound as missing:
            return error_page(request.http, 404, missing.code, str(missing))
        return self._shown(request, subject)

    def recent(self, request: PageRequest) -> Reply:
        """Only the newest runs and the figures of a worker, pipeline or function. An open page asks for this part again."""
        return self._render(request, "catalog_recent.html", name=request.label, recent=request.source.catalog.recent(request.label))

    def gates(self, request: PageRequest) -> Reply:
        """The verdicts of a pipeline's gates, beside the decisions of people. A script asks for this part after the page is shown, because
        reading the verdicts takes longer."""
        subject = request.source.catalog.find(request.label)
        gates, looked = request.source.catalog.gates(subject)
        page = "catalog_gates.html" if request.is_fragment else "catalog_gates_page.html"
        return self._render(request, page, name=request.label, gates=gates, looked=looked, verdicts=VERDICTS, decisions=DECISIONS)

    def start(self, request: PageRequest) -> Reply:
        """Start a run of a worker or a pipeline, or an execution of a function, with the form that a person filled in, and show the page of
        the run. If the form has the key (for a function: the name) and the inputs of an earlier run, nothing is started, and the page is
        that of the earlier run, unless that is a run that ended with `retryable_error` or `invalid_request`. If the request is refused, the
        page is shown again with what is wrong; a problem with one input is shown at its field. If this server does not serve the worker or
        the pipeline, the page says so in place of the form. Raises FunctionNotFound if there is none of this name."""
        subject = request.source.catalog.find(request.label)
        if subject.kind is Kind.FUNCTION:
            return self._start_function(request, subject)
        contract = _of_version(subject, request.field("version"))
        if contract is None:
            return self._shown(request, subject, status=422)
        form = form_of(contract.input_schema)
        if request.field("as") == "json":
            form = SchemaForm()
        form, inputs = schema_form.filled(form, request.form)
        if inputs is None:
            return self._shown(request, subject, form, 422)
        try:
            run = request.source.starts.run(subject.name, contract.version, inputs, request.field("key") or None)
        except InvalidRequest as refused:
            return self._shown(request, subject, schema_form.with_problems(form, refused.details, str(refused)), 422)
        return redirect(request, f"runs/{run}")

    def _start_function(self, request: PageRequest, subject: CatalogDetails) -> Reply:
        text = request.form.get(schema_form.WHOLE, "").strip()
        form = SchemaForm(whole=text)
        try:
            schema_form.loads(text or "null")
            run = request.source.starts.function(subject.name, text or "null", request.field("name") or None)
        except (ValueError, Rejected) as wrong:
            told = f"This is not JSON: {wrong}" if isinstance(wrong, ValueError) else str(wrong)
            return self._shown(request, subject, msgspec.structs.replace(form, problem=told), 422)
        return redirect(request, f"runs/{run}")

    def _shown(self, request: PageRequest, subject: CatalogDetails, form: SchemaForm | None = None, status: int = 200) -> Reply:
        contract = _of_version(subject, request.field("version") or request.text("version"))
        return self._render(
            request,
            "catalog_one.html",
            status,
            subject=subject,
            name=subject.name,
            contract=contract,
            form=form or self._form(request, contract),
            sides=_sides(contract),
            run_seconds=None if contract is None else time_limit(contract.limits),
            drawing=None if subject.graph is None else Markup(request.source.catalog.drawing(subject.graph)),
            text=None if subject.graph is None else request.source.catalog.text(subject.graph),
            recent=request.source.catalog.recent(subject.name),
            why_not=request.source.starts.why_not(subject.name, subject.kind),
            as_json=request.text("as") == "json" or request.field("as") == "json",
            here=address(f"{request.root}workers/{subject.name}", version=request.text("version")),
        )

    @staticmethod
    def _form(request: PageRequest, contract: Contract | None) -> SchemaForm:
        if contract is None:
            return SchemaForm(whole="{}")
        if request.text("as") == "json":
            return SchemaForm(whole=_example(contract))
        return form_of(contract.input_schema)


def _of_version(subject: CatalogDetails, version: str) -> Contract | None:
    return next((one for one in subject.contracts if one.version == version), subject.contract)


def _sides(contract: Contract | None) -> list[tuple[str, Any, bool, dict[str, Any]]]:
    """The inputs and the outputs of a contract. For each: a title, the rows of a table, whether some rows are left out, and the schema.
    Empty if `contract` is None."""
    if contract is None:
        return []
    return [(title, *rows_of(schema), schema) for title, schema in (("Inputs", contract.input_schema), ("Outputs", contract.output_schema))]


def _example(contract: Contract) -> str:
    """An example of inputs, as JSON, made from the defaults and the examples in the schema."""
    form = form_of(contract.input_schema)
    _, inputs = schema_form.filled(form, {field.key: field.value or field.example for field in form.fields})
    return schema_form.dumps(inputs or {}) if form.fields else form.whole
