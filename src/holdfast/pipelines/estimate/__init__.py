"""estimate — the most that a pipeline's run can cost, and what such runs usually cost. Pure.

Belongs here: how the caps of workers, the sizes of maps and the rounds of loops make a worst case, and how past runs make a usual case.
Does not belong here: reading the ledger, prices of models (workers), and what follows from an estimate (service).
May import what pipelines may import.   Start reading at estimate.py, then worst.py.
"""
