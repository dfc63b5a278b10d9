"""vendor-research: read the pages of a vendor, check and sign the report, publish it; take it back if it cannot be read there."""

from rules import PUBLISHED, RULES

from holdfast import Pipeline

p = Pipeline("vendor-research.md")

page = {"url": p.item, "extraction_spec": p.inputs.spec}
pages = p.map("pages", "web-scrape-worker", p.inputs.urls, page, at_most=200, at_once=8, tolerate="20%")
facts = p.worker("facts", "fact-worker", {"pages": pages.ok.outputs}, fallback=["fact-worker-small"])
prices = p.worker("prices", "price-worker", {"vendor": p.inputs.vendor}, on_failure={"access_denied": "skip"})
report = p.merge("report", [facts, prices], policy="union", conflicts="report")

candidate = {"candidate": report.outputs, "rules": p.const(RULES)}
check = p.gate("check", "validator-worker", candidate, revise=facts, rounds=2, on_block="escalate")
shown = {"report": report.outputs, "conflicts": report.conflicts}
signed = p.human("sign-off", show=shown, question="Publish this report?", after=check, within="2d")

post = p.worker("publish", "publish-worker", {"report": signed.outputs.report}, undo="unpublish-worker")
seen = p.worker("read-back", "web-scrape-worker", {"url": post.outputs.url, "extraction_spec": p.const(PUBLISHED)})
p.gives({"report": signed.outputs.report, "conflicts": report.conflicts, "url": post.outputs.url, "seen": seen.outputs.data})
