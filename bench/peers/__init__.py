"""bench.peers — the same workloads on other systems, so that a ratio has somebody to be a ratio to.

Belongs: one program per peer, what it needs (`<peer>.txt`: names and versions, the peer first), and running.py, which gives each an
environment of its own.   Does not: anything of Holdfast's.   May import: bench.terms, bench.http_driving and
bench.http_functions, which need nothing of ours; a program also its peer.

A program is `python -m bench.peers.<peer> WORKLOAD FOLDER SIZES` and prints on its last line, as JSON, its samples by the keys of
bench/lines.py in plain units (seconds, per second, bytes, a share of one). It warms up first and repeats like ours. Every peer gets its
durable mode and the best settings its documentation names; each program says which and why.
"""
