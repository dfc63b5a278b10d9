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
