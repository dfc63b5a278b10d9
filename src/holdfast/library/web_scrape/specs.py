"""Reads extraction specs: what must be found on a page. A spec is checked before any page is fetched. One error reports the problems of all
fields.

"title": "h1"                                                    (the text of what this CSS selector finds)
"price": {"css": ".price", "type": "price", "required": true}
"image": {"css": "img.main", "attribute": "src", "type": "url"}
"sku":   {"any": [{"json_ld": "Product.sku"}, {"meta": "product:sku"}, {"regex": "SKU: ([0-9]+)"}]}
"rows":  {"path": "//table[@id='t']//tr", "list": true, "fields": {"name": "td", "size": {"path": "./td[2]", "type": "number"}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import re2
from msgspec import Struct
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from holdfast.library.web_scrape.xpaths import XPath, XPathInvalid, path_of

TYPES: Final = ("string", "text", "html", "number", "integer", "boolean", "exists", "date", "datetime", "url", "price", "json")
SOURCES: Final = ("css", "path", "json_ld", "json", "meta", "any")
_OPTIONS: Final = {
    *SOURCES, "regex", "group", "ignore_case", "in", "attribute", "list", "fields",
    "type", "required", "default", "locale", "format", "currency",
}  # fmt: skip
_MOST_FIELDS: Final = 500
_DEEPEST: Final = 8
_LONGEST: Final = 2000
_REGEX_MEMORY: Final = 8 << 20


class SpecInvalid(Exception):
    """The extraction spec cannot be used. Each of `problems` has the field, its place in the spec (a JSON pointer) and what is wrong."""

    def __init__(self, problems: list[dict[str, str]]) -> None:
        super().__init__("; ".join(f"{problem['field']}: {problem['message']}" for problem in problems[:10]))
        self.problems = problems


class SpecField(Struct, frozen=True, kw_only=True):
    """One field to find. It has at most one source. Without a source it reads the place itself: the node of its record, or the page."""

    name: str
    css: str | None = None
    path: XPath | None = None
    json_ld: tuple[str, ...] | None = None
    json: tuple[str, ...] | None = None
    meta: str | None = None
    any: tuple[SpecField, ...] = ()
    regex: Any = None
    group: int | str = 0
    within: str = "text"
    """What a regex without another source searches: the page's `text` or its `html`. Inside a record it searches the text of the record."""
    attribute: str | None = None
    many: bool = False
    fields: tuple[SpecField, ...] = ()
    type: str = "string"
    required: bool = False
    default: Any = None
    locale: str | None = None
    format: str | None = None
    currency: str | None = None


class _Where(NamedTuple):
    """A place in a spec: the name of the field that it belongs to, and the JSON pointer of the place."""

    field: str = ""
    path: str = ""

    def inner(self, name: str) -> _Where:
        """The place of the field `name`, if this place has the fields of the spec or of a record."""
        return _Where(f"{self.field}.{name}" if self.field else name, f"{self.path}/{name.replace('~', '~0').replace('/', '~1')}")

    def below(self, part: str) -> _Where:
        """The place of a part inside this place: the same field name, and a JSON pointer that also has `part`."""
        return _Where(self.field, f"{self.path}/{part}")


def fields_of(spec: Mapping[str, Any]) -> tuple[SpecField, ...]:
    """The fields of an `extraction_spec`: those in its member `fields` if that is an object, else the members of the spec itself. Raises
    SpecInvalid if the spec cannot be used."""
    reader = _Reader()
    inner = spec.get("fields")
    fields = reader.fields(inner, _Where().below("fields"), 0) if isinstance(inner, Mapping) else reader.fields(spec, _Where(), 0)
    if not reader.problems and not fields:
        reader.problem(_Where(), "names no field")
    if reader.problems:
        raise SpecInvalid(reader.problems)
    return fields


class _Reader:
    def __init__(self) -> None:
        self.problems: list[dict[str, str]] = []
        self._count = 0

    def problem(self, where: _Where, message: str) -> None:
        self.problems.append({"field": where.field or "extraction_spec", "path": where.path, "message": message})

    def fields(self, spec: Any, where: _Where, depth: int) -> tuple[SpecField, ...]:
        if not isinstance(spec, Mapping):
            self.problem(where, "its fields must be an object, with a selector or an object for each name")
            return ()
        if depth > _DEEPEST:
            self.problem(where, f"is nested deeper than {_DEEPEST} records")
            return ()
        made = (self._field(str(name), about, where.inner(str(name)), depth) for name, about in spec.items())
        return tuple(field for field in made if field is not None)

    def _field(self, name: str, about: Any, where: _Where, depth: int) -> SpecField | None:
        self._count += 1
        if self._count > _MOST_FIELDS:
            if self._count == _MOST_FIELDS + 1:
                self.problem(_Where(), f"names more than {_MOST_FIELDS} fields")
            return None
        if isinstance(about, str):
            about = {"css": about}
        if not isinstance(about, Mapping):
            self.problem(where, "is neither a CSS selector nor an object")
            return None
        unknown = sorted(str(option) for option in about if option not in _OPTIONS)
        if unknown:
            self.problem(where, f"has unknown options: {', '.join(unknown)} (known: {', '.join(sorted(_OPTIONS))})")
            return None
        sources = [source for source in SOURCES if source in about]
        if len(sources) > 1:
            self.problem(where, f"has {' and '.join(sources)}; use one source, or `any` with a list of sources")
            return None
        before = len(self.problems)
        values = {**self._source(about, where, depth), **self._options(about, where)}
        values["fields"] = self.fields(about["fields"], where.below("fields"), depth + 1) if "fields" in about else ()
        return SpecField(name=name, **values) if len(self.problems) == before else None

    # --- sources

    def _source(self, about: Mapping[str, Any], where: _Where, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if "any" in about:
            found["any"] = self._alternatives(about["any"], where, depth)
        for source in ("css", "path", "json_ld", "json", "meta"):
            if source in about:
                text = about[source]
                if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
                    self.problem(where, f"{source} is not a text of 1 to {_LONGEST} characters")
                else:
                    found[source] = self._read(source, text.strip(), where)
        if "regex" in about:
            found |= self._regex(about, where)
        return found

    def _alternatives(self, given: Any, where: _Where, depth: int) -> tuple[SpecField, ...]:
        if not isinstance(given, list) or not 1 <= len(given) <= 20:
            self.problem(where, "any is not a list of 1 to 20 alternatives")
            return ()
        if depth >= _DEEPEST:
            self.problem(where, f"is nested deeper than {_DEEPEST} records")
            return ()
        made = (
            self._field("", alternative, _Where(f"{where.field}.any[{at}]", f"{where.path}/any/{at}"), depth + 1)
            for at, alternative in enumerate(given)
        )
        return tuple(field for field in made if field is not None)

    def _read(self, source: str, text: str, where: _Where) -> Any:
        if source == "path":
            try:
                return path_of(text)
            except XPathInvalid as error:
                self.problem(where, f"path {text[:100]!r}: {error}")
        elif source == "css":
            try:
                _EMPTY.css(text)
                return text
            except (SelectolaxError, ValueError):
                self.problem(where, f"{text[:100]!r} is not a CSS selector")
        elif source in ("json_ld", "json"):
            parts = tuple(part for part in text.replace("[", ".[").split(".") if part)
            if parts:
                return parts
            self.problem(where, f"{source} {text[:100]!r} is an empty path")
        else:
            return text.lower()
        return None

    def _regex(self, about: Mapping[str, Any], where: _Where) -> dict[str, Any]:
        text, group = about["regex"], about.get("group")
        if not isinstance(text, str) or not 0 < len(text) <= _LONGEST:
            self.problem(where, f"regex is not a text of 1 to {_LONGEST} characters")
            return {}
        try:
            compiled = re2.compile(text, _regex_options(bool(about.get("ignore_case"))))
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
            self.problem(where, f"regex {text[:100]!r}: {reason} (patterns are RE2's, without look-around and back-references)")
            return {}
        if group is None:
            group = 1 if compiled.groups else 0
        known = isinstance(group, str) and group in compiled.groupindex
        if not known and not (isinstance(group, int) and not isinstance(group, bool) and 0 <= group <= compiled.groups):
            self.problem(where, f"regex {text[:100]!r} has no group {group!r}")
        return {"regex": compiled, "group": group}

    # --- options

    def _options(self, about: Mapping[str, Any], where: _Where) -> dict[str, Any]:
        values: dict[str, Any] = {"default": about.get("default")}
        for option, name in (("list", "many"), ("required", "required"), ("ignore_case", None)):
            if option in about:
                if not isinstance(about[option], bool):
                    self.problem(where, f"{option} is {about[option]!r}; it must be true or false")
                elif name is not None:
                    values[name] = about[option]
        for option in ("attribute", "locale", "format", "currency"):
            if option in about:
                if not isinstance(about[option], str) or not 0 < len(about[option]) <= 100:
                    self.problem(where, f"{option} must be a text of 1 to 100 characters")
                else:
                    values[option] = about[option].lower() if option == "attribute" else about[option]
        if about.get("type", "string") not in TYPES:
            self.problem(where, f"type is {about.get('type')!r}; it must be one of {', '.join(TYPES)}")
        else:
            values["type"] = about.get("type", "string")
        if about.get("in", "text") not in ("text", "html"):
            self.problem(where, f"in is {about['in']!r}; it must be text or html")
        else:
            values["within"] = about.get("in", "text")
        return values


def _regex_options(ignore_case: bool) -> Any:
    """The options for RE2. RE2 needs time in proportion to the length of the text, for any pattern. This matters because the author of a
    spec is not trusted."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_MEMORY
    options.case_sensitive = not ignore_case
    return options


_EMPTY: Final = LexborHTMLParser("<html></html>")
