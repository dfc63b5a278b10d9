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
