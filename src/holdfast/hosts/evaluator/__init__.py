"""evaluator — values are checked against schemas in processes that can be ended, where the check might take long.

Belongs: starting, sharing and ending those processes; which check may be made in place and which may not.
Does not: what a schema means, what it can cost (holdfast.contract).   May import: holdfast.contract, holdfast.model.
Start reading at checking.py. child.py runs inside the processes.
"""
