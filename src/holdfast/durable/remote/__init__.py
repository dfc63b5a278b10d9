"""remote — durable functions in processes without an engine: in a Lambda runtime, on AWS's test runner, or in a server's runtime process.

Belongs: one invocation from its event to its output, and the port over a Lambda client; boto3 is named nowhere else.
Does not: what a durable call means.   May import: holdfast.durable, holdfast.model. Loaded only when a runtime calls a durable function.
Start reading at lambda_entry.py.
"""
