-- name: session
-- Every query here has an index and is planned once, perhaps while its table is empty, so no plan may depend on the size of a table. JIT
-- compilation takes longer than any of these queries runs. A statement waits for a lock at most 10 seconds, as with SQLite. If a process
-- stops inside a transaction, the server ends the transaction and releases its locks.
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
-- The next statements wait without a limit for a process that migrates. This transaction has locked nothing yet.
SET LOCAL lock_timeout = 0

-- name: impatience
-- The next statements wait at most 10 seconds for a lock: all other processes wait behind a process that waits for a table.
SET LOCAL lock_timeout = '10s'

-- name: short_patience
SET LOCAL lock_timeout = '100ms'

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
-- Whether the schema exists, whether it has a table `meta`, and whether it has any table.
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

-- name: ended
SELECT id FROM executions WHERE id = ANY(%s::text[]) AND (status <> 'RUNNING' OR state = 'quarantined')

-- name: named
-- `|| ''` hides the function from the planner, here and below: by the index of functions it would read all executions of the function.
SELECT {execution} FROM executions WHERE function || '' = %s AND name = %s AND superseded_by IS NULL

-- name: all_named
-- Each name is looked for by itself: a join that is planned on an empty table reads all executions.
SELECT {x.execution} FROM unnest(%s::text[], %s::text[]) AS wanted (function, name)
CROSS JOIN LATERAL (
    SELECT {execution} FROM executions AS e
    WHERE e.name = wanted.name AND e.function || '' = wanted.function AND e.superseded_by IS NULL LIMIT 1
) AS x

-- name: locked_headers
-- In the order of keys, as every batch locks them: then two batches never wait for each other.
SELECT {execution} FROM executions WHERE id = ANY(%s::text[]) ORDER BY key FOR UPDATE

-- name: next_keys
SELECT nextval('execution_keys')

-- name: claimable
-- Ready executions, the longest ready first, and the executions that a dead runner left. Suspects have a query of their own. Each function
-- has a range of the index, so what waits for runners of other functions is not looked at.
SELECT id FROM (
    (SELECT ready.id, ready.ready_at FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version)
     CROSS JOIN LATERAL (
        SELECT id, ready_at FROM executions AS x
        WHERE x.function = hosted.function AND x.version = hosted.version AND state = 'ready' AND deaths < 2 AND ready_at <= %(now)s
        ORDER BY ready_at LIMIT %(limit)s
     ) AS ready
     ORDER BY ready.ready_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, ready_at FROM executions
     WHERE runner = ANY(%(dead)s::text[]) AND function || ':' || version = ANY(%(targets)s::text[])
     ORDER BY ready_at LIMIT %(limit)s)
) AS offered
ORDER BY ready_at LIMIT %(limit)s

-- name: claimable_only
-- The same for a runner that takes executions only from some queues or of some tenants.
SELECT id FROM (
    (SELECT ready.id, ready.ready_at FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version)
     CROSS JOIN LATERAL (
        SELECT id, ready_at FROM executions AS x
        WHERE x.function = hosted.function AND x.version = hosted.version AND state = 'ready' AND deaths < 2 AND ready_at <= %(now)s
          AND (%(queues)s::text[] IS NULL OR x.queue = ANY(%(queues)s::text[]) OR (x.queue IS NULL AND x.parent IS NOT NULL))
          AND (%(tenants)s::text[] IS NULL OR coalesce(x.tenant, 'default') = ANY(%(tenants)s::text[]))
        ORDER BY ready_at LIMIT %(limit)s
     ) AS ready
     ORDER BY ready.ready_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, ready_at FROM executions
     WHERE runner = ANY(%(dead)s::text[]) AND function || ':' || version = ANY(%(targets)s::text[])
       AND (%(queues)s::text[] IS NULL OR queue = ANY(%(queues)s::text[]) OR (queue IS NULL AND parent IS NOT NULL))
       AND (%(tenants)s::text[] IS NULL OR coalesce(tenant, 'default') = ANY(%(tenants)s::text[]))
     ORDER BY ready_at LIMIT %(limit)s)
) AS offered
ORDER BY ready_at LIMIT %(limit)s

-- name: suspect
SELECT id FROM executions
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= %s) AND function || ':' || version = ANY(%s::text[])
ORDER BY ready_at LIMIT 1

-- name: suspect_only
SELECT id FROM executions
WHERE state = 'ready' AND deaths >= 2 AND (deaths = 2 OR ready_at <= %(now)s) AND function || ':' || version = ANY(%(targets)s::text[])
  AND (%(queues)s::text[] IS NULL OR queue = ANY(%(queues)s::text[]) OR (queue IS NULL AND parent IS NOT NULL))
  AND (%(tenants)s::text[] IS NULL OR coalesce(tenant, 'default') = ANY(%(tenants)s::text[]))
ORDER BY ready_at LIMIT 1

-- name: due
SELECT id FROM executions WHERE due_at <= %s ORDER BY due_at LIMIT %s

-- name: next_due
-- The next timer, the next delayed retry, or the next time at which a lane opens. Without functions, lanes are left out.
SELECT least(
    (SELECT due_at FROM executions WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT min(ready.ready_at) FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version)
     CROSS JOIN LATERAL (
        SELECT ready_at FROM executions AS x
        WHERE x.function = hosted.function AND x.version = hosted.version AND state = 'ready' AND deaths < 2 ORDER BY ready_at LIMIT 1
     ) AS ready),
    (SELECT closed_until FROM lanes
     WHERE closed_until > 0 AND waiting > 0 AND cardinality(%(functions)s::text[]) > 0 ORDER BY closed_until LIMIT 1)
)

-- name: next_due_only
SELECT least(
    (SELECT due_at FROM executions WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1),
    (SELECT min(ready.ready_at) FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version)
     CROSS JOIN LATERAL (
        SELECT ready_at FROM executions AS x
        WHERE x.function = hosted.function AND x.version = hosted.version AND state = 'ready' AND deaths < 2
          AND (%(queues)s::text[] IS NULL OR x.queue = ANY(%(queues)s::text[]) OR (x.queue IS NULL AND x.parent IS NOT NULL))
          AND (%(tenants)s::text[] IS NULL OR coalesce(x.tenant, 'default') = ANY(%(tenants)s::text[]))
        ORDER BY ready_at LIMIT 1
     ) AS ready),
    (SELECT closed_until FROM lanes
     WHERE closed_until > 0 AND waiting > 0 AND cardinality(%(functions)s::text[]) > 0 ORDER BY closed_until LIMIT 1)
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

-- name: inputs
SELECT x.id, e.payload FROM unnest(%s::text[]) AS wanted (id)
JOIN executions AS x ON x.id = wanted.id JOIN events AS e ON e.execution = x.key AND e.number = 1

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
-- The terminal event of a closing execution has a number larger than `events` until the completion of its invocation is written.
SELECT number, type, at, place, payload, detail FROM events
WHERE execution = (SELECT key FROM executions WHERE id = %(id)s)
  AND number > %(after)s AND number <= (SELECT events FROM executions WHERE id = %(id)s)
ORDER BY number LIMIT %(limit)s

-- name: all_events
SELECT number, type, at, place, payload, detail FROM events WHERE execution = %s ORDER BY number

-- name: list
-- Only the lines whose parameters have values are kept (store/list_query.py), so that each query finds its index. Statuses other than
-- SUCCEEDED are looked up one by one, a page each, and the results are merged. A name is looked up twice, for the execution that has it
-- and for executions that had it before.
SELECT {execution} FROM executions WHERE TRUE
  AND function = %(function)s
  AND version = %(version)s
  AND superseded_by IS NULL AND name = %(name)s
  AND superseded_by IS NOT NULL AND name = %(former_name)s
  AND function || '' = %(former_function)s
  AND parent = %(parent)s
  AND tenant = %(tenant)s
  AND coalesce(tenant, 'default') = %(default_tenant)s
  AND queue = %(queue)s
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
-- Refused for code that is older than the store allows: the store may have been migrated after the process opened it.
INSERT INTO runners (id, lease_until, code) SELECT %(runner)s::text, %(lease_until)s::bigint, %(code)s::bigint
WHERE (SELECT value::bigint FROM meta WHERE key = 'least') <= %(code)s::bigint
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until
RETURNING id

-- name: renew
-- Returns the database's time, which is compared with the machine's.
UPDATE runners SET lease_until = %s WHERE id = %s RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: leave
DELETE FROM runners WHERE id = %s

-- name: bury
-- If a lease is renewed at the same time, Postgres checks the new row, which is not removed.
DELETE FROM runners WHERE lease_until <= %s

-- name: runners
SELECT id FROM runners

-- name: holders
SELECT DISTINCT runner FROM executions WHERE runner IS NOT NULL

-- name: held
SELECT id FROM executions WHERE runner = %s AND state = 'running'

-- name: is_over
-- Whether retention has anything to remove.
SELECT EXISTS (SELECT 1 FROM executions WHERE expires_at <= %s AND state IN ('closed', 'imported'))
    OR EXISTS (SELECT 1 FROM expired)
    OR EXISTS (SELECT 1 FROM counters WHERE until <= %s)
    OR EXISTS (SELECT 1 FROM audit WHERE expires_at <= %s)
    OR EXISTS (SELECT 1 FROM ledger WHERE expires_at <= %s)
    OR EXISTS (SELECT 1 FROM ledger_days WHERE expires_at <= %s)
    OR EXISTS (SELECT 1 FROM sessions WHERE expires_at <= %s)
    OR EXISTS (SELECT 1 FROM lanes WHERE held = 0 AND waiting = 0 AND parent <> '' AND drained_at <= %s)
    OR (SELECT min(number) FROM signals) <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers)

-- name: expire_executions
-- Rows that another process is writing at this moment are left for the next call.
WITH gone AS (
    DELETE FROM executions WHERE key = ANY(ARRAY(
        SELECT key FROM executions WHERE expires_at <= %s AND state IN ('closed', 'imported')
        ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
    )) RETURNING key, graph
)
INSERT INTO expired (key, graph) SELECT key, graph FROM gone

-- name: expired
SELECT key, graph FROM expired ORDER BY key LIMIT 1 FOR UPDATE SKIP LOCKED

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

-- name: graph
SELECT text FROM graphs WHERE id = %s

-- name: kept_graphs
-- The graphs that exist. Until the transaction ends, no other process can remove them. Several processes can hold this lock at the same
-- time.
SELECT id FROM graphs WHERE id = ANY(%s::text[]) ORDER BY id FOR KEY SHARE

-- name: put_graphs
INSERT INTO graphs (id, text) SELECT v.id, v.text FROM unnest({rows}) AS v (id, text) ON CONFLICT (id) DO NOTHING

-- name: renew_graphs
UPDATE graphs AS g SET text = v.text FROM unnest({rows}) AS v (id, text) WHERE g.id = v.id

-- name: is_graph_named
SELECT EXISTS (SELECT 1 FROM executions WHERE graph = %s)

-- name: free_graph
-- Returns no row if the graph was removed, or if a writer has locked it.
SELECT id FROM graphs WHERE id = %s FOR UPDATE SKIP LOCKED

-- name: drop_graph
-- It runs after `free_graph`, as a statement of its own, so that it sees what every writer that had locked the graph before has committed.
DELETE FROM graphs WHERE id = %(graph)s AND NOT EXISTS (SELECT 1 FROM executions WHERE graph = %(graph)s)

-- name: drop_signals
-- Signals that were delivered to every subscriber. Without subscribers, all signals.
DELETE FROM signals WHERE number IN (
    SELECT number FROM signals
    WHERE number <= (SELECT coalesce(min(cursor), 9223372036854775807) FROM subscribers) ORDER BY number LIMIT %s
)

-- name: subscribe
INSERT INTO subscribers (name, cursor) SELECT %s, last FROM numbering ON CONFLICT (name) DO NOTHING

-- name: outwait_writers
-- Returns when every batch that began before has ended.
LOCK TABLE executions IN SHARE MODE

-- name: unsubscribe
DELETE FROM subscribers WHERE name = %s

-- name: delivery
-- The runner that delivers to a subscriber. NULL if there is none, or if that runner has left or was declared dead.
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
-- Makes a row for each counter, so that it can be locked.
INSERT INTO counters (key, amount, until) SELECT unnest(%s::text[]), 0, 0 ON CONFLICT DO NOTHING

-- name: locked_counters
-- All processes lock these rows in this order, so that they never wait for each other.
SELECT key, amount, until, reserved FROM counters WHERE key = ANY(%s::text[]) ORDER BY key FOR UPDATE

-- name: counters
SELECT key, amount, until, reserved FROM counters WHERE key = ANY(%s::text[])

-- name: put_counters
UPDATE counters AS c SET amount = n.amount, until = n.until, reserved = n.reserved
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) AS n (key, amount, until, reserved) WHERE c.key = n.key

-- name: drop_counters
DELETE FROM counters WHERE key IN (SELECT key FROM counters WHERE until <= %s ORDER BY key LIMIT %s FOR UPDATE SKIP LOCKED)

-- name: undecided
-- The executions that wait for a person's decision, oldest first.
SELECT DISTINCT x.id FROM operations AS o JOIN executions AS x ON x.key = o.execution
WHERE o.sub_type = 'Approval' AND o.status = 'STARTED' AND x.status = 'RUNNING' AND x.id > %s AND coalesce(x.tenant, 'default') = coalesce(%s, x.tenant, 'default')
ORDER BY x.id LIMIT %s

-- name: put_credential
INSERT INTO credentials ({credential}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET
    kind = excluded.kind, secret = excluded.secret, roles = excluded.roles, tenant = excluded.tenant, note = excluded.note,
    created_at = excluded.created_at, expires_at = excluded.expires_at, person = excluded.person

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

-- name: write_agreed_unheard
-- As above, for a batch without its signals: it may be written only if there is no subscriber.
agreed AS MATERIALIZED (
    SELECT coalesce(array_agg(revision ORDER BY key), '{}') = %(revisions)s::bigint[] AND NOT EXISTS (SELECT 1 FROM subscribers) AS yes
    FROM (SELECT key, revision FROM executions WHERE key = ANY(%(keys)s::bigint[]) ORDER BY key FOR UPDATE) AS locked
)

-- name: write_unopposed
-- The batch has only new executions, or executions that it has locked, so there are no revisions to compare. If another process took a name
-- meanwhile, the unique index raises an error.
agreed AS (SELECT TRUE AS yes)

-- name: write_unopposed_unheard
agreed AS MATERIALIZED (SELECT NOT EXISTS (SELECT 1 FROM subscribers) AS yes)

-- name: write_changes
-- Executions that were there before. Only what may change after a start is sent.
changed AS (
    UPDATE executions AS x SET
        deadline = v.deadline, status = v.status, state = v.state, epoch = v.epoch, revision = v.revision, sequence = v.sequence,
        events = v.events, pending = v.pending, runner = v.runner, invocation = v.invocation, invoked_at = v.invoked_at, seen =
        v.seen, ended_at = v.ended_at, result_event = v.result_event, due_at = v.due_at, ready_at = v.ready_at, touched_at =
        v.touched_at, failures = v.failures, deaths = v.deaths, client = v.client, client_revision = v.client_revision, operations
        = v.operations, stored = v.stored, continued_as = v.continued_as, expires_at = v.expires_at, superseded_by =
        v.superseded_by, quarantine = v.quarantine, quarantine_event = v.quarantine_event, admitted_at = v.admitted_at, parked =
        v.parked, outcome = v.outcome, error_code = v.error_code, cost = v.cost, attempt = v.attempt, attempts = v.attempts
    FROM unnest({rows}) AS v (
        key, deadline, status, state, epoch, revision, sequence, events, pending, runner, invocation, invoked_at, seen, ended_at,
        result_event, due_at, ready_at, touched_at, failures, deaths, client, client_revision, operations, stored, continued_as,
        expires_at, superseded_by, quarantine, quarantine_event, admitted_at, parked, outcome, error_code, cost, attempt, attempts
    )
    WHERE x.key = v.key AND (SELECT yes FROM agreed)
    RETURNING 1
)

-- name: write_no_changes
changed AS (SELECT 1 WHERE FALSE)

-- name: write_executions
-- New executions, after the changes, because a changed execution may give up the name that a new one takes.
put AS (
    INSERT INTO executions ({execution}) SELECT {v.execution} FROM unnest({rows}) AS v ({execution})
    WHERE (SELECT yes FROM agreed) AND (SELECT count(*) FROM changed) >= 0
    RETURNING 1
)

-- name: write_no_executions
put AS (SELECT 1 WHERE FALSE)

-- name: write_touches
-- Only the columns that an ordinary checkpoint changes. This part runs more often than any other.
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

-- name: write_lanes
-- Lanes are locked after executions, in the order of their keys, as every batch locks them. What is NULL stays as it is. A lane in which
-- nothing waited begins at the clock of the lane above.
slots AS MATERIALIZED (
    SELECT key FROM lanes
    WHERE key = ANY(%(lanes_0)s::text[]) AND (SELECT yes FROM agreed) AND (SELECT count(*) FROM changed) + (SELECT count(*) FROM put) >= 0
    ORDER BY key FOR UPDATE
),
moved AS (
    UPDATE lanes AS l SET
        held = l.held + v.held, waiting = l.waiting + v.waiting, money = l.money + v.money,
        turn = CASE
            WHEN v.waiting > 0 AND l.waiting = 0 THEN greatest(l.turn, (SELECT clock FROM lanes AS above WHERE above.key = l.parent))
            ELSE coalesce(v.turn, l.turn)
        END,
        clock = coalesce(v.clock, l.clock), closed_until = greatest(coalesce(v.closed_until, l.closed_until), v.cool_until),
        admitted = coalesce(v.admitted, l.admitted), drain = coalesce(v.drain, l.drain), drained_at = coalesce(v.drained_at, l.drained_at)
    FROM unnest({rows}) AS v (key, held, waiting, money, cool_until, turn, clock, closed_until, admitted, drain, drained_at)
    WHERE l.key = v.key AND (SELECT count(*) FROM slots) > 0
)

-- name: write_no_lanes
slots AS (SELECT 1 WHERE FALSE)

-- name: write_rates
-- The state of a rate after admissions, and then after ended executions have reported the tokens that they really used: `units` is the sum
-- beyond their estimates, and `peak` the amount if they are counted one after the other. `tat_ns` is never before now, nor so far ahead
-- that it could not be stored.
rated AS (
    UPDATE rates AS r SET tat_ns = CASE
        WHEN v.units IS NULL THEN v.tat_ns
        ELSE least(
            greatest(%(now_ns)s + v.peak::numeric * r.step_ns, coalesce(v.tat_ns, r.tat_ns) + v.units::numeric * r.step_ns),
            %(now_ns)s + %(most_ns)s
        )::bigint
    END
    FROM unnest({rows}) AS v (lane, kind, tat_ns, units, peak)
    WHERE r.lane = v.lane AND r.kind = v.kind AND (SELECT count(*) FROM slots) > 0
)

-- name: write_cooled
cooled AS (
    INSERT INTO rates (lane, kind, step_ns, burst, tat_ns)
    SELECT v.lane, 'cooling', 0, 0, v.tat_ns FROM unnest({rows}) AS v (lane, tat_ns) WHERE (SELECT count(*) FROM slots) > 0
    ON CONFLICT (lane, kind) DO UPDATE SET tat_ns = greatest(rates.tat_ns, excluded.tat_ns)
)

-- name: write_root
-- Every admission moves this clock. If another admission has locked it, this one does not move it.
rooted AS (
    UPDATE lanes SET clock = greatest(clock, %(clock)s)
    WHERE key = ANY(ARRAY(SELECT key FROM lanes WHERE key = '' FOR UPDATE SKIP LOCKED)) AND (SELECT yes FROM agreed)
)

-- name: write_signals
-- Numbered last of all: after the row of the number is locked, the statement waits for no other lock.
numbered AS (
    UPDATE numbering SET last = last + %(signals)s
    WHERE (SELECT yes FROM agreed) AND (SELECT count(*) FROM changed) + (SELECT count(*) FROM put) > 0 AND (SELECT count(*) FROM slots) >= 0
      AND EXISTS (SELECT 1 FROM subscribers)
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
-- Signals are always news: another process may deliver them.
SELECT yes, EXISTS (SELECT 1 FROM told),
       CASE WHEN yes AND (%(news)s OR EXISTS (SELECT 1 FROM told)) THEN pg_notify(%(channel)s, %(member)s) END FROM agreed

-- name: least
-- The oldest code that may use the store (older_code.py).
SELECT value::bigint FROM meta WHERE key = 'least'

-- name: whoami
-- Identifies this connection. A process id alone is not enough, because the system uses it again later.
SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()

-- name: outlive
-- Ends a connection of this process for which the server may still work. Returns no row if it had ended before, else whether it has ended
-- now.
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s

-- name: put_notes
INSERT INTO audit (at, kind, who, what, target, origin, outcome, tenant, times, expires_at)
SELECT v.at, v.kind, v.who, v.what, v.target, v.origin, v.outcome, v.tenant, v.times, v.expires_at
FROM unnest({rows}) AS v (at, kind, who, what, target, origin, outcome, tenant, times, expires_at)

-- name: audit
-- By time, and then by number. If retention has removed the note `before`, notes with a smaller number follow it.
SELECT number, at, kind, who, what, target, origin, outcome, tenant, times, expires_at FROM audit
WHERE at <= coalesce((SELECT b.at FROM audit b WHERE b.number = %(before)s::bigint), 9223372036854775807)
  AND (at < coalesce((SELECT b.at FROM audit b WHERE b.number = %(before)s::bigint), -9223372036854775807)
    OR number < coalesce(%(before)s::bigint, 9223372036854775807))
  AND at >= coalesce(%(since)s::bigint, -9223372036854775807)
  AND who = coalesce(%(who)s::text, who) AND what = coalesce(%(what)s::text, what) AND outcome = coalesce(%(outcome)s::text, outcome)
  AND kind = coalesce(%(kind)s::text, kind)
ORDER BY at DESC, number DESC LIMIT %(limit)s

-- name: drop_notes
DELETE FROM audit WHERE number = ANY(ARRAY(
    SELECT number FROM audit WHERE expires_at <= %s ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
))

-- name: unmarked
SELECT coalesce((SELECT value FROM meta WHERE key = 'unmarked'), '')

-- name: queue
SELECT name, declared, operator, mode, revision FROM queues WHERE name = %s

-- name: queues
SELECT name, declared, operator, mode, revision FROM queues ORDER BY name

-- name: kept_queue
-- Until the transaction ends, no other process can change the settings of the queue, so the lanes that the transaction makes get the right
-- limits.
SELECT name, declared, operator, mode, revision FROM queues WHERE name = %s FOR SHARE

-- name: make_queue
INSERT INTO queues (name) VALUES (%s) ON CONFLICT (name) DO NOTHING RETURNING name

-- name: declare_queue
INSERT INTO queues (name, declared) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared, revision = queues.revision + 1 WHERE queues.declared <> excluded.declared

-- name: is_declared
SELECT 1 FROM queues WHERE name = %s AND declared = %s

-- name: set_queue
UPDATE queues SET operator = %s, mode = %s, revision = revision + 1 WHERE name = %s AND revision = %s

-- name: lock_lanes
-- All lanes of a queue, in the order in which every batch locks lanes.
SELECT count(*) FROM (SELECT key FROM lanes WHERE queue = %s ORDER BY key FOR UPDATE) AS locked

-- name: set_lanes
-- The lanes are opened. If a rate is still used up, the next admission closes its lane again.
UPDATE lanes SET at_once = %(at_once)s, paused = %(paused)s, closed_until = 0
WHERE queue = %(queue)s AND level = %(level)s AND (at_once <> %(at_once)s OR paused <> %(paused)s OR closed_until > 0)

-- name: drop_rates
DELETE FROM rates WHERE lane = ANY(ARRAY(SELECT key FROM lanes WHERE queue = %s AND level = %s)) AND kind <> ALL(%s::text[])

-- name: set_rates
INSERT INTO rates (lane, kind, step_ns, burst)
SELECT key, %(kind)s, %(step)s, %(burst)s FROM lanes WHERE queue = %(queue)s AND level = %(level)s
ON CONFLICT (lane, kind) DO UPDATE SET step_ns = excluded.step_ns, burst = excluded.burst, tat_ns = (
    -- Units that were used up at the last admission become free again at the new rate from that time on.
    SELECT least(rates.tat_ns, l.drained_at * 1000000) + trunc(least(
        greatest(rates.tat_ns - l.drained_at * 1000000, 0) * (excluded.step_ns::double precision / rates.step_ns), 1e18
    ))::bigint
    FROM lanes AS l WHERE l.key = rates.lane
)

-- name: other_rates
-- The leaf lanes of a function that share another rate of runs than this one, or have one of their own from before rates were shared.
SELECT l.key FROM lanes AS l
LEFT JOIN rates AS r ON r.lane = l.shared_rate AND r.kind = 'runs'
LEFT JOIN rates AS own ON own.lane = l.key AND own.kind = 'runs'
WHERE l.function = %(function)s AND (r.step_ns IS DISTINCT FROM %(step)s::bigint OR r.burst IS DISTINCT FROM %(burst)s::bigint OR own.lane IS NOT NULL)

-- name: drop_own_rate
DELETE FROM rates WHERE kind = 'runs' AND lane = ANY(%(lanes)s::text[])

-- name: drop_shared_rate
DELETE FROM rates WHERE kind = 'runs' AND lane = ANY(ARRAY(SELECT DISTINCT shared_rate FROM lanes WHERE key = ANY(%(lanes)s::text[])))

-- name: share_rate
UPDATE lanes AS l SET shared_rate = v.shared FROM unnest(%(lanes)s::text[], %(shared)s::text[]) AS v (key, shared) WHERE l.key = v.key

-- name: set_shared_rate
INSERT INTO rates (lane, kind, step_ns, burst)
SELECT DISTINCT shared_rate, 'runs', %(step)s, %(burst)s FROM lanes WHERE key = ANY(%(lanes)s::text[]) ORDER BY shared_rate
ON CONFLICT (lane, kind) DO UPDATE SET step_ns = excluded.step_ns, burst = excluded.burst, tat_ns = (
    -- As in set_rates.
    SELECT least(rates.tat_ns, l.last * 1000000) + trunc(least(
        greatest(rates.tat_ns - l.last * 1000000, 0) * (excluded.step_ns::double precision / rates.step_ns), 1e18
    ))::bigint
    FROM (SELECT max(drained_at) AS last FROM lanes WHERE shared_rate = rates.lane) AS l
)

-- name: open_lanes_again
-- The lanes are opened. If a rate is still used up, the next admission closes its lane again.
UPDATE lanes SET closed_until = 0 WHERE closed_until > 0 AND key = ANY(%(lanes)s::text[])

-- name: locked_lanes
-- All processes lock these rows in this order, so that they never wait for each other.
SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate
FROM lanes WHERE key = ANY(%s::text[]) ORDER BY key FOR UPDATE

-- name: lanes_there
SELECT key FROM lanes WHERE key = ANY(%s::text[])

-- name: make_lanes
INSERT INTO lanes (key, queue, parent, level, function, version, at_once, paused, shared_rate)
SELECT v.key, v.queue, v.parent, v.level, v.function, v.version, v.at_once, v.paused, v.shared_rate
FROM unnest({rows}) AS v (key, queue, parent, level, function, version, at_once, paused, shared_rate)
ORDER BY v.key ON CONFLICT (key) DO NOTHING RETURNING key

-- name: make_rates
INSERT INTO rates (lane, kind, step_ns, burst) SELECT v.lane, v.kind, v.step_ns, v.burst FROM unnest({rows}) AS v (lane, kind, step_ns, burst)
ORDER BY v.lane, v.kind ON CONFLICT (lane, kind) DO NOTHING

-- name: unmake_lanes
DELETE FROM lanes WHERE key = ANY(%s::text[])

-- name: unmake_rates
DELETE FROM rates WHERE lane = ANY(%s::text[])

-- name: unmake_queues
DELETE FROM queues WHERE name = ANY(%s::text[])

-- name: rates
-- Lanes are locked before their rates, and rates in one order for all processes: lanes that different processes have locked may share one.
SELECT lane, kind, step_ns, burst, tat_ns FROM rates WHERE lane = ANY(%s::text[]) ORDER BY lane, kind FOR UPDATE

-- name: free_rates
-- Those that no other process has locked.
SELECT lane, kind, step_ns, burst, tat_ns FROM rates WHERE lane = ANY(%s::text[]) ORDER BY lane, kind FOR UPDATE SKIP LOCKED

-- name: oldest
SELECT ready_at FROM executions WHERE queue = %s AND state = 'queued' ORDER BY ready_at LIMIT 1

-- name: has_open_lane
-- Whether a queue is open and executions of these functions wait, or the time of a closed lane has come. Otherwise an admission would find
-- nothing.
SELECT EXISTS (SELECT 1 FROM lanes WHERE parent = '' AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0)
       AND EXISTS (SELECT 1 FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version), LATERAL (
           SELECT 1 FROM lanes AS l WHERE l.function = hosted.function AND l.version = hosted.version AND l.waiting > 0 LIMIT 1
       ) AS leaf)
       OR EXISTS (SELECT 1 FROM lanes WHERE closed_until > 0 AND waiting > 0 AND closed_until <= %(now)s)

-- name: reopen_lanes
UPDATE lanes SET closed_until = 0 WHERE key = ANY(ARRAY(
    SELECT key FROM lanes WHERE closed_until > 0 AND waiting > 0 AND closed_until <= %s
    ORDER BY closed_until LIMIT 10000 FOR UPDATE SKIP LOCKED
))

-- name: open_queues
-- What an admission begins with: the clock above all queues, whether a closed lane may open, how many queues are open, and the first of
-- them. A lane that is alone at its level is followed down, so that most walks need no other read of lanes. The last column is the rate
-- that a lane shares with others; '' if it has only rates of its own, NULL if it has none.
WITH queue AS MATERIALIZED (
    SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM lanes
    WHERE parent = '' AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 ORDER BY turn, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), second AS MATERIALIZED (
    SELECT l.key, l.held, l.waiting, l.at_once, l.closed_until, l.paused, l.turn, l.clock, l.admitted, l.drain, l.drained_at, l.function, l.version, l.shared_rate
    FROM (SELECT min(key) AS key FROM queue HAVING count(*) = 1) AS above
    CROSS JOIN LATERAL (
        SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM lanes
        WHERE parent = above.key AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 ORDER BY turn, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS l
), third AS MATERIALIZED (
    SELECT l.key, l.held, l.waiting, l.at_once, l.closed_until, l.paused, l.turn, l.clock, l.admitted, l.drain, l.drained_at, l.function, l.version, l.shared_rate
    FROM (SELECT min(key) AS key FROM second HAVING count(*) = 1) AS above
    CROSS JOIN LATERAL (
        SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM lanes
        WHERE parent = above.key AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 ORDER BY turn, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS l
), fourth AS MATERIALIZED (
    SELECT l.key, l.held, l.waiting, l.at_once, l.closed_until, l.paused, l.turn, l.clock, l.admitted, l.drain, l.drained_at, l.function, l.version, l.shared_rate
    FROM (SELECT min(key) AS key FROM third HAVING count(*) = 1) AS above
    CROSS JOIN LATERAL (
        SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM lanes
        WHERE parent = above.key AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 ORDER BY turn, key LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) AS l
)
SELECT root.clock, EXISTS (SELECT 1 FROM lanes WHERE closed_until > 0 AND waiting > 0 AND closed_until <= %(now)s),
       (SELECT count(*) FROM (SELECT 1 FROM lanes WHERE parent = '' AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 LIMIT %(limit)s) AS few),
       l.key, l.held, l.waiting, l.at_once, l.closed_until, l.paused, l.turn, l.clock, l.admitted, l.drain, l.drained_at, l.function, l.version, coalesce(l.shared_rate, CASE WHEN EXISTS (SELECT 1 FROM rates WHERE lane = l.key) THEN '' END)
FROM lanes AS root
LEFT JOIN (
    SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM queue
    UNION ALL SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM second
    UNION ALL SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM third
    UNION ALL SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM fourth
) AS l ON TRUE
WHERE root.key = ''

-- name: open_lanes
-- Lanes that another process has locked are skipped, so that an admission does not wait.
SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, coalesce(shared_rate, CASE WHEN EXISTS (SELECT 1 FROM rates WHERE lane = key) THEN '' END) FROM lanes
WHERE parent = %s AND (turn, key) > (%s, %s) AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0
ORDER BY turn, key LIMIT %s FOR UPDATE SKIP LOCKED

-- name: open_below
-- The first open lanes below each of several lanes.
SELECT l.key, l.held, l.waiting, l.at_once, l.closed_until, l.paused, l.turn, l.clock, l.admitted, l.drain, l.drained_at, l.function, l.version, coalesce(l.shared_rate, CASE WHEN EXISTS (SELECT 1 FROM rates WHERE lane = l.key) THEN '' END)
FROM unnest(%s::text[]) AS above (key)
CROSS JOIN LATERAL (
    SELECT key, held, waiting, at_once, closed_until, paused, turn, clock, admitted, drain, drained_at, function, version, shared_rate FROM lanes WHERE parent = above.key AND waiting > 0 AND held < at_once AND closed_until = 0 AND paused = 0 ORDER BY turn, key LIMIT %s FOR UPDATE SKIP LOCKED
) AS l

-- name: passed_queue
-- An open queue in which executions of these functions wait, and that the admission could not lock, because another process had locked it.
SELECT q.key FROM lanes AS q
WHERE q.parent = '' AND q.waiting > 0 AND q.held < q.at_once AND q.closed_until = 0 AND q.paused = 0 AND q.key <> ALL(%(locked)s::text[])
  AND EXISTS (SELECT 1 FROM unnest(%(functions)s::text[], %(versions)s::text[]) AS hosted (function, version), LATERAL (
      SELECT 1 FROM lanes AS l WHERE l.function = hosted.function AND l.version = hosted.version AND l.queue = q.key AND l.waiting > 0 LIMIT 1
  ) AS leaf)
ORDER BY q.turn, q.key LIMIT 1

-- name: heads
-- An execution that has never run comes with its input, if that has at most 64 KiB.
SELECT {x.execution}, (SELECT payload FROM events WHERE execution = x.key AND number = 1 AND x.epoch = 0 AND x.stored <= 65536) FROM (
    SELECT {execution} FROM executions
    WHERE lane = %s AND state = 'queued' AND (order_at, id) > (%s, %s) ORDER BY order_at, id LIMIT %s FOR UPDATE SKIP LOCKED
) AS x

-- name: heads_below
-- The first executions of each of several leaves, with their inputs as above.
SELECT {x.execution}, (SELECT payload FROM events WHERE execution = x.key AND number = 1 AND x.epoch = 0 AND x.stored <= 65536)
FROM unnest(%s::text[]) AS leaf (key)
CROSS JOIN LATERAL (
    SELECT {execution} FROM executions WHERE lane = leaf.key AND state = 'queued' ORDER BY order_at, id LIMIT %s FOR UPDATE SKIP LOCKED
) AS x

-- name: free_headers
-- Locks those of the executions that no other process has locked, and returns their revisions.
SELECT id, revision FROM executions WHERE id = ANY(%s::text[]) FOR UPDATE SKIP LOCKED

-- name: free_lanes
SELECT key FROM lanes WHERE key = ANY(%s::text[]) FOR UPDATE SKIP LOCKED

-- name: first_head
-- The first execution of a leaf, even if another process has locked it.
SELECT id FROM executions WHERE lane = %s AND state = 'queued' ORDER BY order_at, id LIMIT 1

-- name: next_of_key
-- The leaf whose first execution was enqueued first. A key has a leaf for each function and version, so there are few.
SELECT l.key FROM lanes AS l WHERE l.key > %(key)s || '/' AND l.key < %(key)s || '0' AND l.waiting > 0
ORDER BY (SELECT ROW(x.order_at, x.id) FROM executions AS x WHERE x.lane = l.key AND x.state = 'queued' ORDER BY x.order_at, x.id LIMIT 1)
LIMIT 1

-- name: idle_lanes
SELECT key FROM lanes WHERE held = 0 AND waiting = 0 AND parent <> '' AND drained_at <= %s
ORDER BY drained_at LIMIT %s FOR UPDATE SKIP LOCKED

-- name: drop_lanes
-- Removes those of the idle lanes to which no execution may return, that have no lane below them, and of whose rates nothing is used. It
-- runs after `idle_lanes`, as a statement of its own, so that it sees what every writer that had locked a lane before has committed.
DELETE FROM lanes AS l WHERE l.key = ANY(%(lanes)s::text[])
  AND NOT EXISTS (SELECT 1 FROM lanes AS below WHERE below.key > l.key || '/' AND below.key < l.key || '0')
  AND NOT EXISTS (SELECT 1 FROM rates AS r WHERE r.lane = ANY(ARRAY[l.key, l.shared_rate]) AND r.tat_ns > %(now)s * 1000000)
  AND NOT EXISTS (SELECT 1 FROM executions AS x WHERE x.lane = l.key AND x.state IN ('queued', 'delayed', 'suspended', 'quarantined'))

-- name: drop_rates_of
-- Also those that the removed lanes shared, if no lane shares them any more.
DELETE FROM rates AS r WHERE r.lane = ANY(%(lanes)s::text[] || %(shared)s::text[])
  AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.key = r.lane) AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.shared_rate = r.lane)

-- name: keep_lanes
-- The idle lanes that are still needed are checked again an hour later.
UPDATE lanes SET drained_at = %(now)s, drain = 0 WHERE key = ANY(%(lanes)s::text[])

-- name: queue_state
SELECT coalesce(l.waiting, 0), (SELECT count(*) FROM executions WHERE queue = %(queue)s AND state = 'delayed'), coalesce(l.held, 0),
       (SELECT ready_at FROM executions WHERE queue = %(queue)s AND state = 'queued' ORDER BY ready_at LIMIT 1),
       (SELECT count(*) FROM executions WHERE queue = %(queue)s AND parked = 1 AND superseded_by IS NULL),
       coalesce(l.admitted, 0), coalesce(l.drain, 0), coalesce(l.drained_at, 0), coalesce(l.money, 0)
FROM (SELECT 1) AS one LEFT JOIN lanes AS l ON l.key = %(queue)s

-- name: queue_state_of
-- The same for one tenant, whose lane has its counts. No index has the oldest of a tenant, and a lane that is forgotten loses its total.
SELECT coalesce(l.waiting, 0),
       (SELECT count(*) FROM executions WHERE queue = %(queue)s AND state = 'delayed' AND coalesce(tenant, 'default') = %(tenant)s),
       coalesce(l.held, 0), NULL,
       (SELECT count(*) FROM executions
        WHERE queue = %(queue)s AND parked = 1 AND superseded_by IS NULL AND coalesce(tenant, 'default') = %(tenant)s),
       0, coalesce(l.drain, 0), coalesce(l.drained_at, 0), 0
FROM (SELECT 1) AS one LEFT JOIN lanes AS l ON l.key = %(lane)s

-- name: waiting_in
SELECT key, waiting FROM lanes WHERE key = ANY(%s::text[]) AND waiting > 0

-- name: lanes
SELECT key, waiting, held, at_once, closed_until FROM lanes WHERE queue = %s AND key > %s ORDER BY key LIMIT %s

-- name: ahead
SELECT count(*) FROM (
    SELECT 1 FROM executions WHERE lane = %(lane)s AND state = 'queued' AND (order_at, id) < (%(order_at)s, %(id)s)
    ORDER BY order_at, id LIMIT %(most)s
) AS before

-- name: parked
-- `|| ''` hides the id from the planner: by the index of ids it would read all executions.
SELECT {execution} FROM executions WHERE parked = 1 AND superseded_by IS NULL AND id || '' > %(beyond)s
  AND (%(tenant)s::text IS NULL OR coalesce(tenant, 'default') = %(tenant)s)
ORDER BY id || '' LIMIT %(limit)s

-- name: parked_in
SELECT {execution} FROM executions
WHERE queue = %(queue)s AND parked = 1 AND superseded_by IS NULL AND id > %(beyond)s
  AND (%(tenant)s::text IS NULL OR coalesce(tenant, 'default') = %(tenant)s)
ORDER BY id LIMIT %(limit)s

-- name: schedule
SELECT {schedule} FROM schedules WHERE name = %s

-- name: schedules
SELECT {schedule} FROM schedules WHERE name > %s AND coalesce(tenant, 'default') = coalesce(%s, tenant, 'default') ORDER BY name LIMIT %s

-- name: due_schedules
SELECT name FROM schedules WHERE function = ANY(%(functions)s::text[]) AND next_at <= %(now)s
  AND (%(tenants)s::text[] IS NULL OR coalesce(tenant, 'default') = ANY(%(tenants)s::text[]))
ORDER BY next_at LIMIT %(limit)s

-- name: waiting_schedules
SELECT name FROM schedules WHERE function = ANY(%(functions)s::text[]) AND waits = 1
  AND (%(tenants)s::text[] IS NULL OR coalesce(tenant, 'default') = ANY(%(tenants)s::text[]))
ORDER BY name LIMIT %(limit)s

-- name: next_schedule
SELECT min((
    SELECT min(next_at) FROM schedules WHERE function = f.name AND next_at IS NOT NULL
    AND (%(tenants)s::text[] IS NULL OR coalesce(tenant, 'default') = ANY(%(tenants)s::text[]))
)) FROM unnest(%(functions)s::text[]) AS f (name)

-- name: locked_schedules
-- All processes lock these rows in this order, so that they never wait for each other.
SELECT name, revision, cursor FROM schedules WHERE name = ANY(%s::text[]) ORDER BY name FOR UPDATE

-- name: add_schedule
INSERT INTO schedules ({schedule}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING

-- name: put_schedule
UPDATE schedules SET tenant = %s, function = %s, next_at = %s, waits = %s, cursor = %s, revision = %s, body = %s, input = %s
WHERE name = %s AND revision = %s AND cursor <= %s

-- name: move_schedule
UPDATE schedules SET next_at = %s, waits = %s, cursor = %s, revision = %s, body = %s WHERE name = %s AND revision = %s AND cursor <= %s

-- name: remove_schedule
DELETE FROM schedules WHERE name = %s AND revision = %s

-- name: put_ledger
INSERT INTO ledger (
    at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
) SELECT v.at, v.day, v.tenant, v.pipeline, v.node, v.worker, v.run, v.root, v.path, v.owner, v.call, v.model, v.state, v.input, v.output, v.cached,
    v.reasoning, v.nanos, v.held_tokens, v.held_nanos, v.price_source, v.price_date, v.expires_at
FROM unnest({rows}) AS v (
    at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
)

-- name: put_ledger_days
-- All processes write these rows in the order of their keys, and after every other row of a batch.
INSERT INTO ledger_days (day, tenant, pipeline, node, worker, model, state, expires_at, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos)
SELECT v.day, v.tenant, v.pipeline, v.node, v.worker, v.model, v.state, v.expires_at, v.calls, v.input, v.output, v.cached, v.reasoning, v.nanos, v.held_tokens, v.held_nanos
FROM unnest({rows}) AS v (day, tenant, pipeline, node, worker, model, state, expires_at, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos)
ON CONFLICT (day, tenant, pipeline, node, worker, model, state, expires_at) DO UPDATE SET
    calls = ledger_days.calls + excluded.calls, input = ledger_days.input + excluded.input, output = ledger_days.output + excluded.output,
    cached = ledger_days.cached + excluded.cached, reasoning = ledger_days.reasoning + excluded.reasoning, nanos = ledger_days.nanos + excluded.nanos,
    held_tokens = ledger_days.held_tokens + excluded.held_tokens, held_nanos = ledger_days.held_nanos + excluded.held_nanos

-- name: cost_of_days
-- One row for each group and state. A dimension that was not asked for is NULL in all rows. The groups with the highest cost are first; by
-- day, the groups are in the order of their values.
SELECT day, tenant, pipeline, node, worker, model, run, state, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos
FROM (
    SELECT CASE WHEN %(by_day)s::bool THEN day END AS day,
           CASE WHEN %(by_tenant)s::bool THEN tenant END AS tenant,
           CASE WHEN %(by_pipeline)s::bool THEN pipeline END AS pipeline,
           CASE WHEN %(by_node)s::bool THEN node END AS node,
           CASE WHEN %(by_worker)s::bool THEN worker END AS worker,
           CASE WHEN %(by_model)s::bool THEN model END AS model, NULL AS run, state,
           sum(calls)::bigint AS calls, sum(input)::bigint AS input, sum(output)::bigint AS output, sum(cached)::bigint AS cached, sum(reasoning)::bigint AS reasoning, sum(nanos)::bigint AS nanos, sum(held_tokens)::bigint AS held_tokens, sum(held_nanos)::bigint AS held_nanos
    FROM ledger_days
    WHERE day >= %(since)s::bigint AND day < %(until)s::bigint AND tenant = coalesce(%(tenant)s::text, tenant)
      AND pipeline = coalesce(%(pipeline)s::text, pipeline) AND worker = coalesce(%(worker)s::text, worker)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) AS sums
ORDER BY CASE WHEN %(by_day)s::bool THEN 0 ELSE sum(nanos) OVER (PARTITION BY day, tenant, pipeline, node, worker, model, run) END DESC,
         day, tenant, pipeline, node, worker, model, run, state
LIMIT %(limit)s::bigint

-- name: cost_of_run
SELECT day, tenant, pipeline, node, worker, model, run, state, calls, input, output, cached, reasoning, nanos, held_tokens, held_nanos
FROM (
    SELECT CASE WHEN %(by_day)s::bool THEN day END AS day,
           CASE WHEN %(by_tenant)s::bool THEN tenant END AS tenant,
           CASE WHEN %(by_pipeline)s::bool THEN pipeline END AS pipeline,
           CASE WHEN %(by_node)s::bool THEN node END AS node,
           CASE WHEN %(by_worker)s::bool THEN worker END AS worker,
           CASE WHEN %(by_model)s::bool THEN model END AS model,
           CASE WHEN %(by_run)s::bool THEN run END AS run, state,
           count(*) AS calls, sum(input)::bigint AS input, sum(output)::bigint AS output, sum(cached)::bigint AS cached, sum(reasoning)::bigint AS reasoning, sum(nanos)::bigint AS nanos, sum(held_tokens)::bigint AS held_tokens, sum(held_nanos)::bigint AS held_nanos
    FROM ledger
    WHERE root = %(root)s::text AND strpos('/' || path || '/', '/' || %(run)s::text || '/') > 0 AND tenant = coalesce(%(tenant)s::text, tenant)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
) AS sums
ORDER BY CASE WHEN %(by_day)s::bool THEN 0 ELSE sum(nanos) OVER (PARTITION BY day, tenant, pipeline, node, worker, model, run) END DESC,
         day, tenant, pipeline, node, worker, model, run, state
LIMIT %(limit)s::bigint

-- name: ledger_root
-- No index helps here: this is for runs that the store has removed.
SELECT root FROM ledger WHERE strpos('/' || path || '/', '/' || %(run)s::text || '/') > 0 LIMIT 1

-- name: ledger
SELECT at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
FROM ledger WHERE run = %(run)s::text ORDER BY number LIMIT %(limit)s::bigint

-- name: open_calls
-- The first entries of calls of these runs that have not ended, so that they have no second entry.
SELECT at, day, tenant, pipeline, node, worker, run, root, path, owner, call, model, state, input, output, cached, reasoning, nanos,
    held_tokens, held_nanos, price_source, price_date, expires_at
FROM ledger AS begun
WHERE run = ANY(%s::text[]) AND state = 'reserved'
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE run = begun.run AND call = begun.call AND state <> 'reserved')
ORDER BY number

-- name: cost_samples
-- What each run cost that a node of this pipeline asked for, by node. Only the newest calls of models and other paid tools are counted.
SELECT node, owner, run, sum(input + output)::bigint, sum(nanos)::bigint FROM (
    SELECT node, owner, run, input, output, nanos FROM ledger
    WHERE pipeline = %(pipeline)s::text AND pipeline <> '' AND state <> 'reserved' AND tenant = coalesce(%(tenant)s::text, tenant)
    ORDER BY number DESC LIMIT %(limit)s::bigint
) AS newest GROUP BY node, owner, run

-- name: cost_samples_of_worker
-- What each run of a worker cost that no pipeline asked for. Only the newest calls of models and other paid tools are counted.
SELECT node, owner, run, sum(input + output)::bigint, sum(nanos)::bigint FROM (
    SELECT node, owner, run, input, output, nanos FROM ledger
    WHERE worker = %(worker)s::text AND pipeline = '' AND state <> 'reserved' AND tenant = coalesce(%(tenant)s::text, tenant)
    ORDER BY number DESC LIMIT %(limit)s::bigint
) AS newest GROUP BY node, owner, run

-- name: drop_ledger
DELETE FROM ledger WHERE number IN (
    SELECT number FROM ledger WHERE expires_at <= %s ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED
)

-- name: drop_ledger_days
DELETE FROM ledger_days WHERE expires_at <= %s

-- name: queued_money
-- What the executions that wait in a queue are estimated to cost.
SELECT coalesce(max(money), 0) FROM lanes WHERE key = %s
