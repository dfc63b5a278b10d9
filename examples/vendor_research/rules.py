"""What a report must keep before a person sees it, and what its published page must have."""

RULES = [
    {"path": ".summary", "op": "length_at_most", "value": 280, "code": "summary_too_long", "message": "It has more than 280 characters."},
    {"path": ".products", "op": "length_at_least", "value": 1, "code": "no_products", "message": "The report names no product."},
    {"path": ".sources", "op": "length_at_least", "value": 1, "code": "no_sources", "message": "The report names no page."},
    {"path": ".prices", "op": "exists", "code": "no_prices", "message": "There is no price list.", "severity": "warning"},
]

PUBLISHED = {"fields": {"vendor": {"css": "h1", "required": True}, "summary": {"css": ".summary", "required": True}}}
