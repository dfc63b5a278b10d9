"""descriptions — executions and runs as people read them. Every function here only reads the store.

executions.py      what an execution is, its history, its failures, and what it waits for; start here
history.py         the history as objects (`HistoryEvent`)
why.py             why an execution is in its present state, in one sentence
failure_path.py    the operation that caused a failure, and the path to it
open_callbacks.py  the callbacks that wait for an answer
pipeline_view.py   a run of a pipeline: its graph, its nodes, its maps
run_events.py      the recorded events of a run

Belongs: descriptions of one execution or one run.   Does not: changes; queues and schedules (their packages describe them); costs.
May import: holdfast.queues, for the place of an execution in its queue, and packages below it.
"""
