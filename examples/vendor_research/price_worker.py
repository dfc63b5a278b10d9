"""price-worker: the price list of a vendor, from the service that the operator names in `/price-worker/address`."""

import json
import re
from typing import Any

from holdfast import WorkerContext, WorkerError, worker


@worker("price-worker.md")
async def prices(inputs: dict[str, Any], ctx: WorkerContext) -> dict[str, Any]:
    """Address → fetch → read → prices."""
    address = await ctx.tools.parameter_store(name="/price-worker/address")
    name = re.sub(r"[^a-z0-9]+", "-", inputs["vendor"].lower()).strip("-")
    page = await ctx.tools.fetch_url(url=f"{address}/{name}.json")
    if page["status"] != 200:
        raise WorkerError("vendor_unknown", f"The service has no price list of {inputs['vendor']}.")
    try:
        told = json.loads(page["text"])
        offers = [{"name": one["name"], "price": one["price"], "currency": told["currency"]} for one in told["offers"]]
        return {"vendor": told["vendor"], "delivery_days": told["delivery_days"], "prices": offers, "prices_from": told["date"]}
    except (ValueError, KeyError, TypeError):
        raise WorkerError("price_list_changed", "The price list is not in the form that this worker reads.") from None
