"""builder — how an author writes a pipeline in Python, and how the runner gets its graph from the file.

pipeline.py     `Pipeline`: one verb (a method that adds a node) for each kind of node; start here
worker_verbs.py the verbs of nodes that run workers one at a time
handles.py      what a verb returns; expressions.py has the references and conditions that authors write
arguments.py    the arguments that several verbs share
declared.py     the line `p = Pipeline(…)`, read from the source; contract.py makes its contract
build.py        from a file to graphs: the sandbox runs the file (entry.py is inside), the runner reads what it sends
build_page.py   from a pipeline.md to its graph, without the sandbox
"""
