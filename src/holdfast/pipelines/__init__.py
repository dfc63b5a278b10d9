"""pipelines — orchestration over workers: a pipeline is data (a graph), and one durable execution runs it.

Belongs: the graph and its checks, the builder that authors use, the interpreter with a file for each kind of node, merges, drawings.
Does not: calls of author code in the runner's process (builders and steps run in the sandbox), SQL, HTTP.   May import: workers and what
stands below it.

graph       what a pipeline is; start at graph/graph.py
page        the same graph as a pipeline.md, both ways
builder     how an author writes it, and how the runner gets its graph
check       what is wrong with a graph, before anything runs
estimate    what a run may cost, before it begins
draw        a graph as text and as a picture
record      what a run writes down, and how it is read
steps       functions of the author's file, in the sandbox
restart     what a restart takes from earlier runs
scene       what a node may ask for
nodes       one file for each kind of node
run         the interpreter; run/run.py is how a pipeline runs
"""
