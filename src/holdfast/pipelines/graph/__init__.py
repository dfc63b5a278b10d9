"""graph — what a pipeline is: frozen data, its JSON, its bounds, and what follows from it alone. Pure: no I/O, no clock.

graph.py        the nodes and the graph; start here
text.py         the canonical JSON of a graph, its id, and a reader that trusts no text
templates.py    JSON with references in it: the closed list of forms; references.py gives their values
edges.py        who waits for whom; order.py says what stands above and below, structure.py which nodes a revision runs again
bounds.py       what keeps a hostile graph small; durations.py and paths.py read the small forms
contract.py     the contract inside a graph
refusals.py     PipelineInvalid
"""
