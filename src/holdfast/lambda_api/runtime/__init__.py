"""runtime — functions in processes of their own, which speak the Lambda Runtime API.

Belongs: starting, pooling and ending processes; the private listener of each; what they print; events in, outcomes out.
Does not: the durable API itself (an injected ASGI app), claims, storage.
May import: holdfast.web, holdfast.hosts, holdfast.files, holdfast.model, Starlette, uvicorn.
Start reading at runtime_host.py, then process_pool.py and runtime_process.py. guard.py and clients/ run in the started processes, so they
import nothing of Holdfast at their start.
"""
