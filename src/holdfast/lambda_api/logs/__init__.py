"""service.logs — what functions logged: kept for a while beside the store, and read as from CloudWatch Logs.

Belongs: the record of a line, filter patterns, the files, the thread that writes them, reading in pages.
Does not: HTTP; capturing what processes print (hosts.runtime.output does).
May import: holdfast.hosts and below.
Start reading at records.py, then keeping.py and reading.py.
"""
