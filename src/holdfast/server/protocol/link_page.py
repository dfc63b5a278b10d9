"""The page that a link opens: what is asked, and a form to decide it. It has no script, loads no other files, and shows every text as plain
text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from holdfast.costs.estimates import rest_in_words
from holdfast.web.form_fields import drawn, fields_of
from holdfast.web.plain_html import shown
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply
from holdfast.workers.approvals import Approval

_STYLE: Final = (
    # The colors and sizes of the console (console/static/console.css). They are written here, because this page loads no other files.
    ":root{color-scheme:light dark;--page:#fff;--panel:#f6f7f9;--text:#14181f;--muted:#5b6472;--line:#d9dde3;--accent:#0b6b75;"
    "--on:#fff;--bad:#b3261e}"
    "@media(prefers-color-scheme:dark){:root{--page:#0f1216;--panel:#171b21;--text:#e6eaf0;--muted:#a3adba;--line:#2a3038;--accent:#4fc3d0;"
    "--on:#0f1216;--bad:#ff8f87}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:14px/1.4 system-ui,-apple-system,'Segoe UI',"
    "Roboto,'DejaVu Sans',sans-serif;font-variant-numeric:tabular-nums}"
    "main{max-width:720px;margin:8vh auto 32px;padding:0 16px}h1{font-size:20px;line-height:1.25;font-weight:600;margin:0 0 16px;"
    "overflow-wrap:anywhere}h2{font-size:12px;font-weight:400;color:var(--muted);margin:16px 0 4px}"
    "pre,textarea{font:12.5px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:8px;"
    "margin:0;max-height:60vh;overflow:auto}"
    "dl{display:grid;grid-template-columns:auto 1fr;gap:4px 16px;margin:0}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}"
    "form{margin-top:16px}form p{margin:0 0 12px}label{font-weight:600}small{color:var(--muted);display:block}"
    "input,textarea,select{font-size:13px;color:inherit;background:var(--page);border:1px solid var(--line);border-radius:4px;"
    "padding:4px 8px;min-height:32px;width:100%;font-weight:400}"
    "button{font:inherit;min-height:32px;padding:4px 16px;margin-right:8px;border:1px solid var(--line);border-radius:4px;"
    "background:var(--panel);color:var(--bad);cursor:pointer}button:first-child{background:var(--accent);border-color:var(--accent);color:var(--on);font-weight:600}"
    ":focus-visible{outline:2px solid var(--accent);outline-offset:1px}"
    ".problem{border-left:3px solid var(--bad);background:var(--panel);padding:8px 12px;overflow-wrap:anywhere}"
)
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_MOST_JSON: Final = 49_000
# Without a referrer a browser sends `Origin: null`, and the gate refuses that. With `same-origin`, other sites still learn nothing.
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"x-robots-tag", b"noindex"),
)


def question_page(
    approval: Approval, person: str, *, problem: str = "", given: Mapping[str, str] | None = None, status: int = 200
) -> Reply:
    """The page with the question, and with the form by which `person` decides. `problem` says what was wrong with the form that the person
    sent before; empty: nothing. `given` has the values of that form, to show them again. `status` is the HTTP status."""
    told = f'<p class="problem" role="alert">{shown(problem)}</p>' if problem else ""
    asked = approval.question or _asked(approval)
    form = "".join(drawn(field, (given or {}).get(field.key, "")) for field in _fields(approval))
    yes = ("answer", "Send the answer") if approval.kind == "question" else ("approve", "Approve")
    comment = shown((given or {}).get("comment", ""))
    facts = "".join(f"<dt>{name}</dt><dd>{shown(text)}</dd>" for name, text in _facts(approval, person))
    body = (
        f"<h1>{shown(asked)}</h1>{told}<dl>{facts}</dl>"
        f"<h2>What is shown</h2><pre>{shown(_json(approval.arguments))}</pre>"
        f'<form method="post" autocomplete="off">{form}'
        f'<p><label>Comment<br><textarea name="comment" rows="2" cols="60" maxlength="4000">{comment}</textarea></label></p>'
        f'<p><button name="verdict" value="{yes[0]}">{yes[1]}</button>'
        '<button name="verdict" value="reject" formnovalidate>Reject</button></p></form>'
    )
    return _page(status, "A decision is needed", body)


def told_page(status: int, title: str, text: str) -> Reply:
    """A page with a message and without a form."""
    return _page(status, title, f"<h1>{shown(title)}</h1><p>{shown(text)}</p>")


def _page(status: int, title: str, body: str) -> Reply:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{shown(title)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )
    return Reply(status, text.encode("utf-8", "replace"), HEADERS)


def _asked(approval: Approval) -> str:
    """The question to show for an approval that has no text of its own: about a node of a pipeline, or about a tool call."""
    of_call = f"May {approval.worker_id} call {approval.tool} with these arguments?"
    return of_call if approval.node is None else "Do you approve what is shown below?"


def _fields(approval: Approval) -> list[Any]:
    return fields_of(approval.schema) if approval.kind == "question" else []


def _facts(approval: Approval, person: str) -> list[tuple[str, str]]:
    facts = [("You decide as", person), ("Asked by", approval.requested_by), ("For", _place(approval))]
    if approval.risk is not None:
        facts.append(("Risk", approval.risk))
    if approval.is_voted:
        said = ", ".join(f"{vote.person}: {vote.verdict}" for vote in approval.votes) or "none yet"
        facts.append(("Votes", f"{len(approval.votes)} of {approval.votes_needed} ({said}). One rejection rejects."))
    if approval.spent:
        used = approval.spent[-1].usage
        facts.append(("Spent so far", f"${used.cost_usd:f}, {used.tokens.input + used.tokens.output:,} tokens, {used.tool_calls} calls"))
    if approval.may_cost is not None:
        facts.append(("The rest may cost", rest_in_words(approval.may_cost)))
    if approval.expires_at is not None:
        facts.append(("Open until", datetime.fromtimestamp(approval.expires_at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")))
    return facts


def _place(approval: Approval) -> str:
    return approval.worker_id if approval.node is None else f"{approval.node} of {approval.worker_id}"


def _json(value: Any) -> str:
    """A value as indented JSON, cut if it is too long. Encoding stops at the cut, because encoding all of a large value would take
    seconds."""
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False, indent=2, default=str).iterencode(value):
        text += part
        if len(text) > _MOST_JSON:
            return f"{text[:_MOST_JSON]}… (cut: the text is longer than {_MOST_JSON:,} characters)"
    return text
