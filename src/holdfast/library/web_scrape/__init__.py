"""web_scrape — fetch a page, extract fields, return clean JSON.

Belongs: the worker and its page; reading an extraction spec, finding values in a page, making them what the spec says.
Does not: fetching (the tool fetch_url).   May import: holdfast.workers.tools, holdfast.model.   Start reading at extraction.py.
"""
