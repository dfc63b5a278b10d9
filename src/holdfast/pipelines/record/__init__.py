"""record — what a run writes into its journal, and how that is read again.

operations.py   the operations of a run; their identities are computed from names
results.py      how a node ended, and the document in which references find values; start here
responses.py    the response of a child run
choices.py      what a supervisor chose, and why
reused.py       what an earlier run of a restarted pipeline gave
records.py      what is in the journal, and what is about to be written
states.py       the nodes of a run with their states, for people; notes.py adds a short text
"""
