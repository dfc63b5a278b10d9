"""restarts — work that is done again: plans and starts restarts, and compares two runs.

runs.py            restarts of runs of workers and pipelines; start here
executions.py      restarts of durable functions, with a part of their history
comparisons.py     two runs, compared
store_restarts.py  all of this with only a store, without an engine

Belongs: what a restart takes from an earlier run, and its start.   Does not: parked executions (queues/redrives.py); the methods of an open
engine (service/open_engine/restart_verbs.py).
May import: holdfast.costs, holdfast.descriptions, holdfast.exports, and packages below these.
"""
