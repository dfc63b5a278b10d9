"""tools — what a worker may call, and what stands between a call and the world.

Belongs: the tool seam; fetch_url, language_model, parameter_store, the pure tools; `@tool` and what a
file declares with it; secrets, redaction, cassettes.
Does not: allow-lists, receipts, approvals, budgets (the gateway's); processes (holdfast.hosts).
May import: holdfast.hosts, holdfast.model.   Start reading at seam.py. Nothing here is imported for a tool that is not used.
"""
