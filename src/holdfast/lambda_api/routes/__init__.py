"""lambda_api.routes — AWS Lambda's API over HTTP: one module for each group of operations.

Belongs: routes with their policies, handlers that read a request, call an operation and make the reply, and errors as AWS's clients read
them (aws_errors.py).
Does not: decide anything about executions.
May import: holdfast.lambda_api.operations, holdfast.lambda_api.functions, holdfast.lambda_api.logs, holdfast.lambda_api.templates,
holdfast.lambda_api.serving, holdfast.web, holdfast.model.
Start reading at app.py.
"""
