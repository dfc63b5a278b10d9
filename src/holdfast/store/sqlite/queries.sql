-- name: header
SELECT * FROM executions WHERE id = ?

-- name: headers
SELECT * FROM executions WHERE id IN (SELECT value FROM json_each(?))

-- name: named
SELECT * FROM executions WHERE function = ? AND name = ?

-- name: claimable
-- Ready executions first come first served; what a dead runner left behind comes with them. Suspects have a query of their own.
SELECT id FROM (
    SELECT id, ready_at FROM executions
    WHERE state = 'ready' AND ready_at <= :now AND deaths < 2
      AND function || ':' || version IN (SELECT value FROM json_each(:targets))
    UNION ALL
    SELECT id, ready_at FROM executions
    WHERE runner IN (SELECT value FROM json_each(:dead))
      AND function || ':' || version IN (SELECT value FROM json_each(:targets))
)
ORDER BY ready_at LIMIT :limit

-- name: suspect
-- The index is named because the one of all ready executions would do too, and may be long.
SELECT id FROM executions INDEXED BY executions_suspect
WHERE state = 'ready' AND deaths >= 2 AND function || ':' || version IN (SELECT value FROM json_each(?))
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
SELECT id FROM executions WHERE parent = ? AND status = 'RUNNING'

-- name: publish
INSERT INTO functions VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name, version) DO UPDATE SET
    timeout_seconds = excluded.timeout_seconds, retention_days = excluded.retention_days,
    max_operations = excluded.max_operations, max_bytes = excluded.max_bytes

-- name: hosted
SELECT version, timeout_seconds, retention_days, max_operations, max_bytes FROM functions WHERE name = ?

-- name: payload
SELECT payload FROM events WHERE execution = (SELECT key FROM executions WHERE id = ?) AND number = ?

-- name: operations
SELECT o.*, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = ?) AND o.revision > ?
ORDER BY o.place

-- name: newer_operations
SELECT o.*, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ? AND o.revision > ?
ORDER BY o.place

-- name: operation
SELECT o.*, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ? AND o.id = ?

-- name: due_operations
SELECT o.*, e.payload, e.type FROM operations AS o
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

-- name: list
SELECT * FROM executions
WHERE (:function IS NULL OR function = :function)
  AND (:version IS NULL OR version = :version)
  AND (:name IS NULL OR name = :name)
  AND (:statuses = '[]' OR status IN (SELECT value FROM json_each(:statuses)))
  AND (:after IS NULL OR started_at > :after)
  AND (:before IS NULL OR started_at < :before)
  AND (:beyond IS NULL OR id < :beyond)
ORDER BY id DESC LIMIT :limit

-- name: list_oldest_first
SELECT * FROM executions
WHERE (:function IS NULL OR function = :function)
  AND (:version IS NULL OR version = :version)
  AND (:name IS NULL OR name = :name)
  AND (:statuses = '[]' OR status IN (SELECT value FROM json_each(:statuses)))
  AND (:after IS NULL OR started_at > :after)
  AND (:before IS NULL OR started_at < :before)
  AND (:beyond IS NULL OR id > :beyond)
ORDER BY id LIMIT :limit

-- name: join
INSERT INTO runners (id, lease_until) VALUES (?, ?)

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
SELECT coalesce(max(key), 0) FROM executions

-- name: put_executions
INSERT INTO executions VALUES {rows}
ON CONFLICT (key) DO UPDATE SET
    status = excluded.status, state = excluded.state, epoch = excluded.epoch, revision = excluded.revision,
    sequence = excluded.sequence, events = excluded.events, pending = excluded.pending, runner = excluded.runner,
    invocation = excluded.invocation, invoked_at = excluded.invoked_at, seen = excluded.seen, ended_at = excluded.ended_at,
    result_event = excluded.result_event, due_at = excluded.due_at, ready_at = excluded.ready_at,
    touched_at = excluded.touched_at, failures = excluded.failures, deaths = excluded.deaths, client = excluded.client,
    client_revision = excluded.client_revision, operations = excluded.operations, stored = excluded.stored,
    continued_as = excluded.continued_as, expires_at = excluded.expires_at

-- name: touch_executions
-- What an ordinary checkpoint changes, and nothing more: the statement of the hot path.
UPDATE executions SET
    revision = v.column2, sequence = v.column3, events = v.column4, pending = v.column5, due_at = v.column6, touched_at = v.column7,
    operations = v.column8, stored = v.column9
FROM (VALUES {rows}) AS v WHERE key = v.column1

-- name: touch_execution
UPDATE executions SET
    revision = ?2, sequence = ?3, events = ?4, pending = ?5, due_at = ?6, touched_at = ?7, operations = ?8, stored = ?9
WHERE key = ?1

-- name: put_operations
INSERT INTO operations VALUES {rows}
ON CONFLICT (execution, place) DO UPDATE SET
    status = excluded.status, ended_at = excluded.ended_at, attempt = excluded.attempt, due_at = excluded.due_at,
    timeout_at = excluded.timeout_at, replay_children = excluded.replay_children, payload_event = excluded.payload_event,
    revision = excluded.revision

-- name: put_events
INSERT INTO events VALUES {rows}

-- name: get_meta
SELECT value FROM meta WHERE key = ?

-- name: put_meta
INSERT INTO meta (key, value) VALUES (?, ?)
