-- The ledger and its daily sums, and the estimated money of executions that wait in queues.
ALTER TABLE executions ADD COLUMN money BIGINT;
ALTER TABLE lanes ADD COLUMN money BIGINT NOT NULL DEFAULT 0;

-- The ledger: what each call of a model has reserved and spent (model/ledger.py). Rows are added, and removed when their time is over; no
-- row is ever changed.
CREATE TABLE ledger (
    number       BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           BIGINT NOT NULL,
    day          BIGINT NOT NULL,
    tenant       TEXT COLLATE "C" NOT NULL,
    pipeline     TEXT COLLATE "C" NOT NULL,
    node         TEXT COLLATE "C" NOT NULL,
    worker       TEXT COLLATE "C" NOT NULL,
    run          TEXT COLLATE "C" NOT NULL,
    root         TEXT COLLATE "C" NOT NULL,
    path         TEXT COLLATE "C" NOT NULL,
    owner        TEXT COLLATE "C" NOT NULL,
    call         TEXT COLLATE "C" NOT NULL,
    model        TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    input        BIGINT NOT NULL,
    output       BIGINT NOT NULL,
    cached       BIGINT NOT NULL,
    reasoning    BIGINT NOT NULL,
    nanos        BIGINT NOT NULL,
    held_tokens  BIGINT NOT NULL,
    held_nanos   BIGINT NOT NULL,
    price_source TEXT COLLATE "C" NOT NULL,
    price_date   TEXT COLLATE "C" NOT NULL,
    expires_at   BIGINT NOT NULL,
    UNIQUE (run, call, state)
);
CREATE INDEX ledger_by_root ON ledger (root);
CREATE INDEX ledger_by_pipeline ON ledger (pipeline, number) WHERE pipeline <> '' AND state <> 'reserved';
CREATE INDEX ledger_expiring ON ledger (expires_at);

-- The sums of the ledger, by UTC day. Every write that adds to the ledger adds to these, too.
CREATE TABLE ledger_days (
    day         BIGINT NOT NULL,
    tenant      TEXT COLLATE "C" NOT NULL,
    pipeline    TEXT COLLATE "C" NOT NULL,
    node        TEXT COLLATE "C" NOT NULL,
    worker      TEXT COLLATE "C" NOT NULL,
    model       TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    expires_at  BIGINT NOT NULL,
    calls       BIGINT NOT NULL,
    input       BIGINT NOT NULL,
    output      BIGINT NOT NULL,
    cached      BIGINT NOT NULL,
    reasoning   BIGINT NOT NULL,
    nanos       BIGINT NOT NULL,
    held_tokens BIGINT NOT NULL,
    held_nanos  BIGINT NOT NULL,
    PRIMARY KEY (day, tenant, pipeline, node, worker, model, state, expires_at)
);
CREATE INDEX ledger_days_expiring ON ledger_days (expires_at);
