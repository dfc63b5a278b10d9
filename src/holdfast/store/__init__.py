"""store — the seam: every durable transition as a verb, on disk before it is answered.

Belongs: the specification of a store (seam.py), its backends, the choice between them (opening.py).
Does not: decide what a write means (model.verbs does), run timers, know handlers.   May import: holdfast.model.
Start reading at seam.py, then sqlite/store.py.
"""
