"""record — what a run writes down in its journal, and how it is read again.

operations.py   the operations of a run, and the identities that follow from their names
results.py      how a node ended, and the document that references walk in; start here
responses.py    the response of a child run
choices.py      what a supervisor chose, and why
reused.py       what an earlier run of a restarted pipeline gave
records.py      what is in the journal, and what is about to be written
states.py       the nodes of a run with their states, for people; notes.py adds a short text
"""
