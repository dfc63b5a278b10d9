-- Queues: the place of an execution in a queue, the lanes of queues, their rates, and an index of ready work by function.
ALTER TABLE executions ADD COLUMN queue TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN lane TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN order_at BIGINT;
ALTER TABLE executions ADD COLUMN admitted_at BIGINT;
ALTER TABLE executions ADD COLUMN holds_waiting BIGINT;
ALTER TABLE executions ADD COLUMN units BIGINT;
ALTER TABLE executions ADD COLUMN parks BIGINT;
ALTER TABLE executions ADD COLUMN parked BIGINT NOT NULL DEFAULT 0;
CREATE INDEX executions_ready_of ON executions (function, version, ready_at) WHERE state = 'ready' AND deaths < 2;
-- For queues: executions that wait in a lane or may return to it, how long one has waited, parked executions, and the list of a queue.
CREATE INDEX executions_in_lane ON executions (lane, state, order_at, id) WHERE state IN ('queued', 'delayed', 'suspended', 'quarantined') AND lane IS NOT NULL;
CREATE INDEX executions_waiting ON executions (queue, ready_at) WHERE state = 'queued';
CREATE INDEX executions_delayed ON executions (queue) WHERE state = 'delayed';
CREATE INDEX executions_parked ON executions (queue, id) WHERE parked = 1 AND superseded_by IS NULL;
CREATE INDEX executions_by_queue ON executions (queue, id) WHERE queue IS NOT NULL;

-- Queues: what the code declares, what an operator has set, and whether the queue is open, paused or draining.
CREATE TABLE queues (
    name     TEXT COLLATE "C" PRIMARY KEY,
    declared TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    operator TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    mode     TEXT COLLATE "C" NOT NULL DEFAULT 'open',
    revision BIGINT NOT NULL DEFAULT 0
);

-- Lanes: each level of a queue, with the slots that are held and the executions that wait below it (store/lanes.py). The lane without a
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
    drained_at   BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX lanes_open ON lanes (parent, turn, key) WHERE waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0;
CREATE INDEX lanes_closed ON lanes (closed_until) WHERE closed_until > 0 AND waiting > 0;
CREATE INDEX lanes_of_function ON lanes (function, version, queue) WHERE waiting > 0 AND function IS NOT NULL;
CREATE INDEX lanes_of_queue ON lanes (queue, key);
CREATE INDEX lanes_idle ON lanes (drained_at) WHERE held = 0 AND waiting = 0 AND parent <> '';

-- Rates of lanes: the step of one unit, the burst, and the time at which all that was admitted would be used up (model/rates.py).
CREATE TABLE rates (
    lane    TEXT COLLATE "C" NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    step_ns BIGINT NOT NULL,
    burst   BIGINT NOT NULL,
    tat_ns  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, kind)
);
