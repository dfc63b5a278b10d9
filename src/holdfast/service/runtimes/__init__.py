"""runtimes — what an engine needs to run workers and pipelines, built from their files and from the operator's settings.

worker_runtime.py    makes workers from their files, and connects them to an engine; start here
pipeline_runtime.py  builds the pipelines of files, checks them, and finds the graphs of runs
worker_signals.py    logs, metrics and traces of workers
function_signals.py  metrics and traces of durable functions
worker_replays.py    runs a worker again on the recorded tool calls of one of its runs

Belongs: putting the objects of lower packages together for one engine.   Does not: opening the engine (engines.py), reading holdfast.toml
(holdfast.operator).   May import: packages below service.
"""
