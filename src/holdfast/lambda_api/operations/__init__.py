"""operations — the operations of AWS Lambda's durable API as Python calls on an engine.

Belongs: what each operation accepts, does and answers, with AWS's names, limits and messages; answers are in the API's wire form.
Does not: HTTP (lambda_api.routes), credentials, processes.
May import: holdfast.descriptions, holdfast.engine, holdfast.store, holdfast.model.
Start reading at api.py, which has one method per operation; invoke.py and executions.py do the work.
"""

from holdfast.lambda_api.operations.api import LambdaApi

__all__ = ["LambdaApi"]
