-- Queues: the place of an execution in a queue, the lanes of queues, their rates, and an index of ready work by function.
ALTER TABLE executions ADD COLUMN queue TEXT;
ALTER TABLE executions ADD COLUMN lane TEXT;
ALTER TABLE executions ADD COLUMN order_at INTEGER;
ALTER TABLE executions ADD COLUMN admitted_at INTEGER;
ALTER TABLE executions ADD COLUMN holds_waiting INTEGER;
ALTER TABLE executions ADD COLUMN units INTEGER;
ALTER TABLE executions ADD COLUMN parks INTEGER;
ALTER TABLE executions ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX executions_ready_of ON executions (function, version, ready_at) WHERE state = 'ready' AND deaths < 2;
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

-- Lanes: each level of a queue, with the slots that are held and the executions that wait below it (store/lanes.py). The lane without a
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
    drained_at   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX lanes_open ON lanes (parent, turn, key) WHERE waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0;
CREATE INDEX lanes_closed ON lanes (closed_until) WHERE closed_until > 0 AND waiting > 0;
CREATE INDEX lanes_of_function ON lanes (function, version) WHERE waiting > 0 AND function IS NOT NULL;
CREATE INDEX lanes_of_queue ON lanes (queue, key);
CREATE INDEX lanes_idle ON lanes (drained_at) WHERE held = 0 AND waiting = 0 AND parent <> '';

-- Rates of lanes: the step of one unit, the burst, and the time at which all that was admitted would be used up (model/rates.py).
CREATE TABLE rates (
    lane    TEXT NOT NULL,
    kind    TEXT NOT NULL,
    step_ns INTEGER NOT NULL,
    burst   INTEGER NOT NULL,
    tat_ns  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, kind)
) WITHOUT ROWID;
