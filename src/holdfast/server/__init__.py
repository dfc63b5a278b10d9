"""server — HTTP: AWS Lambda's durable API as unmodified clients speak it, and what a server needs around it.

Belongs: routes, headers, encodings, error shapes, limits, the listener.
Does not: what an operation means (service.lambda_api's).   May import: holdfast.service and below.   Start reading at app.py.
"""
