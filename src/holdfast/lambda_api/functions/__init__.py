"""functions — deployed functions: their code, configuration, versions and aliases, kept on disk beside the store.

Belongs: CreateFunction and the other operations that deploy functions, and the files in which functions are kept.
Does not: HTTP, running functions, reading templates.
May import: holdfast.lambda_api.operations, holdfast.lambda_api.runtime (only runtime_description.py), holdfast.engine, holdfast.files,
holdfast.model.
Start reading at function_records.py (one function on disk), then deployed.py (the operations). function_folder.py writes the files;
code_files.py unpacks uploaded code and treats it as hostile; served_functions.py shows deployed functions and those of
the program as one list.
"""
