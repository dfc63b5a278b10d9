"""bench.peers — the same workloads on other systems, for comparison.

Belongs: one program per peer, its requirements (`<peer>.txt`: names and versions, the peer first), and peer_runs.py, which makes an
environment for each peer and runs its program.   Does not: anything of Holdfast.   May import: bench.terms, bench.http_load and
bench.http_functions, which import nothing of Holdfast; a program also imports its peer.   Start reading at peer_runs.py.

A program is `python -m bench.peers.<peer> WORKLOAD FOLDER SIZES` and prints on its last line, as JSON, its samples by the keys of
bench/lines.py in plain units (seconds, per second, bytes, a share of one). It warms up first and repeats like ours. Every peer gets its
durable mode and the best settings its documentation names; each program says which and why.
"""
