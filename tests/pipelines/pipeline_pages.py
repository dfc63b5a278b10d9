"""Pipeline pages for tests: one that says much, and the renderings of any page."""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.contract.terms import Problem
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.page.reader import read_pipeline

NOTICE = """# Notice board

Problem: A town wants its notices short, read by a person, and pinned once.

## Key ideas

- A notice is drafted, judged, and pinned.

## Diagram

```text
topics -> drafts -> check -> keep -> post
```

## Pipeline spec

```yaml
pipeline_id: notice-board
version: 1.10
purpose: Pin notices: short ones, #1 first, and say "why".
inputs:
  - topics: array
  - mood: enum(glad, so so) (optional)
outputs:
  - lines: array
  - note: string (optional)
constraints:
  timeout_seconds: 7200
  tools_allowed: []
retries:
  max_attempts: 2
  backoff: fixed
observability:
  log_fields: [worker_id, status]
gates: required
nodes:
  - name: size
    kind: route
    labels: [small, large]
    value: inputs.topics.length
    rules: {small: [{path: "", op: at_most, value: 10}]}
    otherwise: large
  - name: drafts
    kind: map
    worker: draft-worker@1.0      # the one of last year
    over: inputs.topics
    inputs: {topic: item, at: index, mood: inputs.mood.default("glad")}
    at_most: 20
    at_once: 4
    tolerate: 20%
    after: [size:small]
  - name: check
    kind: gate
    candidate: {
      texts: drafts.ok.outputs.text,
      rules: const([{"path": ".text", "op": "exists"}])
    }
    rules: [{path: '.texts[*]', op: length_at_most, value: 30, code: too_long, message: "It is too long, #really."}]
    revise: drafts
    rounds: 2
    on_block: escalate
  - name: keep
    kind: human
    show: {texts: check.outputs.texts, note: text("{} of {}", drafts.counts.ok, drafts.counts.total)}
    question: Shall they stay up: yes or no?
    approvers: [ann, research-leads]
    within: 2d
    when: {value: inputs, rules: [{path: .mood, op: exists}]}
  - name: post
    kind: worker
    worker: post-worker
    inputs: {all: concat(check.outputs.texts, ["the end"])}
    fallback: [post-worker-small]
    undo: {worker: unpost-worker, inputs: {line: post.outputs.lines[0]}}
    on_failure: {access_denied: skip, "*": fail}
    caps: {timeout: 10m, max_tokens: 500, max_cost_usd: 0.50}
gives: {lines: post.outputs.lines.default([])}
```

## Input schema

```json
{
  "type": "object",
  "properties": {"topics": {"type": "array"}, "mood": {"enum": ["glad", "so so"]}},
  "required": ["topics"]
}
```

## Output schema

```json
{"type": "object", "properties": {"lines": {"type": "array"}, "note": {"type": "string"}}}
```

## Constraints

```json
{
  "timeout_seconds": 7200,
  "retries": {"max_attempts": 2, "backoff": "fixed"},
  "rate_limit": "10/min per tenant",
  "tools_allowed": []
}
```

## Failure modes & handling

- The board is closed: error_code=board_closed (retryable with backoff).
""".replace("'.texts[*]'", '".texts[*]"')


def site(page: str) -> str:
    """The page as a web site shows it: headings that end in `#`, no fences, `•` for bullets of prose."""
    made, in_block = ["AI Worker worker.md", ""] if page.startswith("# ") else [], False
    for line in page.split("\n"):
        if line.startswith("```"):
            in_block = not in_block
        elif in_block:
            made.append(line)
        elif heading := re.fullmatch(r"(#{1,2}) (.*)", line):
            made.append(heading[2] if heading[1] == "#" else f"{heading[2]}#")
        else:
            made.append(re.sub(r"^- ", "  • ", line))
    return "\n".join(made)


def flat(page: str) -> str:
    """The page of the site with all its indentation and blank lines gone, and `- ` for bullets."""
    lines = (re.sub(r"^• ", "- ", line.strip()) for line in site(page).split("\n"))
    return "\n".join(line for line in lines if line)


Rendering = Callable[[str], str]
RENDERINGS: dict[str, Rendering] = {"markdown": str, "site": site, "flat": flat}


def graph_of(page: str) -> Graph:
    """The graph of a page that has no errors."""
    read = read_pipeline(page.encode())
    assert read.graph is not None, [str(problem) for problem in read.problems]
    return read.graph


def problems_of(page: str | bytes) -> list[Problem]:
    """All that is wrong with a page."""
    return list(read_pipeline(page if isinstance(page, bytes) else page.encode()).problems)
