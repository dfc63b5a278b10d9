"""web_scrape — fetches a page, extracts fields, and returns them as JSON.

Belongs: the worker and its page; reading an extraction spec, finding values in a page, converting them to the types of the spec. Does not:
fetching (the tool fetch_url). May import: holdfast.workers.tools, holdfast.model. Start reading at extraction.py.
"""
