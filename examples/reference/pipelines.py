"""Pipelines.

A pipeline runs workers in an order that data decides. It is data itself: each call below adds one node to a graph.
[pipelines.md](../pipelines.md) has the forms of references, rules, conditions and durations, and what every node takes. A handle, which
a verb returns, stands for what its node gives: `facts.outputs.price` is a reference that has a value only when the pipeline runs.
"""

from typing import Any

from holdfast import Pipeline

RULES = [{"path": ".price", "op": "at_most", "value": 100, "code": "too_dear", "message": "The price is above 100."}]
OBJECT = {"type": "object"}

# --- Pipeline, Pipeline.worker, Pipeline.gives
p = Pipeline("vendor-research", "1.0", inputs=OBJECT, outputs=OBJECT, timeout="2h", max_cost_usd=5)

facts = p.worker("facts", "fact-worker", {"vendor": p.inputs.vendor}, fallback=["fact-worker-small"], timeout="10m")
post = p.worker("publish", "publish-worker", {"facts": facts.outputs}, on_failure="skip", undo="unpublish-worker")
p.gives({"facts": facts.outputs, "url": post.outputs.url.default(None)})


# --- Pipeline.map
p = Pipeline("vendor-pages", "1.0", inputs=OBJECT, outputs=OBJECT)

pages = p.map("pages", "web-scrape-worker", p.inputs.urls, {"url": p.item, "nth": p.index}, at_most=200, at_once=8, tolerate="20%")
p.gives({"pages": pages.ok.outputs, "failed": pages.failed.index, "count": pages.ok.length})


# --- Pipeline.merge, Pipeline.gate, Pipeline.human
p = Pipeline("vendor-report", "1.0", inputs=OBJECT, outputs=OBJECT, gates="required")

web = p.worker("web", "fact-worker", {"vendor": p.inputs.vendor})
files = p.worker("files", "file-worker", {"vendor": p.inputs.vendor}, on_failure={"access_denied": "skip"})
report = p.merge("report", [web, files], policy="union", conflicts="report")
check = p.gate("check", candidate=report.outputs, rules=RULES, revise=web, rounds=2, on_block="escalate")
signed = p.human("sign-off", show=report.outputs, question="Publish it?", approvers=["ann"], within="2d", after=check)
p.gives({"report": report.outputs, "missing": report.missing, "signed_by": signed.decided_by})


# --- Pipeline.route, Pipeline.wait
p = Pipeline("vendor-size", "1.0", inputs=OBJECT, outputs=OBJECT)

size = p.route("size", rules={"small": p.inputs.pages.at_most(10)}, otherwise="large")
pause = p.wait("pause", "10m", after=size.to("large"))
quick = p.worker("quick", "fact-worker", {"vendor": p.inputs.vendor}, after=size.to("small"))
deep = p.worker("deep", "deep-worker", {"vendor": p.inputs.vendor}, after=pause, when=p.inputs.vendor.differs("Acme"))
p.gives({"size": size.label, "facts": quick.outputs.default(None), "more": deep.outputs.default(None)})


# --- Pipeline.supervise, Pipeline.until, Pipeline.pipeline
p = Pipeline("vendor-plan", "1.0", inputs=OBJECT, outputs=OBJECT)

workers = {"search": "search-worker", "write": "write-worker"}
plan = p.supervise(
    "plan", "supervisor-worker", {"goal": p.inputs.goal}, choices=workers, turns=6, max_cost_usd=2, undo={"write": "delete-worker"}
)
ready = [{"path": ".state", "op": "equals", "value": "ready"}]
poll = p.until("poll", "status-worker", {"id": plan.outputs.id}, rules=ready, at_most=30, every="30s")
sub = p.pipeline("report", "vendor-report", {"vendor": p.inputs.vendor}, after=poll, undo="withdraw-worker")
p.gives({"report": sub.outputs, "turns": plan.turns, "times": poll.times})


# --- Pipeline.step
def cheapest(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"price": min(inputs["prices"])}


p = Pipeline("vendor-price", "1.0", inputs=OBJECT, outputs=OBJECT)

offers = p.map("offers", "price-worker", p.inputs.vendors, {"vendor": p.item}, at_most=50)
least = p.step("least", cheapest, {"prices": offers.ok.outputs.price})
p.gives({"price": least.outputs.price})


# --- Pipeline.const, Pipeline.concat, Pipeline.text, Pipeline.draft
p = Pipeline("vendor-letter", "1.0", inputs=OBJECT, outputs=OBJECT)

letter = p.worker(
    "letter",
    "writer-worker",
    {
        "rules": p.const({"$comment": "taken as it is", "rules": RULES}),
        "names": p.concat(p.inputs.customers, p.inputs.suppliers, ["Acme"]),
        "title": p.text("Offers for {} of {}", p.inputs.customers[0], p.inputs.date),
    },
)
p.gives(letter)
assert [node.name for node in p.draft().nodes] == ["letter"]
assert p.draft().gives == {"$from": "letter", "path": ["outputs"]}
