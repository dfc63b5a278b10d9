"""fact-worker-small: the facts without a model, for the time when there is none. It takes what the pages' own fields say."""

from typing import Any

from holdfast import WorkerContext, worker


@worker("fact-worker-small.md")
def facts(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """The first page that has a field decides it."""
    pages = inputs["pages"]
    return {
        "vendor": _first(pages, "vendor") or "",
        "summary": (_first(pages, "text") or "")[:280],
        "products": [page["data"]["product"] for page in pages if page["data"].get("product")],
        "delivery_days": _first(pages, "delivery_days"),
        "sources": [page["source"].get("url", "") for page in pages if page["data"].get("product")],
    }


def _first(pages: list[dict[str, Any]], field: str) -> Any:
    return next((page["data"][field] for page in pages if page["data"].get(field) is not None), None)
