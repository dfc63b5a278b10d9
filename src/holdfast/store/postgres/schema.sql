-- The store of a fleet. Times are integer milliseconds since the epoch. Payloads and details are JSON text.
-- docs/internals/engine.md explains every column that fences a write; the columns and their order are those of store/sqlite/schema.sql,
-- because store/sqlite/rows.py reads and makes the rows of both.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- A process takes a thousand keys at a time, so that a start need not ask for its own.
CREATE SEQUENCE execution_keys INCREMENT BY 1000;

-- One row per execution: what a write is fenced by, and nothing large (payloads live in events).
-- `key` stands for `id` in the other tables, and is never used again. Every write rewrites a row here: the room left in each page keeps
-- the new version beside the old one, where no index has to know of it.
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
    quarantine_event BIGINT
) WITH (fillfactor = 70);

CREATE UNIQUE INDEX executions_by_id ON executions (id);
-- A name belongs to one execution of a function until retention removes it, or until it failed and its name is started again: then the
-- old one is superseded. The name comes first: people ask for a name alone, too.
CREATE UNIQUE INDEX executions_by_name ON executions (name, function) WHERE superseded_by IS NULL;
CREATE INDEX executions_superseded ON executions (name, function) WHERE superseded_by IS NOT NULL;
-- The questions people ask, newest first. What has succeeded is most of the rows, and is found without an index of its own.
CREATE INDEX executions_by_function ON executions (function, id);
CREATE INDEX executions_by_status ON executions (status, id) WHERE status <> 'SUCCEEDED';
CREATE INDEX executions_by_parent ON executions (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX executions_by_tenant ON executions (tenant, id) WHERE tenant IS NOT NULL;
-- The questions a runner asks all day; each index holds only the rows that can answer.
CREATE INDEX executions_ready ON executions (ready_at) WHERE state = 'ready' AND deaths < 2;
CREATE INDEX executions_suspect ON executions (ready_at) WHERE state = 'ready' AND deaths >= 2;
CREATE INDEX executions_due ON executions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX executions_held ON executions (runner) WHERE runner IS NOT NULL;
CREATE INDEX executions_invoked ON executions (parent) WHERE parent IS NOT NULL AND status = 'RUNNING';
CREATE INDEX executions_expiring ON executions (expires_at) WHERE expires_at IS NOT NULL;

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

-- Append-only history, and the only home of payloads. `place` says which operation an event tells of: the number of the event that
-- began that operation.
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

-- The functions that some runner has hosted, and what their executions are granted: so that one process can invoke what another hosts.
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

-- The keys of executions whose retention is over and whose rows in operations and events are still being removed, a few at a time.
CREATE TABLE expired (
    key BIGINT PRIMARY KEY
);

-- The outbox: each change of an execution's status, in the order of commits, as long as a subscriber has not had it.
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

-- The number of the last signal, in the only row. Whoever numbers signals holds it until its COMMIT, so that the order of numbers is the
-- order of commits.
CREATE TABLE numbering (
    last BIGINT NOT NULL
);
INSERT INTO numbering (last) VALUES (0);

-- Who is told of signals: the number of the last one each has had, and the runner that delivers the next ones.
CREATE TABLE subscribers (
    name   TEXT COLLATE "C" PRIMARY KEY,
    cursor BIGINT NOT NULL,
    holder TEXT COLLATE "C"
);

-- Who may ask the server: the hash of a token, or the sealed secret of an access key.
CREATE TABLE credentials (
    id         TEXT COLLATE "C" PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL,
    secret     TEXT COLLATE "C" NOT NULL,
    roles      TEXT COLLATE "C" NOT NULL,
    tenant     TEXT COLLATE "C",
    note       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT
);

-- What executions share: a number that begins anew at a certain time (model.charging).
CREATE TABLE counters (
    key    TEXT COLLATE "C" PRIMARY KEY,
    amount BIGINT NOT NULL,
    until  BIGINT NOT NULL
);
CREATE INDEX counters_by_end ON counters (until);

-- One row, one heartbeat per runner. `code` is the schema number of the code it runs.
CREATE TABLE runners (
    id          TEXT COLLATE "C" PRIMARY KEY,
    lease_until BIGINT NOT NULL,
    code        BIGINT
);

-- The audit log: who did what. Rows are added, and removed when their time is over; nothing changes one.
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
