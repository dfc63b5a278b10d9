"""data_validation — checks records by a schema and rules that the operator stores by name; every error has its record, path and code.

Belongs: the worker and its page, an example input, and parameters, so that it runs as it is. Does not: other parts of Holdfast. Start
reading at worker.py.
"""
