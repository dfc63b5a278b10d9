-- The reads for people. A search (store/browse_query.py) is put together from these statements: `{part}` is a range of one index, newest
-- first, `{filter}` has the lines whose parameters have values, and `{status}` is the word for how an execution stands.

-- name: part_id
INDEXED BY executions_by_id WHERE id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_function
INDEXED BY executions_by_function WHERE function = :value AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_tenant
INDEXED BY executions_by_tenant WHERE tenant = :value AND tenant IS NOT NULL AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_queue
INDEXED BY executions_by_queue WHERE queue = :value AND queue IS NOT NULL AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_error_code
INDEXED BY executions_by_error WHERE error_code = :value AND error_code IS NOT NULL AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_pipeline
INDEXED BY executions_by_pipeline WHERE pipeline = :value AND pipeline IS NOT NULL AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_status
INDEXED BY executions_by_status WHERE status = :value AND status <> 'SUCCEEDED' AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_outcome
INDEXED BY executions_by_outcome
WHERE outcome = :value AND outcome IS NOT NULL AND outcome <> 'ok' AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_named
-- The rows must be sorted by id, so this part is used only if few executions have such a name.
INDEXED BY executions_by_name
WHERE superseded_by IS NULL AND name >= :text AND name < :text_end AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: part_former
INDEXED BY executions_superseded
WHERE superseded_by IS NOT NULL AND name >= :text AND name < :text_end AND id >= :lower AND id < :upper ORDER BY id DESC

-- name: browse_last
-- Reads an index only.
SELECT count(*), min(id) FROM (SELECT id FROM executions {part} LIMIT :most)

-- name: browse_named
SELECT (SELECT count(*) FROM (SELECT 1 FROM executions INDEXED BY executions_by_name
                              WHERE superseded_by IS NULL AND name >= :text AND name < :text_end LIMIT :most)),
       (SELECT count(*) FROM (SELECT 1 FROM executions INDEXED BY executions_superseded
                              WHERE superseded_by IS NOT NULL AND name >= :text AND name < :text_end LIMIT :most))

-- name: functions_of_kinds
SELECT DISTINCT name FROM functions WHERE kind IN (SELECT value FROM json_each(:kinds)) LIMIT 1000

-- name: bad_outcomes
-- One search in the index for each outcome. There are few outcomes.
WITH RECURSIVE found (value) AS (
    SELECT min(outcome) FROM executions INDEXED BY executions_by_outcome WHERE outcome IS NOT NULL AND outcome <> 'ok'
    UNION ALL
    SELECT (SELECT min(outcome) FROM executions INDEXED BY executions_by_outcome
            WHERE outcome IS NOT NULL AND outcome <> 'ok' AND outcome > found.value)
    FROM found WHERE found.value IS NOT NULL
)
SELECT value FROM found WHERE value IS NOT NULL LIMIT 100

-- name: browse_status
CASE x.status
WHEN 'RUNNING' THEN
    CASE WHEN x.state = 'quarantined' THEN 'quarantined'
         WHEN x.state IN ('running', 'closing', 'closed') THEN CASE WHEN x.failures > 0 THEN 'retrying' ELSE 'running' END
         WHEN x.state = 'ready' AND x.failures > 0 THEN 'retrying'
         WHEN x.state = 'suspended' AND EXISTS (
             SELECT 1 FROM operations AS o WHERE o.execution = x.key AND o.sub_type = 'Approval' AND o.status = 'STARTED'
         ) THEN 'person'
         ELSE 'waiting' END
WHEN 'SUCCEEDED' THEN CASE WHEN coalesce(x.outcome, 'ok') = 'ok' THEN 'ok' WHEN x.outcome = 'partial' THEN 'partial' ELSE 'failed' END
WHEN 'STOPPED' THEN 'stopped'
ELSE 'failed' END

-- name: browse_filter
  AND coalesce(x.tenant, 'default') = :tenant
  AND coalesce(x.tenant, 'default') IN (SELECT value FROM json_each(:tenants))
  AND x.function IN (SELECT value FROM json_each(:functions))
  AND x.version IN (SELECT value FROM json_each(:versions))
  AND x.queue IN (SELECT value FROM json_each(:queues))
  AND x.pipeline IN (SELECT value FROM json_each(:pipelines))
  AND x.error_code IN (SELECT value FROM json_each(:error_codes))
  AND ((x.id >= :text AND x.id < :text_end) OR (x.name >= :text AND x.name < :text_end))
  AND x.parent IS NULL AND :roots = 1
  AND coalesce(f.kind, 'function') IN (SELECT value FROM json_each(:kinds))
  AND {status} IN (SELECT value FROM json_each(:statuses))

-- name: browse_rows
-- The candidates come from an index alone; the row of each is looked up by its key.
SELECT x.id, {x.execution}, {status}, coalesce(f.kind, 'function')
FROM (SELECT key, id FROM executions {part} LIMIT :most) AS c CROSS JOIN executions AS x NOT INDEXED ON x.key = c.key
LEFT JOIN functions AS f ON f.name = x.function AND f.version = x.version
WHERE TRUE
{filter}
ORDER BY x.id DESC LIMIT :limit

-- name: browse_facets
SELECT x.id, {status}, coalesce(f.kind, 'function'), x.function, x.version, x.pipeline, x.queue, coalesce(x.tenant, 'default'), x.error_code
FROM (SELECT key, id FROM executions {part} LIMIT :most) AS c CROSS JOIN executions AS x NOT INDEXED ON x.key = c.key
LEFT JOIN functions AS f ON f.name = x.function AND f.version = x.version
WHERE TRUE
{filter}
ORDER BY x.id DESC LIMIT :limit

-- name: outline
SELECT {operation}, NULL, NULL FROM operations
WHERE execution = (SELECT key FROM executions WHERE id = ?) AND revision > ?
ORDER BY place

-- name: attempts
-- The events of one operation. Its first event has the number `place`; a result, if there is one, is in its last.
SELECT e.number, e.type, e.at, e.place, e.payload, e.detail FROM executions AS x
JOIN operations AS o ON o.execution = x.key AND o.place = :place
JOIN events AS e ON e.execution = x.key AND e.number >= o.place AND e.number <= coalesce(CASE WHEN o.ended_at IS NOT NULL THEN o.payload_event END, x.events)
WHERE x.id = :id AND e.place = :place
ORDER BY e.number LIMIT :limit

-- name: runner_statuses
SELECT r.id, r.lease_until, r.code, (SELECT count(*) FROM executions WHERE runner = r.id) FROM runners AS r ORDER BY r.id

-- name: all_hosted
SELECT name, version, timeout_seconds, retention_days, max_operations, max_bytes, kind FROM functions ORDER BY name, version LIMIT ?

-- name: subscriber_positions
SELECT name, cursor, max(cursor, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'signals'), 0)), (SELECT id FROM runners WHERE id = holder)
FROM subscribers ORDER BY name

-- name: values
-- One search in the index for each value.
WITH RECURSIVE found (value) AS (
    SELECT min({column}) FROM executions INDEXED BY {index} WHERE {column} IS NOT NULL AND {column} >= :prefix AND {column} < :end
    UNION ALL
    SELECT (SELECT min({column}) FROM executions INDEXED BY {index} WHERE {column} IS NOT NULL AND {column} > found.value AND {column} < :end)
    FROM found WHERE found.value IS NOT NULL
)
SELECT value FROM found WHERE value IS NOT NULL LIMIT :limit

-- name: values_tenant
-- The values of a tenant's newest executions.
SELECT DISTINCT {column} FROM (
    SELECT {column} FROM executions INDEXED BY executions_by_tenant
    WHERE tenant = :tenant AND tenant IS NOT NULL AND id < :upper ORDER BY id DESC LIMIT :newest
) WHERE {column} >= :prefix AND {column} < :end ORDER BY 1 LIMIT :limit

-- name: values_default
-- Executions without a tenant are not in the index of tenants, so the newest executions of all tenants are read.
SELECT DISTINCT {column} FROM (
    SELECT {column}, tenant FROM executions INDEXED BY executions_by_id WHERE id < :upper ORDER BY id DESC LIMIT :newest
) WHERE coalesce(tenant, 'default') = 'default' AND {column} >= :prefix AND {column} < :end ORDER BY 1 LIMIT :limit

-- name: put_session
INSERT INTO sessions ({session}) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    credential = excluded.credential, csrf = excluded.csrf, made_at = excluded.made_at, seen_at = excluded.seen_at, expires_at = excluded.expires_at

-- name: console_session
SELECT {session} FROM sessions WHERE id = ?

-- name: remove_session
DELETE FROM sessions WHERE id = ?

-- name: remove_login
DELETE FROM sessions WHERE credential = ? AND csrf = ?

-- name: remove_sessions
DELETE FROM sessions WHERE credential = ?

-- name: drop_sessions
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)

-- name: views
SELECT {view} FROM views WHERE owner = ? ORDER BY name

-- name: put_view
INSERT INTO views ({view}) SELECT :owner, :name, :query, :made_at
WHERE (SELECT count(*) FROM views WHERE owner = :owner AND name <> :name) < :most
ON CONFLICT (owner, name) DO UPDATE SET query = excluded.query, made_at = excluded.made_at

-- name: remove_view
DELETE FROM views WHERE owner = ? AND name = ?
