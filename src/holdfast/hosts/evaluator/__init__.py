"""evaluator — checks values against schemas. A check that might take long runs in another process, which can be killed.

Belongs: starting, sharing and ending those processes; the decision which check runs in the caller's process.
Does not: what a schema means, what it can cost (holdfast.contract).   May import: holdfast.contract, holdfast.model,
hosts.processes, hosts.cpu_shares.
Start reading at schema_check.py, then evaluator_pool.py and evaluator_process.py. evaluator_main.py runs inside the processes.
"""
