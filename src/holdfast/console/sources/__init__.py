"""sources — what a page reads and what an action does, for one caller, over a store.

Belongs: one module for each group of pages, with the values that its templates show. Every read and every action goes through a `Viewer`,
which knows the caller. For a caller of one tenant it shows nothing of other tenants.
Does not: HTML, HTTP, templates (pages).
May import: the packages below holdfast.web (keys.py also holdfast.web); console.query, console.run_as_test, console.run_names,
console.schema_form and console.server_process; never a module of pages.
Start reading at viewer.py, then runs.py.
"""
