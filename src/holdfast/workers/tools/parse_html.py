"""parse_html: makes data from an HTML page. It runs where the body runs, usually in the sandbox, because hostile HTML should not be parsed
in a process that has credentials.

Broken pages are read as a browser reads them. parse_html fails only if a selector of the caller is wrong, never because of the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from holdfast.workers.tools.seam import ToolFailed

MAX_LINKS: Final = 2_000
MAX_FOUND: Final = 2_000
MAX_TEXT: Final = 1_000_000
MAX_SELECTORS: Final = 200
MAX_DEPTH: Final = 2_000
MAX_ATTRIBUTES: Final = 1_000
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# These patterns never backtrack, so the time is proportional to the length of the page.
_ATTRIBUTE: Final = re.compile(r"""[\s/]*+(?:=[^\s/>=]*+|[^\s/>=]++)(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+""", re.ASCII)
_WHOLE_TAG: Final = re.compile(rf"<[a-zA-Z][^\s/>]*+(?:{_ATTRIBUTE.pattern})*+", re.ASCII)
# Tags that are not counted as nested: first tags without an end tag, then tags whose end tag may be missing.
_ENDS_ITSELF: Final = frozenset([
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dt", "dd", "td", "th", "tr", "option", "optgroup", "thead", "tbody", "tfoot", "colgroup", "rt", "rp",
    "html", "head", "body",
])  # fmt: skip
_RAW: Final = frozenset(["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"])
_UNSEEN: Final = ["script", "style", "noscript", "template", "svg", "head"]
_LINKS: Final = {"http", "https", "mailto", "tel"}

ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["html"],
    "properties": {
        "html": {"type": "string"},
        "base_url": {"type": "string"},
        "select": {
            "type": "object",
            "maxProperties": MAX_SELECTORS,
            "additionalProperties": {
                "oneOf": [
                    {"type": "string", "minLength": 1},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["css"],
                        "properties": {
                            "css": {"type": "string", "minLength": 1},
                            "attribute": {"type": "string", "minLength": 1},
                            "all": {"type": "boolean"},
                            "html": {"type": "boolean"},
                        },
                    },
                ]
            },
        },
    },
}


def parse_html(html: str, base_url: str = "", select: Mapping[str, str | Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The title, language, metadata, links, readable text and JSON-LD of a page, and in `selected` what `select` asks for. `select` has for
    each name a CSS selector, or an object with `css` and options. The value for a name is the text of the first node found. Options:
    `attribute` gives that attribute instead of the text, `html` the HTML, and `all` a list with the values of all nodes. Without `all`, the
    value is None if there is no node, or if the node does not have the attribute. `base_url` makes relative links absolute. Raises
    ToolFailed if a selector is not valid."""
    tree = parsed(html)
    base = base_of(tree, base_url)
    selected = {name: _selected(tree, name, how) for name, how in (select or {}).items()}
    title = tree.css_first("title")
    root = tree.root
    return {
        "title": squeezed(title.text(deep=True)) if title is not None else None,
        "language": attribute(root, "lang") if root is not None else None,
        "meta": meta_of(tree),
        "links": _links(tree, base),
        "json_ld": json_ld_of(tree),
        "selected": selected,
        "text": readable(tree),  # last, because it removes nodes from the tree
    }


def parsed(html: str) -> LexborHTMLParser:
    """The tree of a page. What the parser cannot handle (lone surrogates, NUL, very deep nesting, very many attributes) is removed or
    replaced first."""
    return LexborHTMLParser(tamed(html.encode("utf-8", errors="replace").replace(b"\0", b"").decode("utf-8", errors="replace")))


def tamed(html: str) -> str:
    """The page without tags that are nested too deep, and without the attributes that a tag has beyond the limit. Ordinary pages are not
    changed.

    The time to parse nested tags and attributes grows with the square of their number.
    """
    crowded = any(_crowded(tag) for tag in _WHOLE_TAG.finditer(html) if tag.end() - tag.start() > MAX_ATTRIBUTES)
    if not crowded and html.count("<") < MAX_DEPTH:
        return html
    kept: list[str] = []
    depth = done = at = 0
    while (tag := _TAG.search(html, at)) is not None:
        name, closing, at = tag.group(2).lower(), bool(tag.group(1)), tag.end()
        whole = _WHOLE_TAG.match(html, tag.start()) if crowded else None
        if whole is not None:
            cut = _crowded(whole)
            if cut:
                kept.append(html[done:cut])
                done = whole.end()
            at = whole.end()
        if name in _RAW:
            at = at if closing else _raw_end(html, name, at)
        elif name not in _ENDS_ITSELF:
            if depth > MAX_DEPTH or (depth == MAX_DEPTH and not closing):
                kept.append(html[done : tag.start()])
                done = at = html.find(">", at) + 1 or len(html)
            depth = max(depth - 1, 0) if closing else depth + 1
    kept.append(html[done:])
    return "".join(kept)


def _crowded(tag: re.Match[str]) -> int:
    """If a tag has more attributes than the limit allows, the position at which the first attribute too many begins; else 0."""
    name = _TAG.match(tag.string, tag.start())
    assert name is not None
    attributes = _ATTRIBUTE.finditer(tag.string, name.end(), tag.end())
    last = next(islice(attributes, MAX_ATTRIBUTES, None), None)
    return 0 if last is None else last.start()


def _raw_end(html: str, name: str, at: int) -> int:
    """The position at which the text of a script, or of a similar tag, ends. If the tag is never closed, that is the end of the page."""
    end = re.compile(f"</{re.escape(name)}", re.IGNORECASE).search(html, at)
    return len(html) if end is None else end.start()


def base_of(tree: LexborHTMLParser, base_url: str) -> str:
    """The address to which a page's relative addresses are relative: that of its `<base>` tag, else `base_url`."""
    node = tree.css_first("base[href]")
    return joined(base_url, attribute(node, "href") or "") or base_url if node is not None else base_url


def joined(base: str, href: str) -> str | None:
    """The address `href` made absolute with `base`; None if `href` is not an address."""
    try:
        return urljoin(base, href.strip())
    except ValueError:
        return None


def attribute(node: LexborNode, name: str) -> str | None:
    """The value of an attribute: empty for an attribute without a value, None if the node does not have it."""
    attributes = node.attributes
    return (attributes[name] or "") if name in attributes else None


def squeezed(text: str) -> str:
    """The text with each run of white space replaced by one space, and without white space at its ends."""
    return " ".join(text.split())


def meta_of(tree: LexborHTMLParser) -> dict[str, str]:
    """The page's metadata: the contents of its `<meta>` tags (of the first MAX_FOUND), by the tag's name in lower case. The name is the
    tag's `name`, `property`, `http-equiv` or `itemprop`. If two tags have the same name, the content of the first of them is used."""
    found: dict[str, str] = {}
    for node in tree.css("meta")[:MAX_FOUND]:
        name = attribute(node, "name") or attribute(node, "property") or attribute(node, "http-equiv") or attribute(node, "itemprop")
        content = attribute(node, "content")
        if name and content is not None:
            found.setdefault(name.strip().lower(), content)
    return found


def json_ld_of(tree: LexborHTMLParser) -> list[Any]:
    """The JSON-LD objects of the page, at most MAX_FOUND. Objects inside lists and inside `@graph` are members of the result too. Blocks
    that are not JSON are left out."""
    found: list[Any] = []
    for node in tree.css("script[type]")[:MAX_FOUND]:
        if (attribute(node, "type") or "").partition(";")[0].strip().lower() == "application/ld+json":
            try:
                found.extend(_flat(json.loads(_uncommented(node.text(deep=True)), strict=False)))
            except (ValueError, RecursionError):
                continue
    return found[:MAX_FOUND]


def _uncommented(text: str) -> str:
    text = text.strip()
    for opening, closing in (("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        if text.startswith(opening):
            text = text.removeprefix(opening).removesuffix(closing).strip()
    return text.removesuffix(";")


def _flat(value: Any) -> list[Any]:
    found: list[Any] = []
    waiting = [value]
    while waiting and len(found) < MAX_FOUND:
        item = waiting.pop(0)
        if isinstance(item, list):
            waiting[:0] = item
        elif isinstance(item, dict):
            found.append(item)
            if isinstance(item.get("@graph"), list):
                waiting[:0] = item["@graph"]
    return found


def _links(tree: LexborHTMLParser, base: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for node in tree.css("a[href]"):
        url = joined(base, attribute(node, "href") or "")
        if url and (":" not in url or url.partition(":")[0].lower() in _LINKS):
            found.append({"href": url, "text": squeezed(node.text(deep=True))[:1000]})
        if len(found) == MAX_LINKS:
            break
    return found


def readable(tree: LexborHTMLParser) -> str:
    """The text that a reader sees, at most MAX_TEXT characters. Scripts, styles and other nodes that readers do not see are removed from
    the tree."""
    tree.strip_tags(_UNSEEN)
    root = tree.body or tree.root
    return "" if root is None else squeezed(root.text(deep=True, separator=" "))[:MAX_TEXT]


def _selected(tree: LexborHTMLParser, name: str, how: str | Mapping[str, Any]) -> Any:
    about: Mapping[str, Any] = {"css": how} if isinstance(how, str) else how
    nodes = found_by(tree, str(about["css"]), f"select.{name}")
    values = [_value(node, about) for node in nodes[:MAX_FOUND]]
    if about.get("all"):
        return [value for value in values if value is not None]
    return values[0] if values else None


def found_by(within: LexborHTMLParser | LexborNode, css: str, where: str) -> list[LexborNode]:
    """The nodes that a CSS selector finds, in the order of the page. Raises ToolFailed if `css` is not a CSS selector. `where` says in the
    error which selector it is."""
    try:
        return within.css(css)
    except (SelectolaxError, ValueError) as error:
        raise ToolFailed("tool_failed", f"{where}: {css[:200]!r} is not a CSS selector: {error}", details={"reason": "selector"}) from None


def _value(node: LexborNode, about: Mapping[str, Any]) -> str | None:
    if "attribute" in about:
        return attribute(node, str(about["attribute"]).lower())
    return (node.html or "") if about.get("html") else squeezed(node.text(deep=True))
