"""console — the pages on which people watch runs, see why they wait, and act.

Belongs: pages, their templates, style and scripts; errors as pages; what a page reads and does (`sources`), for one caller.
Does not: how HTTP is spoken and who may ask (holdfast.web), what an action means (holdfast.service, holdfast.workers).
May import: holdfast.web and the packages below it.   Start reading at site.py, then page_request.py, then any one module of pages/.
"""
