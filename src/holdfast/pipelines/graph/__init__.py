"""graph — what a pipeline is: frozen data, its JSON, its bounds, and what follows from it alone. Pure: no I/O, no clock.

graph.py        the nodes and the graph; start here
graph_json.py   the canonical JSON of a graph, its id, and a reader that trusts no text
templates.py    JSON with references in it: the closed list of forms; resolved_templates.py gives their values
edges.py        which node waits for which; order.py has all nodes above and below a node, structure.py the nodes that a revision runs again
bounds.py       the limits that keep a hostile graph small; durations.py reads durations, paths.py reads paths
contract.py     the contract inside a graph
refusals.py     PipelineInvalid
"""
