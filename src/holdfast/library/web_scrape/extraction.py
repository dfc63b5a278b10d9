"""Extraction: from a page and an extraction spec come data, warnings and the names of missing fields. The extraction runs in the sandbox.

    extract(html, {"fields": {"title": "h1", "price": {"css": ".price", "type": "price", "required": True}}}, url)
    → Extraction(data={…}, warnings=[{"code": "missing_field", "field": "price", "message": "…"}], missing=["price"])

A page never makes the extraction fail. A field that the page does not have gets its default; without a default it is null, or an empty list
if the field is a list. If such a field is required, its name is in `missing`, also if it has a default. But a field of the type `exists` is
then false, and never in `missing`. Only a spec that cannot be used raises SpecInvalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, LexborNode

from holdfast.library.web_scrape.specs import SpecField, SpecInvalid, fields_of
from holdfast.library.web_scrape.values import LONGEST, PageContext, Unfit, made
from holdfast.library.web_scrape.xpaths import PathTooCostly
from holdfast.workers.tools.parse_html import attribute, base_of, json_ld_of, meta_of, parsed, readable

__all__ = ["Extraction", "SpecInvalid", "extract", "extract_fields"]

MAX_ITEMS: Final = 1000
MAX_WARNINGS: Final = 200
_MOST_RECORDS: Final = 20_000

ExtractionScope = LexborNode | Mapping[str, Any] | list[Any] | str | int | float | bool | None


class Extraction(Struct, frozen=True):
    """The result of an extraction."""

    data: dict[str, Any]
    warnings: list[dict[str, str]]
    missing: list[str]
    """The required fields that were not found, or whose value does not fit the type."""


def extract(html: str, extraction_spec: Mapping[str, Any], url: str = "") -> Extraction:
    """Find the fields of a spec in a page. `url` is the page's address, for relative links. Raises SpecInvalid if the spec cannot be
    used."""
    return extract_fields(html, fields_of(extraction_spec), url)


def extract_fields(html: str, fields: tuple[SpecField, ...], url: str = "") -> Extraction:
    """Find these fields in a page. `url` is the page's address, for relative links."""
    page = _Page(html, url)
    data = page.record(fields, page.root, "")
    return Extraction(data, page.warnings, page.missing)


class _Page:
    def __init__(self, html: str, url: str) -> None:
        self._html = html
        self._tree = parsed(html)
        self.root: LexborNode | None = self._tree.root
        language = (attribute(self.root, "lang") or "") if self.root is not None else ""
        self._setting = PageContext(base_of(self._tree, url), language.strip().lower()[:20])
        self._meta: dict[str, str] | None = None
        self._json_ld: list[Any] | None = None
        self._text: str | None = None
        self._records = 0
        self.warnings: list[dict[str, str]] = []
        self.missing: list[str] = []

    def record(self, fields: tuple[SpecField, ...], scope: ExtractionScope, where: str) -> dict[str, Any]:
        """The values of all fields of one record, by name. `scope` is the place of the record on the page; `where` is its name for
        warnings."""
        self._records += 1
        return {field.name: self._value(field, scope, f"{where}.{field.name}" if where else field.name) for field in fields}

    def _value(self, field: SpecField, scope: ExtractionScope, where: str) -> Any:
        found = self._alternatives(field, scope, where)
        if field.type == "exists" and not field.fields:
            return bool(found)
        if field.many:
            return self._items(field, found, where)
        for candidate in found:
            ready, value = self._made(field, candidate, where)
            if ready and not (value == "" and field.type in ("string", "text", "html")):
                return value
        return self._absent(field, where, f"{len(found)} found, none fits its type" if found else "its source finds nothing on the page")

    def _items(self, field: SpecField, found: list[ExtractionScope], where: str) -> Any:
        values: list[Any] = []
        if len(found) > MAX_ITEMS:
            self._warn("truncated", where, f"has {len(found)} items; the first {MAX_ITEMS} are kept")
        for at, candidate in enumerate(found[:MAX_ITEMS]):
            ready, value = self._made(field, candidate, f"{where}[{at}]")
            if ready:
                values.append(value)
        if not values:
            return self._absent(field, where, "the list is empty", [])
        return values

    def _absent(self, field: SpecField, where: str, reason: str, empty: Any = None) -> Any:
        if field.required:
            self.missing.append(where)
        if field.required or field.default is None:
            self._warn("missing_field" if field.required else "missing_optional_field", where, reason)
        return empty if field.default is None else field.default

    def _made(self, field: SpecField, candidate: ExtractionScope, where: str) -> tuple[bool, Any]:
        if field.fields:
            if self._records >= _MOST_RECORDS:
                self._warn("truncated", where, f"the page gave more than {_MOST_RECORDS} records")
                return False, None
            return True, self.record(field.fields, candidate, where)
        raw = self._raw(field, candidate)
        if raw is None:
            return False, None
        try:
            return True, made(raw, field, self._setting)
        except Unfit as unfit:
            self._warn(unfit.code, where, str(unfit))
            return False, None

    def _warn(self, code: str, where: str, message: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append({"code": code, "field": where, "message": message})
        elif len(self.warnings) == MAX_WARNINGS:
            self.warnings.append({"code": "more_warnings", "field": "", "message": f"only the first {MAX_WARNINGS} warnings are kept"})

    # --- finding

    def _alternatives(self, field: SpecField, scope: ExtractionScope, where: str) -> list[ExtractionScope]:
        """What the source of a field finds at `scope`; with a regex, the matches in that. If the field has several alternatives (`any`),
        the values of the first alternative that finds something; empty if none does. `where` is the name of the field for warnings."""
        for alternative in field.any:
            found = [self._raw(alternative, candidate) for candidate in self._alternatives(alternative, scope, where)]
            texts = [value for value in found if value not in (None, "")]
            if texts:
                return self._matched(field, texts) if field.regex is not None else texts
        if field.any:
            return []
        found_here = self._found(field, scope, where)
        return self._matched(field, [self._raw(field, place) for place in found_here]) if field.regex is not None else found_here

    def _found(self, field: SpecField, scope: ExtractionScope, where: str) -> list[ExtractionScope]:
        node = scope if isinstance(scope, LexborNode) else None
        if field.css is not None:
            return [] if node is None else [hit for hit in node.css(field.css) if hit.mem_id != node.mem_id or scope is self.root]
        if field.path is not None:
            try:
                return [] if node is None or self.root is None else list(field.path.find(self.root, node))
            except PathTooCostly:
                self._warn("too_costly", where, "the path would visit too many nodes of this page")
                return []
        if field.meta is not None:
            return [value for name, value in self._metadata().items() if name == field.meta]
        if field.json_ld is not None:
            return list(_typed(self._linked(), field.json_ld))
        if field.json is not None:
            return [] if node is not None else list(_followed([scope], field.json))
        if field.regex is not None and scope is self.root:
            return [self._html[: LONGEST * 50] if field.within == "html" else self._readable()]
        return [scope]

    def _matched(self, field: SpecField, texts: list[Any]) -> list[ExtractionScope]:
        found: list[ExtractionScope] = []
        for text in texts:
            if text is None:
                continue
            searched = (text if isinstance(text, str) else str(text)).encode(errors="replace").decode()  # RE2 takes no lone surrogate
            for hit in field.regex.finditer(searched):
                value = hit.group(field.group)
                if value is not None:
                    found.append(value)
                if len(found) > MAX_ITEMS or not field.many:
                    break
        return found

    def _raw(self, field: SpecField, candidate: ExtractionScope) -> Any:
        """What a field reads at a place that was found: an attribute, a text, HTML, or a JSON value; None if the attribute is missing."""
        if not isinstance(candidate, LexborNode):
            return candidate
        take = field.path.take if field.path is not None else ""
        name = field.attribute or (take[1:] if take.startswith("@") else None)
        if name is not None:
            return attribute(candidate, name)
        if field.type == "html":
            return candidate.html
        if field.type == "text":
            return candidate.text(deep=True, separator="\n")
        return candidate.text(deep=take != "text()")

    def _metadata(self) -> dict[str, str]:
        if self._meta is None:
            self._meta = meta_of(self._tree)
        return self._meta

    def _linked(self) -> list[Any]:
        if self._json_ld is None:
            self._json_ld = json_ld_of(self._tree)
        return self._json_ld

    def _readable(self) -> str:
        if self._text is None:
            self._text = readable(LexborHTMLParser(self._tree.html or ""))  # read from a copy, because reading the text removes tags
        return self._text


def _typed(objects: list[Any], path: tuple[str, ...]) -> Iterator[ExtractionScope]:
    """The values at a path such as `Product.offers.price`: of all objects with the type `Product` (`*`: with any type), the values at
    `offers.price`."""
    kind, rest = path[0], path[1:]
    of_kind = [item for item in objects if kind == "*" or kind in _types(item)]
    return _followed(of_kind, rest)


def _types(item: Mapping[str, Any]) -> set[str]:
    given = item.get("@type")
    names = given if isinstance(given, list) else [given]
    return {str(name).rpartition("/")[2] for name in names if name}


def _followed(values: list[Any], path: tuple[str, ...]) -> Iterator[ExtractionScope]:
    for part in path:
        if part.startswith("[") and part.endswith("]"):
            values = _indexed(values, part[1:-1])
        else:
            values = [item[part] for item in _flat(values) if isinstance(item, Mapping) and part in item]
    yield from (value for value in _flat(values) if value is not None)


def _indexed(values: list[Any], at: str) -> list[Any]:
    if not at.isdecimal():
        return _flat(values)
    return [value[int(at[:6])] for value in values if isinstance(value, list) and int(at[:6]) < len(value)]


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list) else [value])]
