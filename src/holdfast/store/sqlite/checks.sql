-- What must be true of every store. Each query finds the rows for which it is not: the execution (or table), and what is wrong with it.

-- name: events_missing
-- A header counts its events, which are numbered from 1 without a gap.
SELECT x.id, 'the header counts ' || x.events || ' events, there are ' || count(e.number)
FROM executions AS x LEFT JOIN events AS e ON e.execution = x.key AND e.number BETWEEN 1 AND x.events
GROUP BY x.key HAVING count(e.number) <> x.events LIMIT :limit

-- name: events_beyond
-- Only an execution in the state `closing` has an event beyond those that its header counts.
SELECT x.id, 'event ' || e.number || ' lies beyond the ' || x.events || ' that the header counts'
FROM executions AS x JOIN events AS e ON e.execution = x.key AND e.number > x.events
WHERE x.state <> 'closing' LIMIT :limit

-- name: operations_count
SELECT x.id, 'the header counts ' || x.operations || ' operations, there are ' || count(o.place)
FROM executions AS x LEFT JOIN operations AS o ON o.execution = x.key
GROUP BY x.key HAVING count(o.place) <> x.operations LIMIT :limit

-- name: operations_without_event
-- An operation names the event that began it, and the one that holds its result.
SELECT x.id, 'operation ' || o.id || ' names event ' || coalesce(o.payload_event, o.place) || ', which is not there'
FROM executions AS x JOIN operations AS o ON o.execution = x.key
WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = o.execution AND e.number = o.place)
   OR (o.payload_event IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = o.execution AND e.number = o.payload_event)) LIMIT :limit

-- name: results_missing
SELECT x.id, 'its result is event ' || x.result_event || ', which is not there' FROM executions AS x
WHERE x.result_event IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = x.key AND e.number = x.result_event) LIMIT :limit

-- name: orphaned_events
-- If rows have no execution, its key must be in `expired`, so that retention removes them later.
SELECT 'key ' || execution, count(*) || ' events of an execution that is not there' FROM events
WHERE execution NOT IN (SELECT key FROM executions) AND execution NOT IN (SELECT key FROM expired)
GROUP BY execution LIMIT :limit

-- name: orphaned_operations
SELECT 'key ' || execution, count(*) || ' operations of an execution that is not there' FROM operations
WHERE execution NOT IN (SELECT key FROM executions) AND execution NOT IN (SELECT key FROM expired)
GROUP BY execution LIMIT :limit

-- name: names_shared
-- The query uses no index, because the index may be what is damaged.
SELECT min(id), 'the name ' || function || '/' || name || ' belongs to ' || count(*) || ' executions' FROM executions NOT INDEXED
WHERE superseded_by IS NULL GROUP BY function, name HAVING count(*) > 1 LIMIT :limit

-- name: superseded_without_failure
-- A name is started again only after its execution failed, or after the last of the executions that continued it failed. Queues have two
-- more cases. An enqueue may replace the execution that has its name, and an execution that succeeded may be parked.
SELECT id, 'it is superseded by ' || superseded_by || ', but its status is ' || status FROM executions NOT INDEXED
WHERE superseded_by IS NOT NULL AND (status = 'RUNNING' OR (
    status = 'SUCCEEDED' AND continued_as IS NULL AND queue IS NULL AND superseded_by IN (SELECT id FROM executions WHERE queue IS NULL)
)) LIMIT :limit

-- name: quarantine_unknown
SELECT id, 'there is no reason ' || quarantine || ' for a quarantine' FROM executions
WHERE quarantine NOT IN ('runner_died', 'payload_unreadable', 'replay_mismatch') LIMIT :limit

-- name: ids_shared
SELECT id, count(*) || ' executions have this id' FROM executions NOT INDEXED GROUP BY id HAVING count(*) > 1 LIMIT :limit

-- name: states_contradict
-- A running execution has no end, a closed one has an end, an execution with a live invocation has a runner, and one that waits in a queue
-- has all columns of its place there.
SELECT id, 'status ' || status || ' and state ' || state || ', ended_at ' || coalesce(ended_at, '-') || ', runner ' || coalesce(runner, '-')
FROM executions WHERE state <> 'imported' AND (
    (status = 'RUNNING') <> (state IN ('ready', 'queued', 'delayed', 'running', 'suspended', 'quarantined'))
    OR (status = 'RUNNING') <> (ended_at IS NULL)
    OR (state = 'running' AND runner IS NULL)
    OR (state IN ('queued', 'delayed') AND lane IS NULL)
    OR (lane IS NULL) <> (queue IS NULL) OR (lane IS NULL) <> (order_at IS NULL) OR substr(lane, 1, length(queue) + 1) <> queue || '/'
    OR (parked = 1 AND status = 'RUNNING')
) LIMIT :limit

-- name: timers_forgotten
-- A header's time is not later than the first timer among its operations, or the timer would fire too late.
SELECT x.id, 'a timer is due at ' || min(o.due_at) || ', the header says ' || coalesce(x.due_at, 'never')
FROM executions AS x JOIN operations AS o ON o.execution = x.key AND o.due_at IS NOT NULL
WHERE x.state = 'suspended' GROUP BY x.key HAVING x.due_at IS NULL OR x.due_at > min(o.due_at) LIMIT :limit

-- name: graphs_missing
SELECT id, 'it runs graph ' || graph || ', which is not there' FROM executions
WHERE graph IS NOT NULL AND graph NOT IN (SELECT id FROM graphs) LIMIT :limit

-- name: graphs_unused
-- A graph is removed together with the last execution that names it. Otherwise retention would never remove it.
SELECT 'graph ' || id, 'no execution runs it' FROM graphs
WHERE id NOT IN (SELECT graph FROM executions WHERE graph IS NOT NULL)
  AND id NOT IN (SELECT graph FROM expired WHERE graph IS NOT NULL) LIMIT :limit

-- name: lanes_miscounted
-- A lane counts the slots that are held and the executions that wait in it. A lane above others counts what they count.
WITH counted AS (
    SELECT lane AS key, sum(state = 'queued') AS waiting, sum(
        admitted_at IS NOT NULL AND status = 'RUNNING' AND (state IN ('ready', 'running') OR (state = 'suspended' AND holds_waiting = 1))
    ) AS held FROM executions WHERE lane IS NOT NULL GROUP BY lane
    UNION ALL
    SELECT parent, sum(waiting), sum(held) FROM lanes WHERE parent <> '' GROUP BY parent
)
SELECT 'lane ' || l.key, 'it counts ' || l.held || ' held and ' || l.waiting || ' waiting, there are '
       || coalesce(c.held, 0) || ' and ' || coalesce(c.waiting, 0)
FROM lanes AS l LEFT JOIN counted AS c ON c.key = l.key
WHERE l.held <> coalesce(c.held, 0) OR l.waiting <> coalesce(c.waiting, 0) LIMIT :limit

-- name: lanes_money
-- A lane knows what the executions that wait in it are estimated to cost.
WITH counted AS (
    SELECT lane AS key, sum(money) AS money FROM executions WHERE lane IS NOT NULL AND state = 'queued' GROUP BY lane
    UNION ALL
    SELECT parent, sum(money) FROM lanes WHERE parent <> '' GROUP BY parent
)
SELECT 'lane ' || l.key, 'it counts ' || l.money || ' billionths of a dollar, there are ' || coalesce(c.money, 0)
FROM lanes AS l LEFT JOIN counted AS c ON c.key = l.key WHERE l.money <> coalesce(c.money, 0) LIMIT :limit

-- name: lanes_lost
-- The lane of every open execution exists, and so does the lane above every lane.
SELECT id, 'its lane ' || lane || ' is not there' FROM executions
WHERE lane IS NOT NULL AND status = 'RUNNING' AND lane NOT IN (SELECT key FROM lanes)
UNION ALL
SELECT 'lane ' || key, 'the lane above it is not there' FROM lanes WHERE key <> '' AND parent NOT IN (SELECT key FROM lanes)
LIMIT :limit

-- name: rates_lost
SELECT 'lane ' || lane, 'it is not there, and it has a rate' FROM rates WHERE lane NOT IN (SELECT key FROM lanes)
  AND lane NOT IN (SELECT shared_rate FROM lanes WHERE shared_rate IS NOT NULL) LIMIT :limit

-- name: ledger_sums
-- The daily sums are the sums of the ledger. What retention has removed, or is about to remove, is not compared.
SELECT 'day ' || day, 'the sums of ' || worker || ' (' || state || ') are wrong by ' || sum(calls) || ' entries, ' || sum(tokens) || ' tokens and '
       || sum(nanos) || ' billionths of a dollar'
FROM (
    SELECT day, tenant, pipeline, node, worker, model, state, expires_at, count(*) AS calls, sum(input + output) AS tokens,
           sum(cached + reasoning) AS parts, sum(nanos) AS nanos, sum(held_tokens) AS held_tokens, sum(held_nanos) AS held_nanos
    FROM ledger GROUP BY day, tenant, pipeline, node, worker, model, state, expires_at
    UNION ALL
    SELECT day, tenant, pipeline, node, worker, model, state, expires_at, -calls, -input - output, -cached - reasoning, -nanos, -held_tokens,
           -held_nanos
    FROM ledger_days
) AS both_sides WHERE expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0)
GROUP BY day, tenant, pipeline, node, worker, model, state, expires_at
HAVING sum(calls) <> 0 OR sum(tokens) <> 0 OR sum(parts) <> 0 OR sum(nanos) <> 0 OR sum(held_tokens) <> 0 OR sum(held_nanos) <> 0
LIMIT :limit

-- name: ledger_ends
-- A call ends once.
SELECT run, 'call ' || call || ' has ' || count(*) || ' ends' FROM ledger WHERE state <> 'reserved'
GROUP BY run, call HAVING count(*) > 1 LIMIT :limit

-- name: summaries_contradict
-- A summary is written when an execution closes, all but its pipeline; only one that succeeded has an outcome.
SELECT id, 'its summary says that it ended, but its status is ' || status FROM executions
WHERE (status = 'RUNNING' AND (error_code IS NOT NULL OR cost IS NOT NULL OR attempt IS NOT NULL))
   OR (status <> 'SUCCEEDED' AND outcome IS NOT NULL) LIMIT :limit

-- name: signals_from_the_future
-- A subscriber whose cursor is beyond the last signal would miss the next signals.
SELECT name, 'the cursor stands at ' || cursor || ', the last signal had the number ' || coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'signals'), 0)
FROM subscribers WHERE cursor > coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'signals'), 0) LIMIT :limit

-- name: seal_missing
SELECT 'meta', 'there is no ' || wanted.column1 FROM (VALUES ('seal')) AS wanted
WHERE wanted.column1 NOT IN (SELECT key FROM meta) LIMIT :limit
