"""tools — the tools that a worker may call, and their protection against hostile pages, servers and bodies.

Belongs: the tool seam; fetch_url, language_model, parameter_store, read_repo, the pure tools; `@tool` and how the runner reads it from a
worker's file; secrets, redaction, cassettes. Does not: allow-lists, receipts, approvals, budgets (the gateway's); processes
(holdfast.hosts). May import: holdfast.hosts, holdfast.model. Start reading at seam.py. Nothing here is imported for a tool that is not
used.
"""
