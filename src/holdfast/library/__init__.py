"""library — ready workers, a folder each: the page (worker.md), the function, an example input.

Belongs: workers that many can use as they are, and the pure code they need.
Does not: how workers run (holdfast.workers).   May import: holdfast.workers, holdfast.contract, holdfast.model.
Start reading at web_scrape/.
"""
