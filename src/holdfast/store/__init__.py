"""store — the seam: every durable transition as a verb, on disk before it is answered.

Belongs: the specification of a store (seam.py), its backends, the choice between them (opening.py), and the neutral half that both
backends use: rows.py (values to rows and back), views.py (what a decision may look at), pages.py (lists with a damaged row in them).
Does not: decide what a write means (model.verbs does), run timers, know handlers.   May import: holdfast.model.
Start reading at seam.py, then sqlite/store.py.
"""
