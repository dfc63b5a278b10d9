-- name: header
SELECT {execution} FROM executions WHERE id = ?

-- name: headers
SELECT {execution} FROM executions WHERE id IN (SELECT value FROM json_each(?))

-- name: ended
SELECT id FROM executions WHERE id IN (SELECT value FROM json_each(?)) AND (status <> 'RUNNING' OR state = 'quarantined')

-- name: revisions
SELECT id, revision FROM executions WHERE id IN (SELECT value FROM json_each(?))

-- name: named
SELECT {execution} FROM executions WHERE function = ? AND name = ? AND superseded_by IS NULL

-- name: ready
-- Ready executions of one function and version, the longest ready first. Suspects have a query of their own.
SELECT id, ready_at FROM executions
WHERE state = 'ready' AND deaths < 2 AND function = :function AND version = :version AND ready_at <= :now
ORDER BY ready_at LIMIT :limit

-- name: ready_only
-- The same for a runner that takes executions only from some queues or of some tenants.
SELECT id, ready_at FROM executions
WHERE state = 'ready' AND deaths < 2 AND function = :function AND version = :version AND ready_at <= :now
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)) OR (queue IS NULL AND parent IS NOT NULL))
  AND (:tenants IS NULL OR coalesce(tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
ORDER BY ready_at LIMIT :limit

-- name: next_ready
SELECT min(ready_at) FROM executions WHERE state = 'ready' AND deaths < 2 AND function = :function AND version = :version

-- name: next_ready_only
SELECT min(ready_at) FROM executions WHERE state = 'ready' AND deaths < 2 AND function = :function AND version = :version
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)) OR (queue IS NULL AND parent IS NOT NULL))
  AND (:tenants IS NULL OR coalesce(tenant, 'default') IN (SELECT value FROM json_each(:tenants)))

-- name: abandoned
-- Executions that dead runners held.
SELECT id, ready_at FROM executions
WHERE runner IN (SELECT value FROM json_each(:dead)) AND function || ':' || version IN (SELECT value FROM json_each(:targets))
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)) OR (queue IS NULL AND parent IS NOT NULL))
  AND (:tenants IS NULL OR coalesce(tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
ORDER BY ready_at LIMIT :limit

-- name: suspect
-- `INDEXED BY` is here because SQLite might otherwise choose a larger index.
SELECT id FROM executions INDEXED BY executions_suspect
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= ?) AND function || ':' || version IN (SELECT value FROM json_each(?))
ORDER BY ready_at LIMIT 1

-- name: suspect_only
SELECT id FROM executions INDEXED BY executions_suspect
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= :now)
  AND function || ':' || version IN (SELECT value FROM json_each(:targets))
  AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)) OR (queue IS NULL AND parent IS NOT NULL))
  AND (:tenants IS NULL OR coalesce(tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
ORDER BY ready_at LIMIT 1

-- name: due
SELECT id FROM executions WHERE due_at <= ? ORDER BY due_at LIMIT ?

-- name: next_due
-- The next timer, or the next time at which a lane opens.
SELECT min(at) FROM (
    SELECT min(due_at) AS at FROM executions WHERE due_at IS NOT NULL
    UNION ALL
    SELECT min(closed_until) FROM lanes WHERE closed_until > 0 AND waiting > 0
)

-- name: children
-- `INDEXED BY` is here because SQLite might otherwise choose executions_by_parent, which also has closed executions.
SELECT id FROM executions INDEXED BY executions_invoked WHERE parent = ? AND status = 'RUNNING'

-- name: publish
INSERT INTO functions (name, version, timeout_seconds, retention_days, max_operations, max_bytes, kind)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET
    timeout_seconds = excluded.timeout_seconds, retention_days = excluded.retention_days,
    max_operations = excluded.max_operations, max_bytes = excluded.max_bytes, kind = excluded.kind

-- name: hosted
SELECT version, timeout_seconds, retention_days, max_operations, max_bytes, kind FROM functions WHERE name = ?

-- name: payload
SELECT payload FROM events WHERE execution = (SELECT key FROM executions WHERE id = ?) AND number = ?

-- name: inputs
SELECT x.id, e.payload FROM json_each(?) AS wanted
JOIN executions AS x ON x.id = wanted.value JOIN events AS e ON e.execution = x.key AND e.number = 1

-- name: operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = ?) AND o.revision > ? AND o.place > ?
ORDER BY o.place LIMIT coalesce(?, -1)

-- name: contexts
SELECT {operation}, NULL, NULL FROM operations
WHERE execution = (SELECT key FROM executions WHERE id = ?) AND type = 'CONTEXT'
ORDER BY place

-- name: operations_at
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = ?) AND o.place IN (SELECT value FROM json_each(?))

-- name: newer_operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ? AND o.revision > ?
ORDER BY o.place

-- name: operation
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ? AND o.id = ?

-- name: due_operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ? AND o.due_at <= ?
ORDER BY o.due_at, o.place

-- name: next_due_operation
SELECT min(due_at) FROM operations WHERE execution = ? AND due_at > ?

-- name: ready_operation
SELECT 1 FROM operations WHERE execution = ? AND status = 'READY' AND revision > ? LIMIT 1

-- name: history
-- The terminal event of a closing execution has a number larger than `events` until the completion of its invocation is written.
SELECT e.number, e.type, e.at, e.place, e.payload, e.detail FROM events AS e
JOIN executions AS x ON x.key = e.execution
WHERE x.id = ? AND e.number > ? AND e.number <= x.events
ORDER BY e.number LIMIT ?

-- name: all_events
SELECT number, type, at, place, payload, detail FROM events WHERE execution = ? ORDER BY number

-- name: list
-- Only the lines whose parameters have values are kept (store/list_query.py), so that each query finds its index. Statuses other than
-- SUCCEEDED are looked up one by one, and the results are merged as they are read. A name is looked up twice, for the execution that has
-- it and for executions that had it before. In the second part, `+` hides the function from the planner, which would read all executions
-- of the function.
SELECT {execution} FROM executions WHERE TRUE
  AND function = :function
  AND version = :version
  AND superseded_by IS NULL AND name = :name
  AND superseded_by IS NOT NULL AND name = :former_name
  AND +function = :former_function
  AND parent = :parent
  AND tenant = :tenant
  AND coalesce(tenant, 'default') = :default_tenant
  AND queue = :queue
  AND status IN (SELECT value FROM json_each(:statuses))
  AND status <> 'SUCCEEDED' AND status = :unsuccessful
  AND started_at > :started_after
  AND started_at < :started_before
  AND id < :older
  AND id > :newer

-- name: list_merged
UNION ALL

-- name: list_newest_first
ORDER BY id DESC LIMIT :limit

-- name: list_oldest_first
ORDER BY id LIMIT :limit

-- name: join
INSERT INTO runners (id, lease_until, code) VALUES (?, ?, ?)

-- name: renew
UPDATE runners SET lease_until = ? WHERE id = ?

-- name: leave
DELETE FROM runners WHERE id = ?

-- name: bury
-- Only if the lease is still the one that was read, because the runner may have renewed it meanwhile.
DELETE FROM runners WHERE id = ? AND lease_until = ?

-- name: runners
SELECT id, lease_until FROM runners

-- name: holders
SELECT DISTINCT runner FROM executions WHERE runner IS NOT NULL

-- name: held
SELECT id FROM executions WHERE runner = ? AND state = 'running'

-- name: last_key
-- A key can be used again when all rows of its last execution are removed.
SELECT max(coalesce((SELECT max(key) FROM executions), 0), coalesce((SELECT max(key) FROM expired), 0))

-- name: is_over
-- Whether retention has anything to remove.
SELECT EXISTS (SELECT 1 FROM executions WHERE expires_at <= ? AND state IN ('closed', 'imported'))
    OR EXISTS (SELECT 1 FROM expired)
    OR EXISTS (SELECT 1 FROM counters WHERE until <= ?)
    OR EXISTS (SELECT 1 FROM audit WHERE expires_at <= ?)
    OR EXISTS (SELECT 1 FROM ledger WHERE expires_at <= ?)
    OR EXISTS (SELECT 1 FROM ledger_days WHERE expires_at <= ?)
    OR EXISTS (SELECT 1 FROM sessions WHERE expires_at <= ?)
    OR EXISTS (SELECT 1 FROM lanes WHERE held = 0 AND waiting = 0 AND parent <> '' AND drained_at <= ?)
    OR (SELECT min(number) FROM signals) <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers)

-- name: expire_executions
DELETE FROM executions WHERE key IN (
    SELECT key FROM executions WHERE expires_at <= ? AND state IN ('closed', 'imported') ORDER BY expires_at LIMIT ?
) RETURNING key, graph

-- name: put_expired
INSERT INTO expired (key, graph) SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)

-- name: expired
SELECT key, graph FROM expired ORDER BY key LIMIT 1

-- name: drop_expired
DELETE FROM expired WHERE key = ?

-- name: expired_events
SELECT number, coalesce(length(payload), 0) FROM events WHERE execution = ? ORDER BY number LIMIT ?

-- name: drop_events
DELETE FROM events WHERE execution = ? AND number <= ?

-- name: drop_operations
DELETE FROM operations WHERE execution = :key AND place <= (
    SELECT max(place) FROM (SELECT place FROM operations WHERE execution = :key ORDER BY place LIMIT :limit)
)

-- name: graph
SELECT text FROM graphs WHERE id = ?

-- name: has_graph
SELECT 1 FROM graphs WHERE id = ?

-- name: put_graph
INSERT INTO graphs (id, text) VALUES (?, ?) ON CONFLICT (id) DO NOTHING

-- name: renew_graph
INSERT INTO graphs (id, text) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET text = excluded.text

-- name: drop_graph
DELETE FROM graphs WHERE id = :graph AND NOT EXISTS (SELECT 1 FROM executions WHERE graph = :graph)

-- name: is_subscribed
SELECT EXISTS (SELECT 1 FROM subscribers)

-- name: subscribe
INSERT OR IGNORE INTO subscribers (name, cursor) SELECT ?, coalesce(max(number), 0) FROM signals

-- name: unsubscribe
DELETE FROM subscribers WHERE name = ?

-- name: delivery
-- The runner that delivers to a subscriber. NULL if there is none, or if that runner has left or was declared dead.
SELECT (SELECT id FROM runners WHERE id = holder) FROM subscribers WHERE name = ?

-- name: take_delivery
UPDATE subscribers SET holder = :runner
WHERE name = :name AND (holder IS NULL OR holder = :runner OR holder NOT IN (SELECT id FROM runners))
RETURNING cursor

-- name: delivered
UPDATE subscribers SET cursor = max(cursor, ?) WHERE name = ? AND holder = ?

-- name: is_holder
SELECT 1 FROM subscribers WHERE name = ? AND holder = ?

-- name: signals
SELECT number, execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at FROM signals
WHERE number > ? ORDER BY number LIMIT ?

-- name: counter
SELECT key, amount, until, reserved FROM counters WHERE key = ?

-- name: put_counter
INSERT INTO counters (key, amount, until, reserved) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET amount = excluded.amount, until = excluded.until, reserved = excluded.reserved

-- name: drop_counters
DELETE FROM counters WHERE key IN (SELECT key FROM counters WHERE until <= ? LIMIT ?)

-- name: undecided
-- The executions that wait for a person's decision, oldest first.
SELECT DISTINCT x.id FROM operations AS o JOIN executions AS x ON x.key = o.execution
WHERE o.sub_type = 'Approval' AND o.status = 'STARTED' AND x.status = 'RUNNING' AND x.id > ? AND coalesce(x.tenant, 'default') = coalesce(?, x.tenant, 'default')
ORDER BY x.id LIMIT ?

-- name: put_credential
INSERT INTO credentials ({credential}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, secret = excluded.secret, roles = excluded.roles, tenant = excluded.tenant, note = excluded.note,
    created_at = excluded.created_at, expires_at = excluded.expires_at, person = excluded.person

-- name: credentials
SELECT {credential} FROM credentials ORDER BY id

-- name: reseal_credential
UPDATE credentials SET secret = ? WHERE id = ? AND secret = ?

-- name: remove_credential
DELETE FROM credentials WHERE id = ?

-- name: put_signals
INSERT INTO signals (execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at) VALUES {rows}

-- name: drop_signals
-- Signals that were delivered to every subscriber. Without subscribers, all signals.
DELETE FROM signals WHERE number IN (
    SELECT number FROM signals
    WHERE number <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers) ORDER BY number LIMIT ?
)

-- name: put_executions
-- New executions, and those that give up their name.
INSERT INTO executions ({execution}) VALUES {rows}
ON CONFLICT (key) DO UPDATE SET
    status = excluded.status, state = excluded.state, epoch = excluded.epoch, revision = excluded.revision,
    sequence = excluded.sequence, events = excluded.events, pending = excluded.pending, runner = excluded.runner,
    invocation = excluded.invocation, invoked_at = excluded.invoked_at, seen = excluded.seen, ended_at = excluded.ended_at,
    result_event = excluded.result_event, due_at = excluded.due_at, ready_at = excluded.ready_at,
    touched_at = excluded.touched_at, failures = excluded.failures, deaths = excluded.deaths, client = excluded.client,
    client_revision = excluded.client_revision, operations = excluded.operations, stored = excluded.stored,
    continued_as = excluded.continued_as, expires_at = excluded.expires_at, superseded_by = excluded.superseded_by,
    quarantine = excluded.quarantine, quarantine_event = excluded.quarantine_event, deadline = excluded.deadline,
    admitted_at = excluded.admitted_at, parked = excluded.parked, outcome = excluded.outcome, error_code = excluded.error_code,
    cost = excluded.cost, attempt = excluded.attempt, attempts = excluded.attempts

-- name: change_executions
-- What a write may change after the start, for an execution that keeps its name: `superseded_by` (column 27) is left out, because SQLite
-- would write the index of names again.
UPDATE executions SET
    deadline = v.column2, status = v.column3, state = v.column4, epoch = v.column5, revision = v.column6, sequence = v.column7,
    events = v.column8, pending = v.column9, runner = v.column10, invocation = v.column11, invoked_at = v.column12, seen = v.column13,
    ended_at = v.column14, result_event = v.column15, due_at = v.column16, ready_at = v.column17, touched_at = v.column18,
    failures = v.column19, deaths = v.column20, client = v.column21, client_revision = v.column22, operations = v.column23,
    stored = v.column24, continued_as = v.column25, expires_at = v.column26, quarantine = v.column28, quarantine_event = v.column29,
    admitted_at = v.column30, parked = v.column31, outcome = v.column32, error_code = v.column33, cost = v.column34, attempt = v.column35,
    attempts = v.column36
FROM (VALUES {rows}) AS v WHERE key = v.column1

-- name: touch_executions
-- Only the columns that an ordinary checkpoint changes. None of them is in an index. This statement runs more often than any other.
UPDATE executions SET
    revision = v.column1, sequence = v.column2, events = v.column3, pending = v.column4, touched_at = v.column5, operations = v.column6,
    stored = v.column7
FROM (VALUES {rows}) AS v WHERE key = v.column8

-- name: move_executions
-- A statement of its own, because SQLite writes the index of a column again when the column is set, even to the same value.
UPDATE executions SET due_at = v.column2 FROM (VALUES {rows}) AS v WHERE key = v.column1

-- name: put_operations
INSERT INTO operations ({operation}) VALUES {rows}
ON CONFLICT (execution, place) DO UPDATE SET
    status = excluded.status, ended_at = excluded.ended_at, attempt = excluded.attempt, due_at = excluded.due_at,
    timeout_at = excluded.timeout_at, replay_children = excluded.replay_children, payload_event = excluded.payload_event,
    revision = excluded.revision

-- name: put_events
INSERT INTO events ({event}) VALUES {rows}

-- name: get_meta
SELECT value FROM meta WHERE key = ?

-- name: codec_meta
SELECT key, value FROM meta WHERE key IN ('codec', 'codec_check')

-- name: put_meta
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: put_note
INSERT INTO audit (at, kind, who, what, target, origin, outcome, tenant, times, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: audit
-- By time, and then by number. If retention has removed the note `before`, notes with a smaller number follow it.
SELECT number, at, kind, who, what, target, origin, outcome, tenant, times, expires_at FROM audit
WHERE at <= coalesce((SELECT b.at FROM audit b WHERE b.number = :before), 9223372036854775807)
  AND (at < coalesce((SELECT b.at FROM audit b WHERE b.number = :before), -9223372036854775807) OR number < coalesce(:before, 9223372036854775807))
  AND at >= coalesce(:since, -9223372036854775807) AND who = coalesce(:who, who)
  AND what = coalesce(:what, what) AND outcome = coalesce(:outcome, outcome) AND kind = coalesce(:kind, kind)
ORDER BY at DESC, number DESC LIMIT :limit

-- name: drop_notes
DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)

-- name: unmarked
SELECT coalesce((SELECT value FROM meta WHERE key = 'unmarked'), '')

-- name: queue
SELECT name, declared, operator, mode, revision FROM queues WHERE name = ?

-- name: queues
SELECT name, declared, operator, mode, revision FROM queues ORDER BY name

-- name: declare_queue
INSERT INTO queues (name, declared) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, revision = revision + 1 WHERE declared <> excluded.declared

-- name: make_queue
INSERT OR IGNORE INTO queues (name) VALUES (?)

-- name: set_queue
UPDATE queues SET operator = ?, mode = ?, revision = revision + 1 WHERE name = ? AND revision = ?

-- name: set_lanes
-- The lanes are opened. If a rate is still used up, the next admission closes its lane again.
UPDATE lanes SET at_once = ?, paused = ?, closed_until = 0 WHERE queue = ? AND level = ?

-- name: drop_rates
DELETE FROM rates WHERE lane IN (SELECT key FROM lanes WHERE queue = :queue AND level = :level)
  AND kind NOT IN (SELECT value FROM json_each(:kinds))

-- name: set_rates
INSERT INTO rates (lane, kind, step_ns, burst)
SELECT key, :kind, :step, :burst FROM lanes WHERE queue = :queue AND level = :level
ON CONFLICT (lane, kind) DO UPDATE SET step_ns = excluded.step_ns, burst = excluded.burst, tat_ns = (
    -- Units that were used up at the last admission become free again at the new rate from that time on.
    SELECT min(tat_ns, drained_at * 1000000) + CAST(min(max(tat_ns - drained_at * 1000000, 0) * (1.0 * :step / step_ns), 1e18) AS INTEGER)
    FROM lanes WHERE key = rates.lane
)

-- name: other_rates
-- The leaf lanes of a function that share another rate of runs than this one, or have one of their own from before rates were shared.
SELECT l.key FROM lanes AS l
LEFT JOIN rates AS r ON r.lane = l.shared_rate AND r.kind = 'runs'
LEFT JOIN rates AS own ON own.lane = l.key AND own.kind = 'runs'
WHERE l.function = :function AND l.function IS NOT NULL AND (r.step_ns IS NOT :step OR r.burst IS NOT :burst OR own.lane IS NOT NULL)

-- name: drop_own_rate
DELETE FROM rates WHERE kind = 'runs' AND lane IN (SELECT value FROM json_each(:lanes))

-- name: drop_shared_rate
DELETE FROM rates WHERE kind = 'runs' AND lane IN (SELECT shared_rate FROM lanes WHERE key IN (SELECT value FROM json_each(:lanes)))

-- name: share_rate
UPDATE lanes SET shared_rate = ? WHERE key = ?

-- name: set_shared_rate
INSERT INTO rates (lane, kind, step_ns, burst)
SELECT DISTINCT shared_rate, 'runs', :step, :burst FROM lanes WHERE key IN (SELECT value FROM json_each(:lanes))
ON CONFLICT (lane, kind) DO UPDATE SET step_ns = excluded.step_ns, burst = excluded.burst, tat_ns = (
    -- As in set_rates.
    SELECT min(tat_ns, last * 1000000) + CAST(min(max(tat_ns - last * 1000000, 0) * (1.0 * :step / step_ns), 1e18) AS INTEGER)
    FROM (SELECT max(drained_at) AS last FROM lanes WHERE shared_rate = rates.lane)
)

-- name: open_lanes_again
-- The lanes are opened. If a rate is still used up, the next admission closes its lane again.
UPDATE lanes SET closed_until = 0 WHERE closed_until > 0 AND key IN (SELECT value FROM json_each(:lanes))

-- name: lane
SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version FROM lanes WHERE key = ?

-- name: rates_of
-- The rates of lanes, their own and the one that each shares.
SELECT l.key, r.lane, r.kind, r.step_ns, r.burst, r.tat_ns FROM lanes AS l JOIN rates AS r ON r.lane IN (l.key, l.shared_rate)
WHERE l.key IN (SELECT value FROM json_each(?))

-- name: rates_under
SELECT lane, kind, step_ns, burst, tat_ns FROM rates WHERE lane = ?

-- name: oldest
SELECT min(ready_at) FROM executions WHERE queue = ? AND state = 'queued'

-- name: has_open_lane
-- Whether a queue is open and executions of these functions wait, or the time of a closed lane has come. Otherwise an admission would find
-- nothing.
SELECT (EXISTS (SELECT 1 FROM lanes WHERE parent = '' AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0)
        AND EXISTS (SELECT 1 FROM json_each(:targets) AS target JOIN lanes ON function = target.value ->> 0 AND version = target.value ->> 1
                    WHERE waiting > 0 AND function IS NOT NULL))
    OR EXISTS (SELECT 1 FROM lanes WHERE closed_until > 0 AND waiting > 0 AND closed_until <= :now)

-- name: reopen_lanes
UPDATE lanes SET closed_until = 0 WHERE closed_until > 0 AND waiting > 0 AND closed_until <= ?

-- name: reopen_lane
UPDATE lanes SET closed_until = 0 WHERE key = ? AND closed_until > 0

-- name: open_lanes
SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version FROM lanes
WHERE parent = ? AND (turn, key) > (?, ?) AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0
ORDER BY turn, key LIMIT ?

-- name: heads
SELECT {execution} FROM executions
WHERE lane = ? AND state = 'queued' AND state IN ('queued', 'delayed', 'suspended', 'quarantined')
ORDER BY order_at, id LIMIT ? OFFSET ?

-- name: next_of_key
-- The leaf whose first execution was enqueued first. A key has a leaf for each function and version, so there are few.
SELECT key FROM lanes WHERE key > :key || '/' AND key < :key || '0' AND waiting > 0
ORDER BY (
    SELECT printf('%020d', order_at) || id FROM executions
    WHERE lane = lanes.key AND state = 'queued' AND state IN ('queued', 'delayed', 'suspended', 'quarantined') ORDER BY order_at, id LIMIT 1
) LIMIT 1

-- name: make_lane
INSERT OR IGNORE INTO lanes (key, queue, parent, level, function, version, at_once, paused, shared_rate) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: make_rate
INSERT OR IGNORE INTO rates (lane, kind, step_ns, burst) VALUES (?, ?, ?, ?)

-- name: wake_lane
-- A lane in which nothing waited begins at the clock of the lane above.
UPDATE lanes SET turn = max(turn, (SELECT clock FROM lanes AS above WHERE above.key = lanes.parent)) WHERE key = ? AND waiting = 0

-- name: move_lane
UPDATE lanes SET held = held + ?, waiting = waiting + ?, money = money + ? WHERE key = ?

-- name: turn_lane
UPDATE lanes SET turn = ?, clock = ?, closed_until = ? WHERE key = ?

-- name: drain_lane
UPDATE lanes SET admitted = ?, drain = ?, drained_at = ? WHERE key = ?

-- name: put_rate
UPDATE rates SET tat_ns = ? WHERE lane = ? AND kind = ?

-- name: settle_rate
UPDATE rates SET tat_ns = max(?, min(tat_ns + ? * step_ns, ?)) WHERE lane = ? AND kind = 'tokens'

-- name: cool_rate
INSERT INTO rates (lane, kind, step_ns, burst, tat_ns) VALUES (?, ?, 0, 0, ?)
ON CONFLICT (lane, kind) DO UPDATE SET tat_ns = max(tat_ns, excluded.tat_ns)

-- name: cool_lane
UPDATE lanes SET closed_until = max(closed_until, ?) WHERE key = ?

-- name: idle_lanes
SELECT key FROM lanes WHERE held = 0 AND waiting = 0 AND parent <> '' AND drained_at <= ? LIMIT ?

-- name: drop_lanes
-- Removes those of the idle lanes to which no execution may return, that have no lane below them, and of whose rates nothing is used.
DELETE FROM lanes WHERE key IN (SELECT value FROM json_each(:lanes))
  AND NOT EXISTS (SELECT 1 FROM lanes AS below WHERE below.key > lanes.key || '/' AND below.key < lanes.key || '0')
  AND NOT EXISTS (SELECT 1 FROM rates WHERE rates.lane IN (lanes.key, lanes.shared_rate) AND tat_ns > :now * 1000000)
  AND NOT EXISTS (SELECT 1 FROM executions WHERE lane = lanes.key AND state IN ('queued', 'delayed', 'suspended', 'quarantined'))

-- name: drop_rates_of
-- Also those that the removed lanes shared, if no lane shares them any more.
DELETE FROM rates WHERE lane IN (SELECT value FROM json_each(:lanes) UNION ALL SELECT value FROM json_each(:shared))
  AND NOT EXISTS (SELECT 1 FROM lanes WHERE key = rates.lane)
  AND NOT EXISTS (SELECT 1 FROM lanes WHERE shared_rate = rates.lane)

-- name: keep_lanes
-- The idle lanes that are still needed are checked again an hour later.
UPDATE lanes SET drained_at = :now, drain = 0 WHERE key IN (SELECT value FROM json_each(:lanes))

-- name: queue_state
-- `INDEXED BY` is here because SQLite might otherwise choose the larger index of all executions of the queue.
SELECT coalesce(l.waiting, 0),
       (SELECT count(*) FROM executions INDEXED BY executions_delayed WHERE queue = :queue AND state = 'delayed'), coalesce(l.held, 0),
       (SELECT min(ready_at) FROM executions WHERE queue = :queue AND state = 'queued'),
       (SELECT count(*) FROM executions INDEXED BY executions_parked WHERE queue = :queue AND parked = 1 AND superseded_by IS NULL),
       coalesce(l.admitted, 0), coalesce(l.drain, 0), coalesce(l.drained_at, 0), coalesce(l.money, 0)
FROM (SELECT 1) LEFT JOIN lanes AS l ON l.key = :queue

-- name: queue_state_of
-- The same for one tenant, whose lane has its counts. No index has the oldest of a tenant, and a lane that is forgotten loses its total.
SELECT coalesce(l.waiting, 0),
       (SELECT count(*) FROM executions INDEXED BY executions_delayed
        WHERE queue = :queue AND state = 'delayed' AND coalesce(tenant, 'default') = :tenant), coalesce(l.held, 0), NULL,
       (SELECT count(*) FROM executions INDEXED BY executions_parked
        WHERE queue = :queue AND parked = 1 AND superseded_by IS NULL AND coalesce(tenant, 'default') = :tenant),
       0, coalesce(l.drain, 0), coalesce(l.drained_at, 0), 0
FROM (SELECT 1) LEFT JOIN lanes AS l ON l.key = :lane

-- name: waiting_in
SELECT key, waiting FROM lanes WHERE key IN (SELECT value FROM json_each(?)) AND waiting > 0

-- name: lanes
SELECT key, waiting, held, at_once, closed_until FROM lanes WHERE queue = ? AND key > ? ORDER BY key LIMIT ?

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM executions
    WHERE lane = :lane AND state = 'queued' AND state IN ('queued', 'delayed', 'suspended', 'quarantined')
      AND (order_at, id) < (:order_at, :id) LIMIT :most
)

-- name: parked
SELECT {execution} FROM executions INDEXED BY executions_parked
WHERE parked = 1 AND superseded_by IS NULL AND id > :beyond AND (:tenant IS NULL OR coalesce(tenant, 'default') = :tenant) ORDER BY id LIMIT :limit

-- name: parked_in
SELECT {execution} FROM executions INDEXED BY executions_parked
WHERE queue = :queue AND parked = 1 AND superseded_by IS NULL AND id > :beyond AND (:tenant IS NULL OR coalesce(tenant, 'default') = :tenant) ORDER BY id LIMIT :limit

-- name: schedule
SELECT {schedule} FROM schedules WHERE name = ?

-- name: schedules
SELECT {schedule} FROM schedules WHERE name > ? AND coalesce(tenant, 'default') = coalesce(?, tenant, 'default') ORDER BY name LIMIT ?

-- name: due_schedules
SELECT s.name FROM json_each(:functions) AS f JOIN schedules AS s ON s.function = f.value
WHERE s.next_at <= :now AND (:tenants IS NULL OR coalesce(s.tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
ORDER BY s.next_at LIMIT :limit

-- name: waiting_schedules
SELECT s.name FROM json_each(:functions) AS f JOIN schedules AS s ON s.function = f.value
WHERE s.waits = 1 AND (:tenants IS NULL OR coalesce(s.tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
ORDER BY s.name LIMIT :limit

-- name: next_schedule
-- One search in the index for each function.
SELECT min((
    SELECT min(next_at) FROM schedules WHERE function = f.value AND next_at IS NOT NULL
    AND (:tenants IS NULL OR coalesce(tenant, 'default') IN (SELECT value FROM json_each(:tenants)))
)) FROM json_each(:functions) AS f

-- name: schedule_place
SELECT revision, cursor FROM schedules WHERE name = ?

-- name: add_schedule
INSERT INTO schedules ({schedule}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING

-- name: put_schedule
UPDATE schedules SET tenant = ?, function = ?, next_at = ?, waits = ?, cursor = ?, revision = ?, body = ?, input = ?
WHERE name = ? AND revision = ? AND cursor <= ?

-- name: move_schedule
UPDATE schedules SET next_at = ?, waits = ?, cursor = ?, revision = ?, body = ? WHERE name = ? AND revision = ? AND cursor <= ?

-- name: remove_schedule
DELETE FROM schedules WHERE name = ? AND revision = ?

-- name: put_ledger
INSERT INTO ledger (
    at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
) VALUES {rows}

-- name: put_ledger_days
-- All processes write these rows in the order of their keys, and after every other row of a batch.
INSERT INTO ledger_days (day, tenant, pipeline, node, worker, model, state, expires_at, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (day, tenant, pipeline, node, worker, model, state, expires_at) DO UPDATE SET
    calls = ledger_days.calls + excluded.calls, input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cached = ledger_days.cached + excluded.cached, reasoning = ledger_days.reasoning + excluded.reasoning, nanos = ledger_days.nanos + excluded.nanos,
    held_tokens = ledger_days.held_tokens + excluded.held_tokens, held_nanos = ledger_days.held_nanos + excluded.held_nanos

-- name: cost_of_days
-- One row for each group and state. A dimension that was not asked for is NULL in all rows. The groups with the highest cost are first; by
-- day, the groups are in the order of their values.
SELECT day, tenant, pipeline, node, worker, model, run, state, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos
FROM (
    SELECT CASE WHEN :by_day THEN day END AS day,
           CASE WHEN :by_tenant THEN tenant END AS tenant,
           CASE WHEN :by_pipeline THEN pipeline END AS pipeline,
           CASE WHEN :by_node THEN node END AS node,
           CASE WHEN :by_worker THEN worker END AS worker,
           CASE WHEN :by_model THEN model END AS model, NULL AS run, state,
           sum(calls) AS calls, sum(input) AS input, sum(output) AS output, sum(cached) AS cached, sum(reasoning) AS reasoning, sum(nanos) AS nanos, sum(held_tokens) AS held_tokens, sum(held_nanos) AS held_nanos
    FROM ledger_days
    WHERE day >= :since AND day < :until AND tenant = coalesce(:tenant, tenant)
      AND pipeline = coalesce(:pipeline, pipeline) AND worker = coalesce(:worker, worker)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) AS sums
ORDER BY CASE WHEN :by_day THEN 0 ELSE sum(nanos) OVER (PARTITION BY day, tenant, pipeline, node, worker, model, run) END DESC,
         day, tenant, pipeline, node, worker, model, run, state
LIMIT :limit

-- name: cost_of_run
SELECT day, tenant, pipeline, node, worker, model, run, state, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos
FROM (
    SELECT CASE WHEN :by_day THEN day END AS day,
           CASE WHEN :by_tenant THEN tenant END AS tenant,
           CASE WHEN :by_pipeline THEN pipeline END AS pipeline,
           CASE WHEN :by_node THEN node END AS node,
           CASE WHEN :by_worker THEN worker END AS worker,
           CASE WHEN :by_model THEN model END AS model,
           CASE WHEN :by_run THEN run END AS run, state,
           count(*) AS calls, sum(input) AS input, sum(output) AS output, sum(cached) AS cached, sum(reasoning) AS reasoning, sum(nanos) AS nanos, sum(held_tokens) AS held_tokens, sum(held_nanos) AS held_nanos
    FROM ledger
    WHERE root = :root AND instr('/' || path || '/', '/' || :run || '/') > 0 AND tenant = coalesce(:tenant, tenant)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) AS sums
ORDER BY CASE WHEN :by_day THEN 0 ELSE sum(nanos) OVER (PARTITION BY day, tenant, pipeline, node, worker, model, run) END DESC,
         day, tenant, pipeline, node, worker, model, run, state
LIMIT :limit

-- name: ledger_root
-- No index helps here: this is for runs that the store has removed.
SELECT root FROM ledger WHERE instr('/' || path || '/', '/' || :run || '/') > 0 LIMIT 1

-- name: ledger
SELECT at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
FROM ledger WHERE run = :run ORDER BY number LIMIT :limit

-- name: open_calls
-- The first entries of calls of these runs that have not ended, so that they have no second entry.
SELECT at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
FROM ledger AS begun
WHERE run IN (SELECT value FROM json_each(?)) AND state = 'reserved'
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE run = begun.run AND call = begun.call AND state <> 'reserved')
ORDER BY number

-- name: cost_samples
-- What each run cost that a node of this pipeline asked for, by node. Only the newest calls of models and other paid tools are counted.
SELECT node, owner, run, sum(input + output), sum(nanos) FROM (
    SELECT node, owner, run, input, output, nanos FROM ledger
    WHERE pipeline = :pipeline AND pipeline <> '' AND state <> 'reserved' AND tenant = coalesce(:tenant, tenant)
    ORDER BY number DESC LIMIT :limit
) AS newest GROUP BY node, owner, run

-- name: cost_samples_of_worker
-- What each run of a worker cost that no pipeline asked for. Only the newest calls of models and other paid tools are counted.
SELECT node, owner, run, sum(input + output), sum(nanos) FROM (
    SELECT node, owner, run, input, output, nanos FROM ledger
    WHERE worker = :worker AND pipeline = '' AND state <> 'reserved' AND tenant = coalesce(:tenant, tenant)
    ORDER BY number DESC LIMIT :limit
) AS newest GROUP BY node, owner, run

-- name: drop_ledger
DELETE FROM ledger WHERE number IN (
    SELECT number FROM ledger WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)

-- name: drop_ledger_days
DELETE FROM ledger_days WHERE expires_at <= ?

-- name: queued_money
-- What the executions that wait in a queue are estimated to cost.
SELECT coalesce(max(money), 0) FROM lanes WHERE key = ?
