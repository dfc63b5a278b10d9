-- name: session
-- Every query here has an index and is planned once, perhaps while its table is empty: no plan may depend on that. JIT takes longer than
-- any of them runs. A lock is waited for as long as SQLite's. A process that stands still in a transaction loses it, and its locks.
SET search_path = "{schema}";
SET jit = off;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan;
SET default_transaction_isolation = 'read committed';
SET lock_timeout = '10s';
SET idle_in_transaction_session_timeout = '10s';
SELECT set_config('synchronous_commit', 'on', FALSE) WHERE current_setting('synchronous_commit') = 'off'

-- name: making
-- Held while the tables are made, so that several processes may open a new store at the same moment.
SELECT pg_advisory_xact_lock(5208276530112512 + hashtext(%s))

-- name: patience
-- Who migrates is waited for, however long that takes; nothing is locked yet.
SET LOCAL lock_timeout = 0

-- name: impatience
-- A table is not waited for that long: behind a process that waits for a table, all other processes wait.
SET LOCAL lock_timeout = '10s'

-- name: keep_runners
-- No runner joins, renews or leaves until the transaction ends.
LOCK TABLE runners IN SHARE MODE

-- name: leases
-- The runners that have a lease now, and for how many seconds.
SELECT id, (lease_until - extract(epoch FROM clock_timestamp()) * 1000)::bigint / 1000 + 1 FROM runners
WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000 ORDER BY id

-- name: old_leases
-- The same, of older code only.
SELECT id, (lease_until - extract(epoch FROM clock_timestamp()) * 1000)::bigint / 1000 + 1 FROM runners
WHERE lease_until > extract(epoch FROM clock_timestamp()) * 1000 AND coalesce(code, 0) < %s ORDER BY id

-- name: schema_state
-- Whether the schema is there, whether our `meta` is in it, and whether anything is.
SELECT to_regnamespace(quote_ident(%(schema)s)) IS NOT NULL,
       to_regclass(quote_ident(%(schema)s) || '.meta') IS NOT NULL,
       EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s)))

-- name: create_schema
CREATE SCHEMA "{schema}"

-- name: metas
SELECT key, value FROM meta

-- name: put_meta
INSERT INTO meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: time
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: ping
SELECT 1

-- name: notify
SELECT pg_notify(%s, %s)

-- name: header
SELECT {execution} FROM executions WHERE id = %s

-- name: headers
SELECT {execution} FROM executions WHERE id = ANY(%s::text[])

-- name: named
-- The function is hidden from the planner here and below: by its index all executions of the function would be read.
SELECT {execution} FROM executions WHERE function || '' = %s AND name = %s AND superseded_by IS NULL

-- name: all_named
SELECT {x.execution} FROM unnest(%s::text[], %s::text[]) AS wanted (function, name)
JOIN executions AS x ON x.name = wanted.name AND x.function || '' = wanted.function AND x.superseded_by IS NULL

-- name: locked_headers
-- In the order of keys, as every batch locks them: then two batches never wait for each other.
SELECT {execution} FROM executions WHERE id = ANY(%s::text[]) ORDER BY key FOR UPDATE

-- name: next_keys
SELECT nextval('execution_keys')

-- name: claimable
-- Ready executions first come first served; what a dead runner left behind comes with them. Suspects have a query of their own.
SELECT id FROM (
    (SELECT id, ready_at FROM executions
     WHERE state = 'ready' AND ready_at <= %(now)s AND deaths < 2 AND function || ':' || version = ANY(%(targets)s::text[])
     ORDER BY ready_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, ready_at FROM executions
     WHERE runner = ANY(%(dead)s::text[]) AND function || ':' || version = ANY(%(targets)s::text[])
     ORDER BY ready_at LIMIT %(limit)s)
) AS offered
ORDER BY ready_at LIMIT %(limit)s

-- name: suspect
SELECT id FROM executions
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= %s) AND function || ':' || version = ANY(%s::text[])
ORDER BY ready_at LIMIT 1

-- name: due
SELECT id FROM executions WHERE due_at <= %s ORDER BY due_at LIMIT %s

-- name: next_due
SELECT least(
    (SELECT due_at FROM executions WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT ready_at FROM executions
     WHERE state = 'ready' AND deaths < 2 AND function || ':' || version = ANY(%s::text[]) ORDER BY ready_at LIMIT 1)
)

-- name: children
SELECT {execution} FROM executions WHERE parent = %s AND status = 'RUNNING'

-- name: publish
INSERT INTO functions (name, version, timeout_seconds, retention_days, max_operations, max_bytes, kind)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name, version) DO UPDATE SET
    timeout_seconds = excluded.timeout_seconds, retention_days = excluded.retention_days,
    max_operations = excluded.max_operations, max_bytes = excluded.max_bytes, kind = excluded.kind

-- name: hosted
SELECT version, timeout_seconds, retention_days, max_operations, max_bytes, kind FROM functions WHERE name = %s ORDER BY version

-- name: payload
SELECT payload FROM events WHERE execution = (SELECT key FROM executions WHERE id = %s) AND number = %s

-- name: operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = %s) AND o.revision > %s AND o.place > %s
ORDER BY o.place LIMIT %s

-- name: contexts
SELECT {operation}, NULL, NULL FROM operations
WHERE execution = (SELECT key FROM executions WHERE id = %s) AND type = 'CONTEXT'
ORDER BY place

-- name: operations_at
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = (SELECT key FROM executions WHERE id = %s) AND o.place = ANY(%s::bigint[])

-- name: newer_operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = %s AND o.revision > %s
ORDER BY o.place

-- name: operation
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = %s AND o.id = %s

-- name: due_operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = %s AND o.due_at <= %s
ORDER BY o.due_at, o.place

-- name: all_due_operations
SELECT {o.operation}, e.payload, e.type FROM operations AS o
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event
WHERE o.execution = ANY(%s::bigint[]) AND o.due_at <= %s
ORDER BY o.due_at, o.place

-- name: all_next_due_operations
SELECT execution, min(due_at) FROM operations WHERE execution = ANY(%s::bigint[]) AND due_at > %s GROUP BY execution

-- name: these_operations
SELECT {o.operation}, e.payload, e.type FROM unnest(%s::bigint[], %s::text[]) AS wanted (execution, id)
JOIN operations AS o ON o.execution = wanted.execution AND o.id = wanted.id
LEFT JOIN events AS e ON e.execution = o.execution AND e.number = o.payload_event

-- name: next_due_operation
SELECT min(due_at) FROM operations WHERE execution = %s AND due_at > %s

-- name: ready_operation
SELECT 1 FROM operations WHERE execution = %s AND status = 'READY' AND revision > %s LIMIT 1

-- name: history
-- A closing execution's terminal event lies beyond `events` until its invocation is told of as completed.
SELECT number, type, at, place, payload, detail FROM events
WHERE execution = (SELECT key FROM executions WHERE id = %(id)s)
  AND number > %(after)s AND number <= (SELECT events FROM executions WHERE id = %(id)s)
ORDER BY number LIMIT %(limit)s

-- name: all_events
SELECT number, type, at, place, payload, detail FROM events WHERE execution = %s ORDER BY number

-- name: list
-- Only the lines whose parameter is asked for are kept, so that each question finds its index. A question for several statuses that
-- have one is asked once for each of them, a page each, and the answers are merged. So is a question for a name: who has it, and who had
-- it before.
SELECT {execution} FROM executions WHERE TRUE
  AND function = %(function)s
  AND version = %(version)s
  AND superseded_by IS NULL AND name = %(name)s
  AND superseded_by IS NOT NULL AND name = %(former_name)s
  AND function || '' = %(former_function)s
  AND parent = %(parent)s
  AND tenant = %(tenant)s
  AND status = ANY(%(statuses)s)
  AND status <> 'SUCCEEDED' AND status = %(unsuccessful)s
  AND started_at > %(started_after)s
  AND started_at < %(started_before)s
  AND id < %(older)s
  AND id > %(newer)s

-- name: list_merged
UNION ALL

-- name: list_newest_first
ORDER BY id DESC LIMIT %(limit)s

-- name: list_oldest_first
ORDER BY id LIMIT %(limit)s

-- name: join
-- Not for code that is older than the store allows by now: it may have been so when the process opened it.
INSERT INTO runners (id, lease_until, code) SELECT %(runner)s::text, %(lease_until)s::bigint, %(code)s::bigint
WHERE (SELECT value::bigint FROM meta WHERE key = 'least') <= %(code)s::bigint
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING id

-- name: renew
-- Answers with the database's time, which is compared with the machine's.
UPDATE runners SET lease_until = %s WHERE id = %s RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: leave
DELETE FROM runners WHERE id = %s

-- name: bury
-- A lease renewed meanwhile is looked at again, and stays.
DELETE FROM runners WHERE lease_until <= %s

-- name: runners
SELECT id FROM runners

-- name: holders
SELECT DISTINCT runner FROM executions WHERE runner IS NOT NULL

-- name: held
SELECT id FROM executions WHERE runner = %s AND state = 'running'

-- name: is_over
-- Whether there is anything to forget.
SELECT EXISTS (SELECT 1 FROM executions WHERE expires_at <= %s AND state IN ('closed', 'imported'))
    OR EXISTS (SELECT 1 FROM expired)
    OR EXISTS (SELECT 1 FROM counters WHERE until <= %s)
    OR EXISTS (SELECT 1 FROM audit WHERE expires_at <= %s)
    OR (SELECT min(number) FROM signals) <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers)

-- name: expire_executions
-- What somebody is writing at this moment is left for the next time.
WITH gone AS (
    DELETE FROM executions WHERE key = ANY(ARRAY(
        SELECT key FROM executions WHERE expires_at <= %s AND state IN ('closed', 'imported')
        ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
    )) RETURNING key
)
INSERT INTO expired (key) SELECT key FROM gone

-- name: expired
SELECT key FROM expired ORDER BY key LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: drop_expired
DELETE FROM expired WHERE key = %s

-- name: expired_events
-- Sizes as they are on disk: measuring the text would mean to read it.
SELECT number, coalesce(pg_column_size(payload), 0) FROM events WHERE execution = %s ORDER BY number LIMIT %s

-- name: drop_events
DELETE FROM events WHERE execution = %s AND number <= %s

-- name: drop_operations
DELETE FROM operations WHERE execution = %(key)s AND place <= (
    SELECT max(place) FROM (SELECT place FROM operations WHERE execution = %(key)s ORDER BY place LIMIT %(limit)s) AS first
)

-- name: drop_signals
-- What every subscriber has had; without subscribers, all.
DELETE FROM signals WHERE number IN (
    SELECT number FROM signals
    WHERE number <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers) ORDER BY number LIMIT %s
)

-- name: subscribe
INSERT INTO subscribers (name, cursor) SELECT %s, last FROM numbering ON CONFLICT (name) DO NOTHING

-- name: outwait_writers
-- Returns when every batch has ended that began before.
LOCK TABLE executions IN SHARE MODE

-- name: unsubscribe
DELETE FROM subscribers WHERE name = %s

-- name: delivery
-- Who has a delivery; nobody, when its runner has left or was declared dead.
SELECT (SELECT id FROM runners WHERE id = holder) FROM subscribers WHERE name = %s

-- name: take_delivery
UPDATE subscribers SET holder = %(runner)s
WHERE name = %(name)s AND (holder IS NULL OR holder = %(runner)s OR holder NOT IN (SELECT id FROM runners))
RETURNING cursor

-- name: delivered
UPDATE subscribers SET cursor = greatest(cursor, %s) WHERE name = %s AND holder = %s

-- name: is_holder
SELECT 1 FROM subscribers WHERE name = %s AND holder = %s

-- name: signals
SELECT number, execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at FROM signals
WHERE number > %s ORDER BY number LIMIT %s

-- name: make_counters
-- A row for each, so that there is something to lock.
INSERT INTO counters (key, amount, until) SELECT unnest(%s::text[]), 0, 0 ON CONFLICT DO NOTHING

-- name: locked_counters
-- In one order for all processes.
SELECT key, amount, until FROM counters WHERE key = ANY(%s::text[]) ORDER BY key FOR UPDATE

-- name: counters
SELECT key, amount, until FROM counters WHERE key = ANY(%s::text[])

-- name: put_counters
UPDATE counters AS c SET amount = n.amount, until = n.until
FROM unnest(%s::text[], %s::bigint[], %s::bigint[]) AS n (key, amount, until) WHERE c.key = n.key

-- name: drop_counters
DELETE FROM counters WHERE key IN (SELECT key FROM counters WHERE until <= %s ORDER BY key LIMIT %s FOR UPDATE SKIP LOCKED)

-- name: undecided
-- The executions that wait for a person's decision, oldest first.
SELECT DISTINCT x.id FROM operations AS o JOIN executions AS x ON x.key = o.execution
WHERE o.sub_type = 'Approval' AND o.status = 'STARTED' AND x.status = 'RUNNING' AND x.id > %s AND x.tenant IS NOT DISTINCT FROM coalesce(%s, x.tenant)
ORDER BY x.id LIMIT %s

-- name: put_credential
INSERT INTO credentials ({credential}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, secret = excluded.secret, roles = excluded.roles, tenant = excluded.tenant, note = excluded.note,
    created_at = excluded.created_at, expires_at = excluded.expires_at

-- name: credentials
SELECT {credential} FROM credentials ORDER BY id

-- name: reseal_credential
UPDATE credentials SET secret = %s WHERE id = %s AND secret = %s

-- name: remove_credential
DELETE FROM credentials WHERE id = %s

-- A batch is written by one statement, put together from the parts below that it needs. `agreed` says whether everything it was decided
-- on is still as it was; if not, no part writes anything.

-- name: write_start
WITH

-- name: write_agreed
agreed AS MATERIALIZED (
    SELECT coalesce(array_agg(revision ORDER BY key), '{}') = %(revisions)s::bigint[] AS yes
    FROM (SELECT key, revision FROM executions WHERE key = ANY(%(keys)s::bigint[]) ORDER BY key FOR UPDATE) AS locked
)

-- name: write_unopposed
-- Nothing but new executions: there is nothing to agree with. A name that somebody else took meanwhile is an error of the index.
agreed AS (SELECT TRUE AS yes)

-- name: write_executions
put AS (
    INSERT INTO executions ({execution}) SELECT {v.execution} FROM unnest({rows}) AS v ({execution}) WHERE (SELECT yes FROM agreed)
    ON CONFLICT (key) DO UPDATE SET
        status = excluded.status, state = excluded.state, epoch = excluded.epoch, revision = excluded.revision,
        sequence = excluded.sequence, events = excluded.events, pending = excluded.pending, runner = excluded.runner,
        invocation = excluded.invocation, invoked_at = excluded.invoked_at, seen = excluded.seen, ended_at = excluded.ended_at,
        result_event = excluded.result_event, due_at = excluded.due_at, ready_at = excluded.ready_at,
        touched_at = excluded.touched_at, failures = excluded.failures, deaths = excluded.deaths, client = excluded.client,
        client_revision = excluded.client_revision, operations = excluded.operations, stored = excluded.stored,
        continued_as = excluded.continued_as, expires_at = excluded.expires_at, superseded_by = excluded.superseded_by,
        quarantine = excluded.quarantine, quarantine_event = excluded.quarantine_event
    RETURNING 1
)

-- name: write_touches
-- What an ordinary checkpoint changes, and nothing more: the statement of the hot path.
touched AS (
    UPDATE executions AS x SET
        revision = v.revision, sequence = v.sequence, events = v.events, pending = v.pending, due_at = v.due_at,
        touched_at = v.touched_at, operations = v.operations, stored = v.stored
    FROM unnest({rows}) AS v (key, revision, sequence, events, pending, touched_at, operations, stored, due_at)
    WHERE x.key = v.key AND (SELECT yes FROM agreed)
)

-- name: write_operations
performed AS (
    INSERT INTO operations ({operation}) SELECT {v.operation} FROM unnest({rows}) AS v ({operation}) WHERE (SELECT yes FROM agreed)
    ON CONFLICT (execution, place) DO UPDATE SET
        status = excluded.status, ended_at = excluded.ended_at, attempt = excluded.attempt, due_at = excluded.due_at,
        timeout_at = excluded.timeout_at, replay_children = excluded.replay_children, payload_event = excluded.payload_event,
        revision = excluded.revision
)

-- name: write_events
happened AS (
    INSERT INTO events ({event}) SELECT {v.event} FROM unnest({rows}) AS v ({event}) WHERE (SELECT yes FROM agreed)
)

-- name: write_signals
-- Numbered last of all: nothing that may have to wait for somebody comes after the lock of the number.
numbered AS (
    UPDATE numbering SET last = last + %(signals)s
    WHERE (SELECT yes FROM agreed) AND (SELECT count(*) FROM put) > 0 AND EXISTS (SELECT 1 FROM subscribers)
    RETURNING last - %(signals)s AS before
),
told AS (
    INSERT INTO signals (number, execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at)
    SELECT n.before + v.place, v.execution, v.function, v.version, v.name, v.status, v.started_at, v.ended_at, v.quarantine, v.quarantined_at
    FROM numbered AS n,
         unnest({rows}) WITH ORDINALITY
         AS v (execution, function, version, name, status, started_at, ended_at, quarantine, quarantined_at, place)
    RETURNING 1
)

-- name: write_no_signals
told AS (SELECT 1 WHERE FALSE)

-- name: write_end
SELECT yes, EXISTS (SELECT 1 FROM told), CASE WHEN yes AND %(news)s THEN pg_notify(%(channel)s, %(member)s) END FROM agreed

-- name: least
-- The oldest code that may use the store: whether a step that code from before cannot bear was applied.
SELECT value::bigint FROM meta WHERE key = 'least'

-- name: whoami
-- Names this connection for all time: a process number alone is used again.
SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()

-- name: outlive
-- Ends a connection of ours that the server may still be at work for; no row when it is gone, else whether it is gone now.
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s

-- name: put_notes
INSERT INTO audit (at, kind, who, what, target, origin, outcome, tenant, times, expires_at)
SELECT v.at, v.kind, v.who, v.what, v.target, v.origin, v.outcome, v.tenant, v.times, v.expires_at
FROM unnest({rows}) AS v (at, kind, who, what, target, origin, outcome, tenant, times, expires_at)

-- name: audit
SELECT number, at, kind, who, what, target, origin, outcome, tenant, times, expires_at FROM audit
WHERE number < coalesce(%(before)s::bigint, 9223372036854775807) AND at >= coalesce(%(since)s::bigint, at)
  AND who = coalesce(%(who)s::text, who) AND what = coalesce(%(what)s::text, what) AND outcome = coalesce(%(outcome)s::text, outcome)
  AND kind = coalesce(%(kind)s::text, kind)
ORDER BY number DESC LIMIT %(limit)s

-- name: drop_notes
DELETE FROM audit WHERE number = ANY(ARRAY(
    SELECT number FROM audit WHERE expires_at <= %s ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
))

-- name: unmarked
SELECT coalesce((SELECT value FROM meta WHERE key = 'unmarked'), '')
