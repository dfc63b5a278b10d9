"""support-triage: hide personal data, classify a message, route it, sum it up, let a person decide, and open one ticket."""

from labels import LABELS, TEAMS

from holdfast import Pipeline

p = Pipeline("support-triage.md")

message = {"subject": p.inputs.subject, "thread_text": p.inputs.thread_text, "customer": p.inputs.customer}
intake = p.worker("intake", "intake-worker", message)
asked = {"item": intake.outputs.message, "labels": p.const(LABELS), "fallback": "other", "least_confidence": 0.5}
classify = p.worker("classify", "router-worker", asked)

known = {"team": classify.outputs.label.is_in(TEAMS), "spam": classify.outputs.label.equals("spam")}
route = p.route("route", rules=known, otherwise="unclear")

thread = {"thread_text": p.inputs.thread_text, "customer_context": p.inputs.customer, "audience": "internal"}
summarise = p.worker("summarise", "email-summarization-worker", thread, after=route.to("team"))
ticket = {"team": classify.outputs.label, "summary": summarise.outputs.summary, "actions": summarise.outputs.action_items}
decide = p.human("decide", show=ticket, question="Open this ticket?", within="2d", on_silence="escalate")
opened = p.worker("ticket", "ticket-worker", {"ticket": decide.outputs})

unclear = {"message": intake.outputs.message, "reason": classify.outputs.reason}
look = p.human("look", show=unclear, question="No team fits. Is it settled?", after=route.to("unclear"), within="2d", on_reject="skip")

label = {"label": classify.outputs.label, "reason": classify.outputs.reason}
p.gives({**label, "url": opened.outputs.url.default(""), "look": look.verdict.default("")})
