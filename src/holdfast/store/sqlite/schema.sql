-- The embedded store. Times are integer milliseconds since the epoch. Payloads and details are JSON text.
-- docs/internals/engine.md explains every column that fences a write.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- One row for each execution: the values that a write is checked against, and nothing large (payloads are in `events`). The other tables
-- have `key` instead of `id`, because they have many rows, and a short key keeps them small.
CREATE TABLE executions (
    key             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL,
    function        TEXT NOT NULL,
    version         TEXT NOT NULL,
    name            TEXT NOT NULL,
    input_hash      TEXT NOT NULL,
    timeout_seconds INTEGER NOT NULL,
    retention_days  INTEGER NOT NULL,
    max_operations  INTEGER NOT NULL,
    max_bytes       INTEGER NOT NULL,
    parent          TEXT,
    parent_operation TEXT,
    cascade         INTEGER NOT NULL,
    tenant          TEXT,
    started_at      INTEGER NOT NULL,
    deadline        INTEGER NOT NULL,
    status          TEXT NOT NULL,
    state           TEXT NOT NULL,
    epoch           INTEGER NOT NULL,
    revision        INTEGER NOT NULL,
    sequence        INTEGER NOT NULL,
    events          INTEGER NOT NULL,
    pending         INTEGER NOT NULL,
    runner          TEXT,
    invocation      TEXT,
    invoked_at      INTEGER,
    seen            INTEGER NOT NULL,
    ended_at        INTEGER,
    result_event    INTEGER,
    due_at          INTEGER,
    ready_at        INTEGER NOT NULL,
    touched_at      INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    deaths          INTEGER NOT NULL,
    client          TEXT,
    client_revision INTEGER NOT NULL,
    operations      INTEGER NOT NULL,
    stored          INTEGER NOT NULL,
    continued_as    TEXT,
    expires_at      INTEGER,
    trace           TEXT,
    superseded_by   TEXT,
    quarantine      TEXT,
    quarantine_event INTEGER,
    graph           TEXT,
    queue           TEXT,
    lane            TEXT,
    order_at        INTEGER,
    admitted_at     INTEGER,
    holds_waiting   INTEGER,
    units           INTEGER,
    parks           INTEGER,
    parked          INTEGER NOT NULL DEFAULT 0,
    money           INTEGER,
    outcome         TEXT,
    error_code      TEXT,
    pipeline        TEXT,
    cost            INTEGER,
    attempt         INTEGER,
    attempts        INTEGER
);

CREATE UNIQUE INDEX executions_by_id ON executions (id);
-- A name belongs to one execution of a function until retention removes the execution, or until the name is started again. Then the old
-- execution is superseded. The name is the first column, because people also search for a name alone.
CREATE UNIQUE INDEX executions_by_name ON executions (name, function) WHERE superseded_by IS NULL;
CREATE INDEX executions_superseded ON executions (name, function) WHERE superseded_by IS NOT NULL;
-- For the lists that people ask for, newest first. Most executions have succeeded, so the index of statuses does not contain these.
CREATE INDEX executions_by_function ON executions (function, id);
CREATE INDEX executions_by_status ON executions (status, id) WHERE status <> 'SUCCEEDED';
CREATE INDEX executions_by_parent ON executions (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX executions_by_tenant ON executions (tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX executions_by_error ON executions (error_code, id) WHERE error_code IS NOT NULL;
CREATE INDEX executions_by_pipeline ON executions (pipeline, id) WHERE pipeline IS NOT NULL;
-- Runs that failed or gave only a part: their executions have succeeded, with a response that says so.
CREATE INDEX executions_by_outcome ON executions (outcome, id) WHERE outcome IS NOT NULL AND outcome <> 'ok';
-- For the queries that runners repeat all the time. Each index contains only the rows that such a query can find.
CREATE INDEX executions_ready_of ON executions (function, version, ready_at) WHERE state = 'ready' AND deaths < 2;
CREATE INDEX executions_suspect ON executions (ready_at) WHERE state = 'ready' AND deaths >= 2;
CREATE INDEX executions_due ON executions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX executions_held ON executions (runner) WHERE runner IS NOT NULL;
CREATE INDEX executions_invoked ON executions (parent) WHERE parent IS NOT NULL AND status = 'RUNNING';
CREATE INDEX executions_expiring ON executions (expires_at) WHERE expires_at IS NOT NULL;
-- For retention: whether an execution still names a graph.
CREATE INDEX executions_by_graph ON executions (graph) WHERE graph IS NOT NULL;

-- For queues: executions that wait in a lane or may return to it, how long one has waited, parked executions, and the list of a queue.
CREATE INDEX executions_in_lane ON executions (lane, state, order_at, id) WHERE state IN ('queued', 'delayed', 'suspended', 'quarantined') AND lane IS NOT NULL;
CREATE INDEX executions_waiting ON executions (queue, ready_at) WHERE state = 'queued';
CREATE INDEX executions_delayed ON executions (queue) WHERE state = 'delayed';
CREATE INDEX executions_parked ON executions (queue, id) WHERE parked = 1 AND superseded_by IS NULL;
CREATE INDEX executions_by_queue ON executions (queue, id) WHERE queue IS NOT NULL;

-- Queues: what the code declares, what an operator has set, and whether the queue is open, paused or draining.
CREATE TABLE queues (
    name     TEXT PRIMARY KEY,
    declared TEXT NOT NULL DEFAULT '{}',
    operator TEXT NOT NULL DEFAULT '{}',
    mode     TEXT NOT NULL DEFAULT 'open',
    revision INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Lanes: each level of a queue, with the slots that are held and the executions that wait below it (store/admission_order.py). The lane without a
-- name is above all queues.
CREATE TABLE lanes (
    key          TEXT PRIMARY KEY,
    queue        TEXT NOT NULL,
    parent       TEXT,
    level        TEXT NOT NULL,
    function     TEXT,
    version      TEXT,
    held         INTEGER NOT NULL DEFAULT 0,
    waiting      INTEGER NOT NULL DEFAULT 0,
    at_once      INTEGER NOT NULL,
    closed_until INTEGER NOT NULL DEFAULT 0,
    paused       INTEGER NOT NULL DEFAULT 0,
    turn         INTEGER NOT NULL DEFAULT 0,
    clock        INTEGER NOT NULL DEFAULT 0,
    admitted     INTEGER NOT NULL DEFAULT 0,
    drain        REAL NOT NULL DEFAULT 0,
    drained_at   INTEGER NOT NULL DEFAULT 0,
    money        INTEGER NOT NULL DEFAULT 0,
    shared_rate  TEXT
) WITHOUT ROWID;
CREATE INDEX lanes_open ON lanes (parent, turn, key) WHERE waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0;
CREATE INDEX lanes_closed ON lanes (closed_until) WHERE closed_until > 0 AND waiting > 0;
CREATE INDEX lanes_of_function ON lanes (function, version) WHERE waiting > 0 AND function IS NOT NULL;
CREATE INDEX lanes_of_queue ON lanes (queue, key);
CREATE INDEX lanes_idle ON lanes (drained_at) WHERE held = 0 AND waiting = 0 AND parent <> '';
CREATE INDEX lanes_sharing ON lanes (shared_rate) WHERE shared_rate IS NOT NULL;
INSERT INTO lanes (key, queue, level, at_once) VALUES ('', '', 'root', 0);

-- Rates: the step of one unit, the burst, and the time at which all that was admitted would be used up (model/rates.py). `lane` is the key
-- of a lane, or the `shared_rate` of several.
CREATE TABLE rates (
    lane    TEXT NOT NULL,
    kind    TEXT NOT NULL,
    step_ns INTEGER NOT NULL,
    burst   INTEGER NOT NULL,
    tat_ns  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, kind)
) WITHOUT ROWID;

-- The graphs of pipelines. The id is the SHA-256 of the plain text. The text is encoded like a payload.
CREATE TABLE graphs (
    id   TEXT PRIMARY KEY,
    text TEXT NOT NULL
) WITHOUT ROWID;

-- One row per operation as it stands now. Its result or error is the payload of event `payload_event`.
-- Rows lie in the order they were written, with a small index beside them: a batch of many executions then fills a few pages instead of
-- touching one page of each.
CREATE TABLE operations (
    execution       INTEGER NOT NULL,
    id              TEXT NOT NULL,
    type            TEXT NOT NULL,
    status          TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    sub_type        TEXT,
    name            TEXT,
    parent_id       TEXT,
    ended_at        INTEGER,
    attempt         INTEGER NOT NULL,
    due_at          INTEGER,
    timeout_at      INTEGER,
    heartbeat_ms    INTEGER NOT NULL,
    replay_children INTEGER NOT NULL,
    place           INTEGER NOT NULL,
    payload_event   INTEGER,
    revision        INTEGER NOT NULL
);

CREATE UNIQUE INDEX operations_by_place ON operations (execution, place);
CREATE INDEX operations_due ON operations (execution, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX operations_ready ON operations (execution) WHERE status = 'READY';
CREATE INDEX operations_undecided ON operations (execution) WHERE sub_type = 'Approval' AND status = 'STARTED';

-- The history of executions, to which rows are only added, and the only table with payloads. `place` says which operation an event is
-- about: it is the number of the event that began the operation.
CREATE TABLE events (
    execution INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    type      TEXT NOT NULL,
    at        INTEGER NOT NULL,
    place     INTEGER,
    payload   TEXT,
    detail    TEXT
);

CREATE UNIQUE INDEX events_by_number ON events (execution, number);

-- The functions that runners have hosted, with their terms, so that one process can invoke a function that another process hosts.
CREATE TABLE functions (
    name            TEXT NOT NULL,
    version         TEXT NOT NULL,
    timeout_seconds INTEGER NOT NULL,
    retention_days  INTEGER NOT NULL,
    max_operations  INTEGER NOT NULL,
    max_bytes       INTEGER NOT NULL,
    kind            TEXT NOT NULL DEFAULT 'function',
    PRIMARY KEY (name, version)
) WITHOUT ROWID;

-- The keys of executions whose retention is over and whose rows in operations and events are still being removed, a few at a time. The
-- graph that an execution named is removed last, if no other execution names it.
CREATE TABLE expired (
    key   INTEGER PRIMARY KEY,
    graph TEXT
);

-- The outbox: each change of an execution's status, in the order of commits, until it was delivered to every subscriber. Numbers are never
-- used again.
CREATE TABLE signals (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    execution  TEXT NOT NULL,
    function   TEXT NOT NULL,
    version    TEXT NOT NULL,
    name       TEXT NOT NULL,
    status     TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    quarantine TEXT,
    quarantined_at INTEGER
);

-- Subscribers of signals: the number of the last signal that was delivered to each, and the runner that delivers the next ones.
CREATE TABLE subscribers (
    name   TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL,
    holder TEXT
) WITHOUT ROWID;

-- Credentials of callers: the hash of a token, or the sealed secret of an access key.
CREATE TABLE credentials (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    secret     TEXT NOT NULL,
    roles      TEXT NOT NULL,
    tenant     TEXT,
    note       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    person     TEXT
) WITHOUT ROWID;

-- Counters that executions share: a number, and what is reserved beside it. Both start again from zero at the time `until`
-- (model.charges).
CREATE TABLE counters (
    key      TEXT PRIMARY KEY,
    amount   INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    reserved INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX counters_by_end ON counters (until);

-- One row for each runner, with the end of its lease. `code` is the schema number of the code that it runs.
CREATE TABLE runners (
    id          TEXT PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    code        INTEGER
) WITHOUT ROWID;

-- The audit log: who did what. Rows are added, and removed when their time is over; no row is ever changed.
CREATE TABLE audit (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    who        TEXT NOT NULL,
    what       TEXT NOT NULL,
    target     TEXT NOT NULL,
    origin     TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    tenant     TEXT,
    times      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX audit_expiring ON audit (expires_at);
CREATE INDEX audit_by_time ON audit (at, number);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
-- Retention first writes up to which time it removes notes (`forgotten` in meta). The trigger lets only such notes be removed.
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit WHEN OLD.expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0) BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;

-- Schedules. `body` and `input` are JSON and encoded like payloads. `next_at` is the time at which a runner must look at the schedule
-- next. `waits` is 1 if an occurrence waits for the end of an execution. All occurrences up to the time `cursor` are handled. The cursor
-- never goes back.
CREATE TABLE schedules (
    name     TEXT PRIMARY KEY,
    tenant   TEXT,
    function TEXT NOT NULL,
    next_at  INTEGER,
    waits    INTEGER NOT NULL,
    cursor   INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT NOT NULL,
    input    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX schedules_by_time ON schedules (function, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (function) WHERE waits = 1;

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
CREATE INDEX ledger_by_worker ON ledger (worker, number) WHERE pipeline = '' AND state <> 'reserved';
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

-- Sessions of the console: a browser that has signed in. The id is the SHA-256 of the cookie's value.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    credential TEXT NOT NULL,
    csrf       TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_of ON sessions (credential);
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- Saved views of the console: searches that people keep under a name.
CREATE TABLE views (
    owner   TEXT NOT NULL,
    name    TEXT NOT NULL,
    query   TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
