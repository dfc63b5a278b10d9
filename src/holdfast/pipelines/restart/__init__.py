"""restart — restarts of pipelines: what an earlier run did, which of its results a restart reuses, and how two runs differ.

forerunners.py   the earlier runs of a restarted run, and what a node may take from them; start here
items.py         the same for the items of a map
restart_plan.py  what a restart will reuse and what it will run again, for people, before it starts
compare.py       two runs, node by node
"""
