-- For past calls of a worker's runs that no pipeline asked for. They tell what a run of the worker usually costs.
CREATE INDEX ledger_by_worker ON ledger (worker, number) WHERE pipeline = '' AND state <> 'reserved';
