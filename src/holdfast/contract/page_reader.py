"""Reads a worker.md page, as Markdown or as text from the web site, as a Contract, or makes a list of all its problems.

`read` raises no error, whatever the text; `contract_of` raises ContractInvalid if the page has errors. The order of reading is: the parts
of the page, the spec, the two schemas, the constraints, the failure modes, the signals.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.contract.bounds import Bounds, bounds_of
from holdfast.contract.jsonblocks import JsonBlock, read_json
from holdfast.contract.notes import PageNotes, few_guesses, meant, shown
from holdfast.contract.page import (
    CONSTRAINTS,
    FAILURES,
    INPUT_SCHEMA,
    OUTPUT_SCHEMA,
    PIPELINE_SPEC,
    SIGNALS,
    SPEC,
    Page,
    defines_agent,
    parted,
)
from holdfast.contract.prose import deployed, log_fields, names
from holdfast.contract.refusals import ContractInvalid
from holdfast.contract.schemas import SpecComparison, defs_of, derived, examined, fields_of
from holdfast.contract.spec import Given, Spec, read_spec
from holdfast.contract.terms import DEFAULT_TIMEOUT_SECONDS, Contract, Field, PageReading
from holdfast.contract.words import OTHER_TYPES, TYPES, type_of

MAX_PAGE_BYTES = 256 * 1024
MAX_PAGE_LINES = 20_000
_WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # the worker id is also the name of a durable function
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_FIELD = re.compile(r"([\"'`]?)([A-Za-z_$][\w.$-]*)\1[ \t]*+(\([ \t]*+optional[ \t]*+\)[ \t]*+)?:[ \t]*+(.+)", re.I)


def read(page: str | bytes, *, tools: Collection[str] = ()) -> PageReading:
    """Read a worker.md, as Markdown or as text from the web site. The result has the contract, unless the page has errors, and the
    problems (errors and warnings). `tools` are the names of known tools that are not built in."""
    notes = PageNotes()
    data = page if isinstance(page, bytes) else page.encode(errors="surrogatepass")
    if len(data) > MAX_PAGE_BYTES:
        notes.error("page_too_large", "", 1, f"The page is larger than {MAX_PAGE_BYTES} bytes. A worker.md is a few kilobytes of text.")
        return PageReading(None, notes.problems())
    if data.count(b"\n") + data.count(b"\r") > MAX_PAGE_LINES:
        notes.error("page_too_large", "", 1, f"The page has more than {MAX_PAGE_LINES} lines. A worker.md is a few kilobytes of text.")
        return PageReading(None, notes.problems())
    text = text_of(data, notes)
    with few_guesses():
        return _PageReader(parted(text, notes), tools, notes, is_agent=defines_agent(text)).read(hashlib.sha256(data).hexdigest())


def read_parts(page: Page, notes: PageNotes, sha256: str) -> PageReading:
    """Read a page that was already split into its parts. The problems of the result are all problems in `notes`, also earlier ones.
    `sha256` is the hash of the page, for the contract."""
    return _PageReader(page, (), notes).read(sha256)


def contract_of(page: str | bytes, *, name: str = "worker.md") -> Contract:
    """The contract of a page. Raises `ContractInvalid`, with all problems, if the page has an error. `name` is the page's name in the
    message."""
    reading = read(page)
    if reading.contract is None:
        told = "\n".join(f"  {problem}" for problem in reading.errors)
        raise ContractInvalid(f"{name} is not a contract:\n{told}", reading.problems)
    return reading.contract


def text_of(data: bytes, notes: PageNotes) -> str:
    """The page as text. Bytes that are not UTF-8, and NUL characters, are replaced, so that the rest can be read. One error is noted for
    all such bytes, and one for all NUL characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        notes.error("not_text", "", line, f"The page is not UTF-8 text (byte {error.start}). Save it as UTF-8.")
        text = data.decode("utf-8-sig", errors="replace")
    if "\0" in text:
        notes.error("not_text", "", text.count("\n", 0, text.index("\0")) + 1, "The page contains a NUL character. Remove it.")
        text = text.replace("\0", "\ufffd")
    return text


class _Side(NamedTuple):
    """One side of a contract: inputs or outputs. `block` is the JSON of the schema; None if the schema is not on the page or not valid."""

    fields: tuple[Field, ...]
    schema: dict[str, Any] | None
    block: JsonBlock | None


class _PageReader:
    def __init__(self, page: Page, tools: Collection[str], notes: PageNotes, *, is_agent: bool = False) -> None:
        self._page = page
        self._tools = tools
        self._notes = notes
        section = page.section(SPEC)
        if section is None:
            self._without_spec(is_agent)
        self._spec = read_spec(section, notes) if section else Spec(1, {}, {}, {"constraints": {}, "retries": {}, "observability": {}}, {})
        self._has_spec = section is not None
        if section and page.last == SPEC and not any(fence.closed for fence in section.fences):
            told = (
                "The page ends inside the spec. Is it cut off? If this is all, put the spec into a block: ```yaml before it, ``` after it."
            )
            notes.error("page_cut_off", SPEC, section.line, told)

    def _without_spec(self, is_agent: bool) -> None:
        told = f"There is no section `{SPEC}`. Write it, with worker_id, version, purpose, inputs, outputs and constraints."
        if (pipeline := self._page.section(PIPELINE_SPEC)) is not None:
            told = (
                f"The page has a `{PIPELINE_SPEC}`, so it is a pipeline of its own: give the page itself to `holdfast run` and `serve`. "
                f"For the contract of a Python file, write a `{SPEC}`."
            )
            self._notes.error("section_missing", SPEC, pipeline.line, told)
        elif is_agent:
            told = (
                "The page is the definition of a coding agent: its front matter has a name and a description. Such an agent has no "
                f"contract, so it cannot run here. To make a worker of it, write a section `{SPEC}`, the two schemas and the constraints."
            )
            self._notes.error("agent_definition", "", 1, told)
        else:
            self._notes.error("section_missing", SPEC, 1, told)

    def read(self, sha256: str) -> PageReading:
        worker_id, version = self._id(), self._version()
        inputs = self._side("inputs", INPUT_SCHEMA)
        outputs = self._side("outputs", OUTPUT_SCHEMA)
        bounds = self._bounds()
        errors = deployed(self._page.section(FAILURES), self._notes)
        defs = self._defs(inputs, outputs)
        fields = self._log_fields()
        purpose = self._spec.texts.get("purpose")
        if self._has_spec and (purpose is None or not purpose.value):
            self._notes.warning(
                "purpose_missing", SPEC, self._spec.line, "There is no `purpose`. Say in one sentence what the worker is for."
            )
        if bounds.schedule is not None and inputs.schema is not None and inputs.schema.get("required"):
            told = "A `schedule` starts the worker without inputs, but some of its inputs are required. Make them optional, "
            self._notes.error(
                "schedule_needs_inputs", SPEC, self._spec.line, f"{told}or declare the schedule with its inputs in holdfast.toml."
            )
        if self._notes.failed or inputs.schema is None or outputs.schema is None:
            return PageReading(None, self._notes.problems())
        contract = Contract(
            worker_id=worker_id,
            version=version,
            title=self._page.title,
            problem=self._page.problem,
            purpose=purpose.value if purpose else "",
            inputs=inputs.fields,
            outputs=outputs.fields,
            input_schema=inputs.schema,
            output_schema=outputs.schema,
            defs=defs,
            limits=bounds.limits,
            egress=bounds.egress,
            approvals_required=bounds.approvals_required,
            retries=bounds.retries,
            rate_limit=bounds.rate_limit,
            schedule=bounds.schedule,
            errors=errors,
            sha256=sha256,
        )
        return PageReading(msgspec.structs.replace(contract, log_fields=fields) if fields else contract, self._notes.problems())

    def _bounds(self) -> Bounds:
        section = self._page.section(CONSTRAINTS)
        bounds = bounds_of(self._spec.groups, self._json(CONSTRAINTS), self._tools, self._notes)
        if not self._has_spec:
            return bounds
        if section is None:
            told = f"There is no section `{CONSTRAINTS}`, so only the constraints in the spec apply. Write the section."
            self._notes.warning("section_missing", CONSTRAINTS, self._spec.line, told)
        if not bounds.has_timeout:
            told = f"There is no `timeout_seconds`, so an attempt gets {DEFAULT_TIMEOUT_SECONDS} seconds. Say how long it may take."
            self._notes.warning("timeout_missing", CONSTRAINTS, section.line if section else self._spec.line, told)
        return bounds

    def _id(self) -> str:
        return self._checked(
            "worker_id", _WORKER_ID, "Use up to 64 letters, digits, - and _, first a letter or digit: `web-scrape-worker`."
        )

    def _version(self) -> str:
        return self._checked("version", _VERSION, "Use up to 64 letters, digits and . - _ +, first a letter or digit: `1.0`.")

    def _checked(self, key: str, pattern: re.Pattern[str], rule: str) -> str:
        given = self._spec.texts.get(key)
        if given is None or not given.value:
            if self._has_spec:
                line = given.line if given else self._spec.line
                self._notes.error("field_missing", SPEC, line, f"There is no `{key}`. Write `{key}: …`. {rule}")
            return ""
        if not pattern.fullmatch(given.value):
            self._notes.error("bad_value", SPEC, given.line, f"`{key}` is `{shown(given.value)}`. {rule}")
        return str(given.value)

    def _json(self, name: str) -> JsonBlock | None:
        section = self._page.section(name)
        return read_json(section, self._notes) if section else None

    def _side(self, key: str, name: str) -> _Side:
        """The fields (from the spec) and the schema of one side. If the page has both, they are compared. If it has only one, the other is
        made from it. The schema in the result is None if the page has one that is not valid, or if the page has neither."""
        given = self._spec.fields.get(key)
        block = self._json(name)
        schema = examined(block, name, self._notes) if block else None
        fields, lines = self._fields(key, given or (), has_schema=self._page.section(name) is not None)
        if self._page.section(name) is None:
            return self._without_schema(key, name, given, fields)
        if schema is None or block is None:
            return _Side(fields, None, None)
        if given is None:
            if self._has_spec:
                told = f"There is no `{key}` in the spec; those of the {name.lower()} are used. List them in the spec: `- name: type`."
                self._notes.warning("field_missing", SPEC, self._spec.line, told)
            return _Side(fields_of(schema), schema, block)
        listed = "required" in schema or key == "inputs"
        SpecComparison(block, name, lines, self._spec.lines.get(key, self._spec.line), self._notes).run(fields, required_counts=listed)
        if not listed and (required := [field.name for field in fields if not field.optional]):
            schema = {**schema, "required": required}  # only the spec line says that an output is optional
        return _Side(fields, schema, block)

    def _without_schema(self, key: str, name: str, given: Sequence[Given] | None, fields: tuple[Field, ...]) -> _Side:
        if given is None:
            if self._has_spec:
                told = f"There is neither a section `{name}` nor `{key}` in the spec. Write both."
                self._notes.error("section_missing", name, self._spec.line, told)
            return _Side(fields, None, None)
        told = f"There is no section `{name}`, so the schema is made from `{key}` in the spec. Write the section: a schema can say more."
        self._notes.warning("schema_derived", name, self._spec.lines.get(key, self._spec.line), told)
        return _Side(fields, derived(fields, closed=key == "inputs"), None)

    def _fields(self, key: str, given: Sequence[Given], *, has_schema: bool) -> tuple[tuple[Field, ...], dict[str, int]]:
        fields: list[Field] = []
        lines: dict[str, int] = {}
        for one in given:
            hit = _FIELD.fullmatch(str(one.value))
            if hit is None:
                told = f"`{shown(one.value)}` names no field with a type. Write `- name: type`, for example `- url: string (optional)`."
                self._notes.error("spec_line", SPEC, one.line, told)
                continue
            name = hit.group(2)
            if name in lines:
                told = f"`{shown(name)}` is listed twice in `{key}`; the first is on line {lines[name]}. Keep one."
                self._notes.error("duplicate_field", SPEC, one.line, told)
                continue
            lines[name] = one.line
            fields.append(self._field(name, hit.group(3) is not None, hit.group(4), one.line, has_schema=has_schema))
        return tuple(fields), lines

    def _field(self, name: str, optional: bool, text: str, line: int, *, has_schema: bool) -> Field:
        typed = type_of(text)
        optional = optional or typed.optional
        if typed.type == "enum":
            if not typed.enum:
                told = f"`{shown(text)}` lists no values. Write `enum(a, b)`, and close the bracket."
                self._notes.error("unknown_type", SPEC, line, told)
            return Field(name, "enum", optional, typed.enum)
        if typed.type in TYPES:
            return Field(name, typed.type, optional)
        near = OTHER_TYPES.get(typed.type.lower())
        hint = f" Did you mean `{near}`?" if near else meant(typed.type, TYPES)
        told = f"`{shown(typed.type)}` is not a valid type.{hint} Types are {', '.join(TYPES)} and enum(a, b)."
        if has_schema:
            self._notes.warning("unknown_type", SPEC, line, f"{told} The type in the schema is used.")
        else:
            self._notes.error("unknown_type", SPEC, line, told)
        return Field(name, "any", optional)

    def _defs(self, inputs: _Side, outputs: _Side) -> dict[str, Any]:
        sides: Mapping[str, _Side] = {INPUT_SCHEMA: inputs, OUTPUT_SCHEMA: outputs}
        schemas = {name: side.schema for name, side in sides.items() if side.schema is not None}
        return defs_of(schemas, {name: side.block for name, side in sides.items() if side.block is not None}, self._notes)

    def _log_fields(self) -> tuple[str, ...]:
        given = self._spec.groups["observability"].get("log_fields")
        if given is None:
            return log_fields(self._page.section(SIGNALS))
        if given.value is None:
            return names([item.value for item in given.items])
        if not isinstance(given.value, list):
            self._notes.error("bad_value", SPEC, given.line, f"`log_fields` is `{shown(given.value)}`. Write a list of names, [a, b].")
            return ()
        return names(given.value)
