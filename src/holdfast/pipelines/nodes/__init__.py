"""nodes — one file for each kind of node, all of one shape: `async def advance(node, scene) -> NodeProgress`.

Belongs: what a kind of node asks for, and what its answer means.   Does not: when a node runs, what follows from a failure, undo.
`advance` is called again and again until it returns an outcome. It looks up what it asked for before, asks for what is missing, and
returns None while it waits. Start reading at worker.py.
"""
