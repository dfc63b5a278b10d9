"""tools — the tools that a worker may call, and their protection against hostile pages, servers and bodies.

Belongs: the tool seam; fetch_url, language_model, parameter_store, read_repo, the pure tools; `@tool` and how the runner reads it from a
worker's file; secrets, redaction, cassettes. Does not: allow-lists, receipts, approvals, budgets (the gateway's); processes
(holdfast.hosts). May import: holdfast.hosts, holdfast.contract, holdfast.files, holdfast.model. Start reading at seam.py. The packages
openai, boto3 and selectolax are imported only when a tool needs them.
"""
