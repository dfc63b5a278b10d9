"""author_files — what is in the files that authors write: functions, workers, pipelines, queues and schedules.

function_loader.py  loads durable functions by address; start here
worker_search.py    finds the workers and pipelines that a file names
declared_beside.py  the queues and schedules that a file declares beside its functions
author_code.py      the code of a file that would run outside the sandbox

Belongs: finding and loading what an author wrote.   Does not: running it; packages and templates of Lambda (holdfast.lambda_api).
May import: holdfast.queues and holdfast.schedules (their declarations), and packages below these.
"""
