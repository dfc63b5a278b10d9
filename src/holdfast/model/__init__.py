"""model — pure data and rules: what an execution is, and what each write may do to it.

Belongs: operations and what an update may do to them (operations.py, transitions.py); executions and their life (execution.py, life.py);
the writes that a store commits (verbs.py, outside.py, follow_ups.py); queues (queues.py, admission.py) and schedules (schedules.py;
schedule_times.py and cron.py: at which moments; schedule_steps.py: what is started when); history, signals, audit notes, counters and
credentials as values; ids.py and clock.py, the only modules here that read the machine's random numbers and clocks; the wire form of AWS;
the ports between the layers; errors.
Does not: I/O, SQL, user code; and asyncio only in threads.py, the pools for blocking calls, which stand here because every layer uses them.
May import: nothing of Holdfast's.   Start reading at operations.py, then transitions.py.
"""
