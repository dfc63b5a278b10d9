-- Past calls of a worker that no pipeline asked for: they tell what a run of it usually costs.
CREATE INDEX ledger_by_worker ON ledger (worker, number) WHERE pipeline = '' AND state <> 'reserved';
