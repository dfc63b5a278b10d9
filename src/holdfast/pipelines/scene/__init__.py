"""scene — what a node may ask for while it runs (values, child runs, a person, a wait), and what follows if the node fails.

scene.py        the scene of a node; start here
children.py     child runs; shards.py runs the items of a map, earlier_items.py finds those of earlier runs
chains.py       escalation chains: more approvers for a question that stays open
failure.py      fallbacks in turn, then the node's `on_failure`
run_values.py   the values of templates, with artifacts opened; mismatch.py makes errors that name an edge of the graph;
                large_values.py computes with large values in a thread
invocation.py   one invocation of one run: the data that all nodes share
environment.py  what a run needs from the service around it
"""
