"""pipelines — orchestration over workers: a pipeline is data (a graph), and each run of a pipeline is a durable execution.

Belongs: the graph and its checks, the builder that authors use, the interpreter with a file for each kind of node, estimates, drawings.
Does not: SQL, HTTP, author code in the runner's process (builders and steps run in the sandbox, unless the isolation is `inline`).
May import: workers, and what workers may import.

graph       what a pipeline is; start at graph/graph.py
page        reads a graph from a pipeline.md, and writes it as one
builder     how an author writes a pipeline in Python, and how the runner gets its graph
check       finds what is wrong with a graph, before anything runs
estimate    what a run may cost, before it begins and while it runs
draw        a graph as text and as a picture
record      what a run writes into its journal, and how that is read
steps       calls functions of the author's file, in the sandbox
restart     what a restart takes from earlier runs
scene       what a node may ask for while it runs
nodes       one file for each kind of node
run         the interpreter; run/run.py is how a pipeline runs
"""
