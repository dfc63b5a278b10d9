"""logs — the log lines of functions: kept for a limited time beside the store, and read through the API of CloudWatch Logs.

Belongs: the record of a line, filter patterns, the files, the thread that writes them, reading in pages.
Does not: HTTP; capturing what processes print (lambda_api.runtime.process_output does).
May import: lambda_api.runtime.process_output, holdfast.hosts and below.
Start reading at log_lines.py (one kept line), then log_writer.py and log_reader.py. segments.py has the files; log_operations.py answers
requests.
"""
