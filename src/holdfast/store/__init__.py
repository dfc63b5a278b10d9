"""store — keeps executions on disk: what `commit` has answered survives a power cut.

Belongs: the specification of a store (seam.py, with schedule_seam.py, ledger_seam.py and browse_seam.py) and its values (values.py);
the backends `sqlite` and `postgres`, and the choice between them (backends.py); and the neutral half, the code that both backends share:
- a batch: decisions.py decides its entries, views.py shows them the executions, isolation.py finds the entry that makes a batch fail;
- rows: rows.py (values to rows and back), damaged_rows.py (lists in which a row may be damaged), reads.py, list_query.py;
- queues: admission_order.py decides which queued execution is admitted next, lane_book.py keeps what a batch changes in lanes,
  lane_rows.py has their rows, queue_reads.py reads queues for callers;
- searches by people: browse.py has the values, browse_query.py the indexes and filters, browse_walk.py the bound,
  browse_values.py the completion of a value, browse_reads.py the other reads;
- other parts: one_write.py, changes.py (writes of schedules and of what the console keeps), ledger.py, outbox.py, snapshots.py,
  retention.py, connection.py, encryption.py;
- the operator's part: maintenance.py, schema_migrations.py.
Does not: decide what a write means (model.verbs does), run timers, know handlers.   May import: holdfast.files, holdfast.model.
Start reading at seam.py, then decisions.py, then sqlite/store.py.
"""
