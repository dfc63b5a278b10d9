"""web-scrape-worker: fetches a page, finds what the spec asks for, and returns it as JSON.

The runner fetches the page. The page is parsed here, in the sandbox, because it is not trusted.
"""

from __future__ import annotations

from typing import Any

from holdfast import WorkerContext, WorkerError, worker
from holdfast.library.web_scrape.extraction import SpecInvalid, extract_fields
from holdfast.library.web_scrape.specs import SpecField, fields_of

_MOST_NAMED = 10


@worker("worker.md")
async def scrape(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Fetch the page, and return the fields that the spec asks for, with facts about the page and warnings. Raises WorkerError with
    `schema_mismatch` if the spec cannot be used, with `page_not_found` if the server answers with a status outside 200 to 299, and with
    `page_changed` if a required field is missing or does not fit its type."""
    fields = _fields(inputs["extraction_spec"])  # before the first request to the site
    page = await ctx.tools.fetch_url(**{name: inputs[name] for name in ("url", "user_agent") if name in inputs})
    source = {name: page[name] for name in ("url", "status", "fetched_at", "sha256", "size_bytes", "redirects")}
    if not 200 <= page["status"] < 300:
        message = f"{page['url']} answered {page['status']}: there is no page to look at."
        raise WorkerError("page_not_found", message, details={"source": source})
    ctx.progress({"fetched": page["size_bytes"]})
    found = extract_fields(page["text"], fields, page["url"])
    outputs = {"data": found.data, "source": source, "warnings": [*_about(page), *found.warnings]}
    if found.missing:
        named = ", ".join(found.missing[:_MOST_NAMED]) + (", …" if len(found.missing) > _MOST_NAMED else "")
        message = f"{page['url']} lacks what the spec requires: {named}. The page has changed, or the spec is for another page."
        raise WorkerError("page_changed", message, partial=outputs, details={"missing": found.missing[:1000]})
    return outputs


def _fields(spec: dict[str, Any]) -> tuple[SpecField, ...]:
    try:
        return fields_of(spec)
    except SpecInvalid as wrong:
        details = [{"path": f"/extraction_spec{problem['path']}", "reason": problem["message"]} for problem in wrong.problems]
        raise WorkerError("schema_mismatch", f"The extraction_spec cannot be used: {wrong}.", details=details) from None


def _about(page: dict[str, Any]) -> list[dict[str, str]]:
    """Warnings about the page as a whole: one if it is not HTML, else none."""
    kind = page["headers"].get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("", "text/html", "application/xhtml+xml"):
        return []
    return [{"code": "not_html", "field": "", "message": f"the page is {kind[:100]}; it was read as if it were HTML"}]
