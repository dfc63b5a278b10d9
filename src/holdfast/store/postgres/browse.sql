-- The reads for people. A search (store/browse_query.py) is put together from these statements: `{part}` is a range of one index, newest
-- first, `{filter}` has the lines whose parameters have values, and `{status}` is the word for how an execution stands. A part compares
-- and orders by both columns of its index, because no other index has that order. If it compared one value and ordered by id alone,
-- Postgres might read all ids and filter out those of other values.

-- name: part_id
WHERE id >= %(lower)s AND id < %(upper)s ORDER BY id DESC

-- name: part_function
WHERE (function, id) >= (%(value)s, %(lower)s) AND (function, id) < (%(value)s, %(upper)s) ORDER BY function DESC, id DESC

-- name: part_tenant
WHERE tenant IS NOT NULL AND (tenant, id) >= (%(value)s, %(lower)s) AND (tenant, id) < (%(value)s, %(upper)s) ORDER BY tenant DESC, id DESC

-- name: part_queue
WHERE queue IS NOT NULL AND (queue, id) >= (%(value)s, %(lower)s) AND (queue, id) < (%(value)s, %(upper)s) ORDER BY queue DESC, id DESC

-- name: part_error_code
WHERE error_code IS NOT NULL AND (error_code, id) >= (%(value)s, %(lower)s) AND (error_code, id) < (%(value)s, %(upper)s) ORDER BY error_code DESC, id DESC

-- name: part_pipeline
WHERE pipeline IS NOT NULL AND (pipeline, id) >= (%(value)s, %(lower)s) AND (pipeline, id) < (%(value)s, %(upper)s) ORDER BY pipeline DESC, id DESC

-- name: part_status
WHERE status <> 'SUCCEEDED' AND (status, id) >= (%(value)s, %(lower)s) AND (status, id) < (%(value)s, %(upper)s) ORDER BY status DESC, id DESC

-- name: part_outcome
WHERE outcome IS NOT NULL AND outcome <> 'ok' AND (outcome, id) >= (%(value)s, %(lower)s) AND (outcome, id) < (%(value)s, %(upper)s)
ORDER BY outcome DESC, id DESC

-- name: part_named
-- `|| ''` hides the id from the planner. The rows must be sorted by id, so this part is used only if few executions have such a name.
WHERE superseded_by IS NULL AND name >= %(text)s AND name < %(text_end)s AND id || '' >= %(lower)s AND id || '' < %(upper)s ORDER BY id || '' DESC

-- name: part_former
WHERE superseded_by IS NOT NULL AND name >= %(text)s AND name < %(text_end)s AND id || '' >= %(lower)s AND id || '' < %(upper)s ORDER BY id || '' DESC

-- name: read_until
-- The server ends each statement of this transaction after this many milliseconds.
SELECT set_config('statement_timeout', %s, TRUE)

-- name: browse_last
-- Reads an index only, as far as the table was vacuumed.
SELECT count(*), min(id) FROM (SELECT id FROM executions {part} LIMIT %(most)s) AS c

-- name: browse_named
SELECT (SELECT count(*) FROM (SELECT 1 FROM executions
                              WHERE superseded_by IS NULL AND name >= %(text)s AND name < %(text_end)s LIMIT %(most)s) AS named),
       (SELECT count(*) FROM (SELECT 1 FROM executions
                              WHERE superseded_by IS NOT NULL AND name >= %(text)s AND name < %(text_end)s LIMIT %(most)s) AS former)

-- name: functions_of_kinds
SELECT DISTINCT name FROM functions WHERE kind = ANY(%(kinds)s) LIMIT 1000

-- name: bad_outcomes
-- One search in the index for each outcome. There are few outcomes.
WITH RECURSIVE found (value) AS (
    (SELECT outcome FROM executions WHERE outcome IS NOT NULL AND outcome <> 'ok' ORDER BY outcome LIMIT 1)
    UNION ALL
    SELECT (SELECT outcome FROM executions
            WHERE outcome IS NOT NULL AND outcome <> 'ok' AND outcome > found.value ORDER BY outcome LIMIT 1)
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
  AND coalesce(x.tenant, 'default') = %(tenant)s
  AND coalesce(x.tenant, 'default') = ANY(%(tenants)s)
  AND x.function = ANY(%(functions)s)
  AND x.version = ANY(%(versions)s)
  AND x.queue = ANY(%(queues)s)
  AND x.pipeline = ANY(%(pipelines)s)
  AND x.error_code = ANY(%(error_codes)s)
  AND ((x.id >= %(text)s AND x.id < %(text_end)s) OR (x.name >= %(text)s AND x.name < %(text_end)s))
  AND x.parent IS NULL AND %(roots)s = 1
  AND coalesce(f.kind, 'function') = ANY(%(kinds)s)
  AND {status} = ANY(%(statuses)s)

-- name: browse_rows
SELECT x.id, {x.execution}, {status}, coalesce(f.kind, 'function')
FROM (SELECT {execution} FROM executions {part} LIMIT %(most)s) AS x
LEFT JOIN functions AS f ON f.name = x.function AND f.version = x.version
WHERE TRUE
{filter}
ORDER BY x.id DESC LIMIT %(limit)s

-- name: browse_facets
SELECT x.id, {status}, coalesce(f.kind, 'function'), x.function, x.version, x.pipeline, x.queue, coalesce(x.tenant, 'default'), x.error_code
FROM (SELECT {execution} FROM executions {part} LIMIT %(most)s) AS x
LEFT JOIN functions AS f ON f.name = x.function AND f.version = x.version
WHERE TRUE
{filter}
ORDER BY x.id DESC LIMIT %(limit)s

-- name: outline
SELECT {operation}, NULL, NULL FROM operations
WHERE execution = (SELECT key FROM executions WHERE id = %s) AND revision > %s
ORDER BY place

-- name: attempts
-- The events of one operation. Its first event has the number `place`; a result, if there is one, is in its last.
SELECT e.number, e.type, e.at, e.place, e.payload, e.detail FROM executions AS x
JOIN operations AS o ON o.execution = x.key AND o.place = %(place)s
JOIN events AS e ON e.execution = x.key AND e.number >= o.place AND e.number <= coalesce(CASE WHEN o.ended_at IS NOT NULL THEN o.payload_event END, x.events)
WHERE x.id = %(id)s AND e.place = %(place)s
ORDER BY e.number LIMIT %(limit)s

-- name: runner_statuses
SELECT r.id, r.lease_until, r.code, (SELECT count(*) FROM executions WHERE runner = r.id) FROM runners AS r ORDER BY r.id

-- name: all_hosted
SELECT name, version, timeout_seconds, retention_days, max_operations, max_bytes, kind FROM functions ORDER BY name, version LIMIT %s

-- name: subscriber_positions
SELECT name, cursor, greatest(cursor, (SELECT last FROM numbering)), (SELECT id FROM runners WHERE id = holder) FROM subscribers ORDER BY name

-- name: values
-- One search in the index for each value.
WITH RECURSIVE found (value) AS (
    (SELECT {column} FROM executions WHERE {column} IS NOT NULL AND {column} >= %(prefix)s AND {column} < %(end)s ORDER BY {column} LIMIT 1)
    UNION ALL
    SELECT (SELECT {column} FROM executions WHERE {column} IS NOT NULL AND {column} > found.value AND {column} < %(end)s ORDER BY {column} LIMIT 1)
    FROM found WHERE found.value IS NOT NULL
)
SELECT value FROM found WHERE value IS NOT NULL LIMIT %(limit)s

-- name: values_tenant
-- The values of a tenant's newest executions.
SELECT DISTINCT {column} FROM (
    SELECT {column} FROM executions
    WHERE tenant IS NOT NULL AND (tenant, id) >= (%(tenant)s, '') AND (tenant, id) < (%(tenant)s, %(upper)s)
    ORDER BY tenant DESC, id DESC LIMIT %(newest)s
) AS newest WHERE {column} >= %(prefix)s AND {column} < %(end)s ORDER BY 1 LIMIT %(limit)s

-- name: values_default
-- Executions without a tenant are not in the index of tenants, so the newest executions of all tenants are read.
SELECT DISTINCT {column} FROM (
    SELECT {column}, tenant FROM executions WHERE id < %(upper)s ORDER BY id DESC LIMIT %(newest)s
) AS newest WHERE coalesce(tenant, 'default') = 'default' AND {column} >= %(prefix)s AND {column} < %(end)s ORDER BY 1 LIMIT %(limit)s

-- name: put_session
INSERT INTO sessions ({session}) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET
    credential = excluded.credential, csrf = excluded.csrf, made_at = excluded.made_at, seen_at = excluded.seen_at, expires_at = excluded.expires_at

-- name: console_session
SELECT {session} FROM sessions WHERE id = %s

-- name: remove_session
DELETE FROM sessions WHERE id = %s

-- name: remove_login
DELETE FROM sessions WHERE credential = %s AND csrf = %s

-- name: remove_sessions
DELETE FROM sessions WHERE credential = %s

-- name: drop_sessions
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at <= %s ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED)

-- name: views
SELECT {view} FROM views WHERE owner = %s ORDER BY name

-- name: saving
-- Only one process at a time saves a view of an owner, so that the number of views is counted right.
SELECT pg_advisory_xact_lock(5208276530112513 + hashtext(%s))

-- name: put_view
INSERT INTO views ({view}) SELECT %(owner)s::text, %(name)s::text, %(query)s::text, %(made_at)s::bigint
WHERE (SELECT count(*) FROM views WHERE owner = %(owner)s AND name <> %(name)s) < %(most)s
ON CONFLICT (owner, name) DO UPDATE SET query = excluded.query, made_at = excluded.made_at

-- name: remove_view
DELETE FROM views WHERE owner = %s AND name = %s
