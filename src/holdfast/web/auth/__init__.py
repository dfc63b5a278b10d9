"""web.auth — who may use the server: credentials, signatures, roles, tenants, and web pages that must not reach the server.

Belongs: the gate, which recognises the caller of a request and compares it with the policy of the route; making and keeping credentials.
Does not: routes and their policies (web.policy, web.routing), what operations do.
May import: holdfast.web.identity, holdfast.web.policy, holdfast.web.refusals, holdfast.web.replies, holdfast.web.requests,
holdfast.operator, holdfast.store, holdfast.files, holdfast.model.
`holdfast keys` imports keys.py, which needs no web framework.
Start reading at gate.py; sigv4.py and origins.py are pure.
"""
