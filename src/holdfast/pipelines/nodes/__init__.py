"""nodes — one file for each kind of node, all of one shape: `async def advance(node, scene) -> NodeProgress`.

Belongs: what a kind of node asks for, and what the answers mean.   Does not: when a node runs or is undone, what follows from a failure.
`advance` is called again and again until it returns an outcome. Each call finds the answers to earlier questions in the records, asks for
what is missing, and returns None while it waits. Start reading at worker.py.
"""
