"""service — use cases and wiring: the only place that builds objects.

Belongs: settings, opening an engine in both colours, what people do to executions, why an execution waits.
Does not: terminals, HTTP.   May import: everything below it.   Start reading at opening.py.
"""
