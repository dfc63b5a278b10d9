-- The ledger and its daily sums, and the estimated money of executions that wait in queues.
ALTER TABLE executions ADD COLUMN money INTEGER;
ALTER TABLE lanes ADD COLUMN money INTEGER NOT NULL DEFAULT 0;

-- The ledger: what each call of a model has reserved and spent (model/ledger.py). Rows are added, and removed when their time is over; no
-- row is ever changed.
CREATE TABLE ledger (
    number       INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    day          INTEGER NOT NULL,
    tenant       TEXT NOT NULL,
    pipeline     TEXT NOT NULL,
    node         TEXT NOT NULL,
    worker       TEXT NOT NULL,
    run          TEXT NOT NULL,
    root         TEXT NOT NULL,
    path         TEXT NOT NULL,
    owner        TEXT NOT NULL,
    call         TEXT NOT NULL,
    model        TEXT NOT NULL,
    state        TEXT NOT NULL,
    input        INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    cached       INTEGER NOT NULL,
    reasoning    INTEGER NOT NULL,
    nanos        INTEGER NOT NULL,
    held_tokens  INTEGER NOT NULL,
    held_nanos   INTEGER NOT NULL,
    price_source TEXT NOT NULL,
    price_date   TEXT NOT NULL,
    expires_at   INTEGER NOT NULL,
    UNIQUE (run, call, state)
);
CREATE INDEX ledger_by_root ON ledger (root);
CREATE INDEX ledger_by_pipeline ON ledger (pipeline, number) WHERE pipeline <> '' AND state <> 'reserved';
CREATE INDEX ledger_expiring ON ledger (expires_at);
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_is_not_removed BEFORE DELETE ON ledger WHEN OLD.expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0) BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;

-- The sums of the ledger, by UTC day. Every write that adds to the ledger adds to these, too.
CREATE TABLE ledger_days (
    day         INTEGER NOT NULL,
    tenant      TEXT NOT NULL,
    pipeline    TEXT NOT NULL,
    node        TEXT NOT NULL,
    worker      TEXT NOT NULL,
    model       TEXT NOT NULL,
    state       TEXT NOT NULL,
    expires_at  INTEGER NOT NULL,
    calls       INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cached      INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    nanos       INTEGER NOT NULL,
    held_tokens INTEGER NOT NULL,
    held_nanos  INTEGER NOT NULL,
    PRIMARY KEY (day, tenant, pipeline, node, worker, model, state, expires_at)
) WITHOUT ROWID;
CREATE INDEX ledger_days_expiring ON ledger_days (expires_at);
