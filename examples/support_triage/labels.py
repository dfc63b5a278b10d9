"""The teams that a message may go to, as the router sees them. A label that is no team ends the triage in another way."""

TEAMS = ["billing", "delivery", "technical"]

LABELS = {
    "billing": "an invoice, a payment or a refund",
    "delivery": "a parcel that is late, lost or damaged",
    "technical": "a product that does not work as it should",
    "spam": "advertising that no customer asked for",
}
