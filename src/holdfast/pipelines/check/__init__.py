"""check — what is wrong with a graph, found before anything runs. Pure functions over a `Graph` and the contracts of its workers.

whole.py           `problems`: runs all checks of a graph; start here
table.py           the codes, and what a problem is
known.py           the workers that a graph may name, and what they may change
structure.py       names, cycles, loops, bounds, labels
reference_types.py the type of every reference and template
inputs.py          compares what a node gives its worker with the worker's contract
fit.py             compares two JSON Schemas; shapes.py reads them
nested.py          pipelines that run other pipelines
safety.py          fallbacks, undo, and side effects that no gate and no person guards
"""
