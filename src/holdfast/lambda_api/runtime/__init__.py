"""runtime — functions in processes of their own, which speak the Lambda Runtime API.

Belongs: starting, pooling and ending processes; the private listener of each; what they print; events in, outcomes out.
Does not: the durable API itself (an injected ASGI app), claims, storage.   May import: holdfast.model, uvicorn.
Start reading at host.py, then process.py. guard.py and clients/ run inside the processes, and import nothing of ours.
"""
