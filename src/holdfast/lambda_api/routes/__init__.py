"""lambda_api.routes — AWS Lambda's API over HTTP: one module for each group of operations.

Belongs: reading a request, calling operations, shaping the answer.   Does not: decide anything about executions.
May import: holdfast.lambda_api.operations, holdfast.web.   Start reading at app.py.
"""
