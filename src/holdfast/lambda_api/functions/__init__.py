"""catalogue — deployed functions: their code, configuration, versions and aliases, kept on disk beside the store.

Belongs: what CreateFunction and its neighbours mean, and the files they are kept in.
Does not: HTTP, running functions, reading templates.   May import: holdfast.lambda_api.operations, holdfast.model.
Start reading at records.py, then catalogue.py. packing.py takes code from strangers.
"""
