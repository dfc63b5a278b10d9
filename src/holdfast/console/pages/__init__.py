"""pages — one module for each group of pages: it reads its source, and renders a template.

Belongs: handlers that take a page request and return a reply.
Does not: reads and actions themselves (sources), HTML (templates/).
May import: the console's other modules, holdfast.web and the packages below it; never the store or the engine.   Start reading at runs.py.
"""
