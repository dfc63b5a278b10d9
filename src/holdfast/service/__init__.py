"""service — what users call: `holdfast.open`, the client of a store, export, import and replay. It joins the layers below.

Belongs: settings, opening an engine for async and for blocking callers, what users do with executions, why an execution waits, trust in
folders. It builds the objects of the layers below; only lambda_api/serving.py does that too.
Does not: terminals, HTTP.   May import: everything below it.
Start reading at engines.py (`holdfast.open`), then client.py (a store without an engine) and worker_runtime.py (workers).
"""
