"""lambda_api — AWS Lambda's API on your own machine: unmodified handlers, boto3 and the AWS CLI work with it.

Belongs: operations (the durable API as Python calls), functions (deployed code, versions, aliases), templates (SAM, and what `holdfast
serve` is given), logs (CloudWatch Logs), runtime (processes that speak the Runtime API), routes (all of it over HTTP), and serving.py,
which builds its objects.   Does not: workers, the worker protocol.   May import: holdfast.web and what stands below it.
Start reading at operations/api.py, then serving.py.
"""
