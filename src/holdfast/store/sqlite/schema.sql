-- The embedded store. Times are integer milliseconds since the epoch. Payloads and details are JSON text.
-- docs/internals/engine.md explains every column that fences a write.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- One row per execution: what a write is fenced by, and nothing large (payloads live in events).
-- `key` stands for `id` in the other tables: they have many rows, and a short key keeps them small.
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
    quarantine_event INTEGER
);

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
CREATE INDEX executions_ready ON executions (ready_at) WHERE state = 'ready';
CREATE INDEX executions_suspect ON executions (ready_at) WHERE state = 'ready' AND deaths >= 2;
CREATE INDEX executions_due ON executions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX executions_held ON executions (runner) WHERE runner IS NOT NULL;
CREATE INDEX executions_invoked ON executions (parent) WHERE parent IS NOT NULL AND status = 'RUNNING';
CREATE INDEX executions_expiring ON executions (expires_at) WHERE expires_at IS NOT NULL;

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

-- Append-only history, and the only home of payloads. `place` says which operation an event tells of: the number of the event that
-- began that operation.
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

-- The functions that some runner has hosted, and what their executions are granted: so that one process can invoke what another hosts.
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

-- The keys of executions whose retention is over and whose rows in operations and events are still being removed, a few at a time.
CREATE TABLE expired (
    key INTEGER PRIMARY KEY
);

-- The outbox: each change of an execution's status, in the order of commits, as long as a subscriber has not had it. Numbers are never
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

-- Who is told of signals: the number of the last one each has had, and the runner that delivers the next ones.
CREATE TABLE subscribers (
    name   TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL,
    holder TEXT
) WITHOUT ROWID;

-- Who may ask the server: the hash of a token, or the sealed secret of an access key.
CREATE TABLE credentials (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    secret     TEXT NOT NULL,
    roles      TEXT NOT NULL,
    tenant     TEXT,
    note       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER
) WITHOUT ROWID;

-- What executions share: a number that begins anew at a certain time (model.charging).
CREATE TABLE counters (
    key    TEXT PRIMARY KEY,
    amount INTEGER NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX counters_by_end ON counters (until);

-- One row, one heartbeat per runner. `code` is the schema number of the code it runs.
CREATE TABLE runners (
    id          TEXT PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    code        INTEGER
) WITHOUT ROWID;

-- The audit log: who did what. Rows are added, and removed when their time is over; nothing changes one.
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
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
-- Retention says first up to when it forgets (`forgotten` in meta); nothing else is removed.
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit WHEN OLD.expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0) BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
