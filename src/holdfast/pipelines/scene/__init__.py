"""scene — what a node may ask for while it runs: values, child runs, a person, a time, and what follows if it fails.

scene.py        the scene of a node; start here
children.py     child runs; shards.py runs the items of a map, earlier_items.py finds those of earlier runs
chains.py       escalation chains: more approvers for a question that stays open
failure.py      fallbacks in turn, then the node's `on_failure`
values.py       templates resolved, artifacts opened; mismatch.py names the edge in an error
invocation.py   one invocation of one run: what all of them share
environment.py  what a run needs from the service around it
"""
