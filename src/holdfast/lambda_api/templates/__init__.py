"""templates — the targets of `holdfast serve`: templates, Python files and modules, folders. Each becomes descriptions of functions.

Belongs: reading SAM and CloudFormation templates, resolving intrinsic functions as far as a local run can, finding functions in files.
Does not: deploying or running what was found.
May import: holdfast.lambda_api.functions, holdfast.lambda_api.operations, holdfast.lambda_api.runtime (only runtime_description.py),
holdfast.author_files, holdfast.queues, holdfast.schedules, holdfast.library, holdfast.workers, holdfast.durable, holdfast.model, PyYAML.
Start reading at targets.py, then template.py. A template is untrusted input: yaml_text.py limits its size and depth.
"""
