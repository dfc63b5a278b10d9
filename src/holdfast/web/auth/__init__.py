"""auth — who may ask the server: credentials, signatures, roles, tenants, and web pages that must not reach in.

Belongs: recognising who asks, the table of what each role may do, the gate around an app (`protect`), making credentials.
Does not: routes, what operations do.   May import: holdfast.model, holdfast.store, and how the server reads and refuses; no web
framework, so that making a key needs none.
Start reading at protecting.py, then operations.py. sigv4.py and browsers.py are pure.
"""

from holdfast.web.auth.identity import Identity, identity_of
from holdfast.web.auth.protecting import Gate, protect

__all__ = ["Gate", "Identity", "identity_of", "protect"]
