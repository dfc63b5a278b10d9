-- The store of a fleet. Times are integer milliseconds since the epoch. Payloads and details are JSON text.
-- docs/internals/engine.md explains every column that fences a write; the columns and their order are those of store/sqlite/schema.sql,
-- because store/rows.py reads and makes the rows of both.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- A process takes a thousand keys at a time, so that a start need not ask for its own.
CREATE SEQUENCE execution_keys INCREMENT BY 1000;

-- One row for each execution: the values that a write is checked against, and nothing large (payloads are in `events`). The other tables
-- have `key` instead of `id`. A key is never used again. Every write makes a new version of a row here. Free room in each page lets the
-- new version lie beside the old one, so that no index must be changed.
CREATE TABLE executions (
    key              BIGINT PRIMARY KEY,
    id               TEXT COLLATE "C" NOT NULL,
    function         TEXT COLLATE "C" NOT NULL,
    version          TEXT COLLATE "C" NOT NULL,
    name             TEXT COLLATE "C" NOT NULL,
    input_hash       TEXT COLLATE "C" NOT NULL,
    timeout_seconds  BIGINT NOT NULL,
    retention_days   BIGINT NOT NULL,
    max_operations   BIGINT NOT NULL,
    max_bytes        BIGINT NOT NULL,
    parent           TEXT COLLATE "C",
    parent_operation TEXT COLLATE "C",
    cascade          BIGINT NOT NULL,
    tenant           TEXT COLLATE "C",
    started_at       BIGINT NOT NULL,
    deadline         BIGINT NOT NULL,
    status           TEXT COLLATE "C" NOT NULL,
    state            TEXT COLLATE "C" NOT NULL,
    epoch            BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    sequence         BIGINT NOT NULL,
    events           BIGINT NOT NULL,
    pending          BIGINT NOT NULL,
    runner           TEXT COLLATE "C",
    invocation       TEXT COLLATE "C",
    invoked_at       BIGINT,
    seen             BIGINT NOT NULL,
    ended_at         BIGINT,
    result_event     BIGINT,
    due_at           BIGINT,
    ready_at         BIGINT NOT NULL,
    touched_at       BIGINT NOT NULL,
    failures         BIGINT NOT NULL,
    deaths           BIGINT NOT NULL,
    client           TEXT COLLATE "C",
    client_revision  BIGINT NOT NULL,
    operations       BIGINT NOT NULL,
    stored           BIGINT NOT NULL,
    continued_as     TEXT COLLATE "C",
    expires_at       BIGINT,
    trace            TEXT COLLATE "C",
    superseded_by    TEXT COLLATE "C",
    quarantine       TEXT COLLATE "C",
    quarantine_event BIGINT,
    graph            TEXT COLLATE "C",
    queue            TEXT COLLATE "C",
    lane             TEXT COLLATE "C",
    order_at         BIGINT,
    admitted_at      BIGINT,
    holds_waiting    BIGINT,
    units            BIGINT,
    parks            BIGINT,
    parked           BIGINT NOT NULL DEFAULT 0,
    money            BIGINT,
    outcome          TEXT COLLATE "C",
    error_code       TEXT COLLATE "C",
    pipeline         TEXT COLLATE "C",
    cost             BIGINT,
    attempt          BIGINT,
    attempts         BIGINT
) WITH (fillfactor = 70);

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

-- The graphs of pipelines. The id is the SHA-256 of the plain text. The text is encoded like a payload.
CREATE TABLE graphs (
    id   TEXT COLLATE "C" PRIMARY KEY,
    text TEXT COLLATE "C" NOT NULL
);

-- Queues: what the code declares, what an operator has set, and whether the queue is open, paused or draining.
CREATE TABLE queues (
    name     TEXT COLLATE "C" PRIMARY KEY,
    declared TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    operator TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    mode     TEXT COLLATE "C" NOT NULL DEFAULT 'open',
    revision BIGINT NOT NULL DEFAULT 0
);

-- Lanes: each level of a queue, with the slots that are held and the executions that wait below it (store/admission_order.py). The lane without a
-- name is above all queues.
CREATE TABLE lanes (
    key          TEXT COLLATE "C" PRIMARY KEY,
    queue        TEXT COLLATE "C" NOT NULL,
    parent       TEXT COLLATE "C",
    level        TEXT COLLATE "C" NOT NULL,
    function     TEXT COLLATE "C",
    version      TEXT COLLATE "C",
    held         BIGINT NOT NULL DEFAULT 0,
    waiting      BIGINT NOT NULL DEFAULT 0,
    at_once      BIGINT NOT NULL,
    closed_until BIGINT NOT NULL DEFAULT 0,
    paused       BIGINT NOT NULL DEFAULT 0,
    turn         BIGINT NOT NULL DEFAULT 0,
    clock        BIGINT NOT NULL DEFAULT 0,
    admitted     BIGINT NOT NULL DEFAULT 0,
    drain        DOUBLE PRECISION NOT NULL DEFAULT 0,
    drained_at   BIGINT NOT NULL DEFAULT 0,
    money        BIGINT NOT NULL DEFAULT 0,
    shared_rate  TEXT COLLATE "C"
) WITH (fillfactor = 50);
CREATE INDEX lanes_open ON lanes (parent, turn, key) WHERE waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0;
CREATE INDEX lanes_closed ON lanes (closed_until) WHERE closed_until > 0 AND waiting > 0;
CREATE INDEX lanes_of_function ON lanes (function, version, queue) WHERE waiting > 0 AND function IS NOT NULL;
CREATE INDEX lanes_of_queue ON lanes (queue, key);
CREATE INDEX lanes_idle ON lanes (drained_at) WHERE held = 0 AND waiting = 0 AND parent <> '';
CREATE INDEX lanes_sharing ON lanes (shared_rate) WHERE shared_rate IS NOT NULL;
INSERT INTO lanes (key, queue, level, at_once) VALUES ('', '', 'root', 0);

-- Rates: the step of one unit, the burst, and the time at which all that was admitted would be used up (model/rates.py). `lane` is the key
-- of a lane, or the `shared_rate` of several.
CREATE TABLE rates (
    lane    TEXT COLLATE "C" NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    step_ns BIGINT NOT NULL,
    burst   BIGINT NOT NULL,
    tat_ns  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, kind)
);

-- One row per operation as it stands now. Its result or error is the payload of event `payload_event`.
CREATE TABLE operations (
    execution       BIGINT NOT NULL,
    id              TEXT COLLATE "C" NOT NULL,
    type            TEXT COLLATE "C" NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    started_at      BIGINT NOT NULL,
    sub_type        TEXT COLLATE "C",
    name            TEXT COLLATE "C",
    parent_id       TEXT COLLATE "C",
    ended_at        BIGINT,
    attempt         BIGINT NOT NULL,
    due_at          BIGINT,
    timeout_at      BIGINT,
    heartbeat_ms    BIGINT NOT NULL,
    replay_children BIGINT NOT NULL,
    place           BIGINT NOT NULL,
    payload_event   BIGINT,
    revision        BIGINT NOT NULL,
    PRIMARY KEY (execution, place)
) WITH (fillfactor = 90);

CREATE INDEX operations_due ON operations (execution, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX operations_ready ON operations (execution) WHERE status = 'READY';
CREATE INDEX operations_undecided ON operations (execution) WHERE sub_type = 'Approval' AND status = 'STARTED';

-- The history of executions, to which rows are only added, and the only table with payloads. `place` says which operation an event is
-- about: it is the number of the event that began the operation.
CREATE TABLE events (
    execution BIGINT NOT NULL,
    number    BIGINT NOT NULL,
    type      TEXT COLLATE "C" NOT NULL,
    at        BIGINT NOT NULL,
    place     BIGINT,
    payload   TEXT COLLATE "C",
    detail    TEXT COLLATE "C",
    PRIMARY KEY (execution, number)
);

-- The functions that runners have hosted, with their terms, so that one process can invoke a function that another process hosts.
CREATE TABLE functions (
    name            TEXT COLLATE "C" NOT NULL,
    version         TEXT COLLATE "C" NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    retention_days  BIGINT NOT NULL,
    max_operations  BIGINT NOT NULL,
    max_bytes       BIGINT NOT NULL,
    kind            TEXT COLLATE "C" NOT NULL DEFAULT 'function',
    PRIMARY KEY (name, version)
);

-- The keys of executions whose retention is over and whose rows in operations and events are still being removed, a few at a time. The
-- graph that an execution named is removed last, if no other execution names it.
CREATE TABLE expired (
    key   BIGINT PRIMARY KEY,
    graph TEXT COLLATE "C"
);

-- The outbox: each change of an execution's status, in the order of commits, until it was delivered to every subscriber.
CREATE TABLE signals (
    number     BIGINT PRIMARY KEY,
    execution  TEXT COLLATE "C" NOT NULL,
    function   TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT,
    quarantine TEXT COLLATE "C",
    quarantined_at BIGINT
);

-- The number of the last signal, in the only row. A batch that numbers signals locks the row until its COMMIT, so that the order of
-- numbers is the order of commits.
CREATE TABLE numbering (
    last BIGINT NOT NULL
);
INSERT INTO numbering (last) VALUES (0);

-- Subscribers of signals: the number of the last signal that was delivered to each, and the runner that delivers the next ones.
CREATE TABLE subscribers (
    name   TEXT COLLATE "C" PRIMARY KEY,
    cursor BIGINT NOT NULL,
    holder TEXT COLLATE "C"
);

-- Credentials of callers: the hash of a token, or the sealed secret of an access key.
CREATE TABLE credentials (
    id         TEXT COLLATE "C" PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL,
    secret     TEXT COLLATE "C" NOT NULL,
    roles      TEXT COLLATE "C" NOT NULL,
    tenant     TEXT COLLATE "C",
    note       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    person     TEXT COLLATE "C"
);

-- Counters that executions share: a number, and what is reserved beside it. Both start again from zero at the time `until`
-- (model.charges).
CREATE TABLE counters (
    key      TEXT COLLATE "C" PRIMARY KEY,
    amount   BIGINT NOT NULL,
    until    BIGINT NOT NULL,
    reserved BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX counters_by_end ON counters (until);

-- One row for each runner, with the end of its lease. `code` is the schema number of the code that it runs.
CREATE TABLE runners (
    id          TEXT COLLATE "C" PRIMARY KEY,
    lease_until BIGINT NOT NULL,
    code        BIGINT
);

-- The audit log: who did what. Rows are added, and removed when their time is over; no row is ever changed.
CREATE TABLE audit (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         BIGINT NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    who        TEXT COLLATE "C" NOT NULL,
    what       TEXT COLLATE "C" NOT NULL,
    target     TEXT COLLATE "C" NOT NULL,
    origin     TEXT COLLATE "C" NOT NULL,
    outcome    TEXT COLLATE "C" NOT NULL,
    tenant     TEXT COLLATE "C",
    times      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX audit_expiring ON audit (expires_at);
CREATE INDEX audit_by_time ON audit (at, number);

-- Schedules. `body` and `input` are JSON and encoded like payloads. `next_at` is the time at which a runner must look at the schedule
-- next. `waits` is 1 if an occurrence waits for the end of an execution. All occurrences up to the time `cursor` are handled. The cursor
-- never goes back.
CREATE TABLE schedules (
    name     TEXT COLLATE "C" PRIMARY KEY,
    tenant   TEXT COLLATE "C",
    function TEXT COLLATE "C" NOT NULL,
    next_at  BIGINT,
    waits    BIGINT NOT NULL,
    cursor   BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    body     TEXT COLLATE "C" NOT NULL,
    input    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX schedules_by_time ON schedules (function, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_waiting ON schedules (function) WHERE waits = 1;

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
CREATE INDEX ledger_by_worker ON ledger (worker, number) WHERE pipeline = '' AND state <> 'reserved';
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

-- Sessions of the console: a browser that has signed in. The id is the SHA-256 of the cookie's value.
CREATE TABLE sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    credential TEXT COLLATE "C" NOT NULL,
    csrf       TEXT COLLATE "C" NOT NULL,
    made_at    BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_of ON sessions (credential);
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- Saved views of the console: searches that people keep under a name.
CREATE TABLE views (
    owner   TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    query   TEXT COLLATE "C" NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (owner, name)
);
