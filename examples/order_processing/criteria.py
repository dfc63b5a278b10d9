"""What an order must keep: rules, which are exact, and criteria in words, which a model judges."""

RULES = [
    {"path": ".items", "op": "length_at_least", "value": 1, "code": "no_items", "message": "The order has no item."},
    {"path": ".items[*].quantity", "op": "at_least", "value": 1, "code": "no_quantity", "message": "A quantity is below 1."},
    {"path": ".total", "op": "at_most", "value": 5000, "code": "too_dear", "message": "The total is above 5000."},
]
CRITERIA = (
    "The note of the customer does not contradict the items, the quantities or the address of the order. "
    "The address is one to which a parcel can be sent."
)
