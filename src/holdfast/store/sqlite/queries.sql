-- name: header
SELECT {execution} FROM executions WHERE id = ?

-- name: headers
SELECT {execution} FROM executions WHERE id IN (SELECT value FROM json_each(?))

-- name: named
SELECT {execution} FROM executions WHERE function = ? AND name = ? AND superseded_by IS NULL

-- name: claimable
-- Ready executions first come first served; what a dead runner left behind comes with them. Suspects have a query of their own.
-- Each half is cut off before they are put together, so that a long backlog is not sorted to find its first.
SELECT id FROM (
    SELECT id, ready_at FROM (
        SELECT id, ready_at FROM executions
        WHERE state = 'ready' AND ready_at <= :now AND deaths < 2
          AND function || ':' || version IN (SELECT value FROM json_each(:targets))
        ORDER BY ready_at LIMIT :limit
    )
    UNION ALL
    SELECT id, ready_at FROM (
        SELECT id, ready_at FROM executions
        WHERE runner IN (SELECT value FROM json_each(:dead))
          AND function || ':' || version IN (SELECT value FROM json_each(:targets))
        ORDER BY ready_at LIMIT :limit
    )
)
ORDER BY ready_at LIMIT :limit

-- name: suspect
-- The index is named because the one of all ready executions would do too, and may be long.
SELECT id FROM executions INDEXED BY executions_suspect
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= ?) AND function || ':' || version IN (SELECT value FROM json_each(?))
ORDER BY ready_at LIMIT 1

-- name: due
SELECT id FROM executions WHERE due_at <= ? ORDER BY due_at LIMIT ?

-- name: next_due
SELECT min(at) FROM (
    SELECT min(due_at) AS at FROM executions WHERE due_at IS NOT NULL
    UNION ALL
    SELECT min(ready_at) FROM executions
    WHERE state = 'ready' AND deaths < 2 AND function || ':' || version IN (SELECT value FROM json_each(?))
)

-- name: children
-- The index is named because the one of all that were ever invoked would do too, and may be long.
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

-- name: operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = ?) AND o.revision > ? AND o.place > ?
ORDER BY o.place LIMIT ?

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
-- A closing execution's terminal event lies beyond `events` until its invocation is told of as completed.
SELECT e.number, e.type, e.at, e.place, e.payload, e.detail FROM events AS e
JOIN executions AS x ON x.key = e.execution
WHERE x.id = ? AND e.number > ? AND e.number <= x.events
ORDER BY e.number LIMIT ?

-- name: all_events
SELECT number, type, at, place, payload, detail FROM events WHERE execution = ? ORDER BY number

-- name: list
-- Only the lines whose parameter is asked for are kept, so that each question finds its index. A question for several statuses that
-- have one is asked once for each of them; the answers are merged as they are read. So is a question for a name: who has it, and who had
-- it before; there the function is hidden from the planner, which would read all executions of the function.
SELECT {execution} FROM executions WHERE TRUE
  AND function = :function
  AND version = :version
  AND superseded_by IS NULL AND name = :name
  AND superseded_by IS NOT NULL AND name = :former_name
  AND +function = :former_function
  AND parent = :parent
  AND tenant = :tenant
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
-- Only the row that was judged: a lease renewed meanwhile is another row.
DELETE FROM runners WHERE id = ? AND lease_until = ?

-- name: runners
SELECT id, lease_until FROM runners

-- name: holders
SELECT DISTINCT runner FROM executions WHERE runner IS NOT NULL

-- name: held
SELECT id FROM executions WHERE runner = ? AND state = 'running'

-- name: last_key
-- A key is free again when nothing is left of its last execution.
SELECT max(coalesce((SELECT max(key) FROM executions), 0), coalesce((SELECT max(key) FROM expired), 0))

-- name: is_over
-- Whether there is anything to forget.
SELECT EXISTS (SELECT 1 FROM executions WHERE expires_at <= ?1 AND state IN ('closed', 'imported'))
    OR EXISTS (SELECT 1 FROM expired)
    OR EXISTS (SELECT 1 FROM counters WHERE until <= ?1)
    OR EXISTS (SELECT 1 FROM audit WHERE expires_at <= ?1)
    OR (SELECT min(number) FROM signals) <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers)

-- name: expire_executions
DELETE FROM executions WHERE key IN (
    SELECT key FROM executions WHERE expires_at <= ? AND state IN ('closed', 'imported') ORDER BY expires_at LIMIT ?
) RETURNING key

-- name: put_expired
INSERT INTO expired (key) SELECT value FROM json_each(?)

-- name: expired
SELECT key FROM expired ORDER BY key LIMIT 1

-- name: drop_expired
DELETE FROM expired WHERE key = ?

-- name: expired_events
SELECT number, coalesce(length(payload), 0) FROM events WHERE execution = ? ORDER BY number LIMIT ?

-- name: drop_events
DELETE FROM events WHERE execution = ? AND number <= ?

-- name: drop_operations
DELETE FROM operations WHERE execution = ?1 AND place <= (
    SELECT max(place) FROM (SELECT place FROM operations WHERE execution = ?1 ORDER BY place LIMIT ?2)
)

-- name: is_subscribed
SELECT EXISTS (SELECT 1 FROM subscribers)

-- name: subscribe
INSERT OR IGNORE INTO subscribers (name, cursor) SELECT ?, coalesce(max(number), 0) FROM signals

-- name: unsubscribe
DELETE FROM subscribers WHERE name = ?

-- name: delivery
-- Who has a delivery; nobody, when its runner has left or was declared dead.
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
SELECT key, amount, until FROM counters WHERE key = ?

-- name: put_counter
INSERT INTO counters (key, amount, until) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET amount = excluded.amount, until = excluded.until

-- name: drop_counters
DELETE FROM counters WHERE key IN (SELECT key FROM counters WHERE until <= ? LIMIT ?)

-- name: undecided
-- The executions that wait for a person's decision, oldest first.
SELECT DISTINCT x.id FROM operations AS o JOIN executions AS x ON x.key = o.execution
WHERE o.sub_type = 'Approval' AND o.status = 'STARTED' AND x.status = 'RUNNING' AND x.id > ? AND x.tenant IS coalesce(?, x.tenant)
ORDER BY x.id LIMIT ?

-- name: put_credential
INSERT INTO credentials ({credential}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, secret = excluded.secret, roles = excluded.roles, tenant = excluded.tenant, note = excluded.note,
    created_at = excluded.created_at, expires_at = excluded.expires_at

-- name: credentials
SELECT {credential} FROM credentials ORDER BY id

-- name: reseal_credential
UPDATE credentials SET secret = ? WHERE id = ? AND secret = ?

-- name: remove_credential
DELETE FROM credentials WHERE id = ?

-- name: put_signals
INSERT INTO signals (execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at) VALUES {rows}

-- name: drop_signals
-- What every subscriber has had; without subscribers, all.
DELETE FROM signals WHERE number IN (
    SELECT number FROM signals
    WHERE number <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers) ORDER BY number LIMIT ?
)

-- name: put_executions
INSERT INTO executions ({execution}) VALUES {rows}
ON CONFLICT (key) DO UPDATE SET
    status = excluded.status, state = excluded.state, epoch = excluded.epoch, revision = excluded.revision,
    sequence = excluded.sequence, events = excluded.events, pending = excluded.pending, runner = excluded.runner,
    invocation = excluded.invocation, invoked_at = excluded.invoked_at, seen = excluded.seen, ended_at = excluded.ended_at,
    result_event = excluded.result_event, due_at = excluded.due_at, ready_at = excluded.ready_at,
    touched_at = excluded.touched_at, failures = excluded.failures, deaths = excluded.deaths, client = excluded.client,
    client_revision = excluded.client_revision, operations = excluded.operations, stored = excluded.stored,
    continued_as = excluded.continued_as, expires_at = excluded.expires_at, superseded_by = excluded.superseded_by,
    quarantine = excluded.quarantine, quarantine_event = excluded.quarantine_event

-- name: touch_executions
-- What an ordinary checkpoint changes, and nothing more: the statement of the hot path. No column of it is in an index.
UPDATE executions SET
    revision = v.column2, sequence = v.column3, events = v.column4, pending = v.column5, touched_at = v.column6, operations = v.column7,
    stored = v.column8
FROM (VALUES {rows}) AS v WHERE key = v.column1

-- name: touch_execution
UPDATE executions SET
    revision = ?2, sequence = ?3, events = ?4, pending = ?5, touched_at = ?6, operations = ?7, stored = ?8
WHERE key = ?1

-- name: move_executions
-- Apart, because SQLite writes an index again whose column is set, also to what it was.
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
SELECT number, at, kind, who, what, target, origin, outcome, tenant, times, expires_at FROM audit
WHERE number < coalesce(:before, 9223372036854775807) AND at >= coalesce(:since, at) AND who = coalesce(:who, who)
  AND what = coalesce(:what, what) AND outcome = coalesce(:outcome, outcome) AND kind = coalesce(:kind, kind)
ORDER BY number DESC LIMIT :limit

-- name: drop_notes
DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)

-- name: unmarked
SELECT coalesce((SELECT value FROM meta WHERE key = 'unmarked'), '')
