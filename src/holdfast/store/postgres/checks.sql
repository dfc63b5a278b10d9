-- What must be true of every store. Each query finds the rows for which it is not: the execution (or table), and what is wrong with it.

-- name: events_missing
-- A header counts its events, which are numbered from 1 without a gap.
SELECT x.id, 'the header counts ' || x.events || ' events, there are ' || count(e.number)
FROM executions AS x LEFT JOIN events AS e ON e.execution = x.key AND e.number BETWEEN 1 AND x.events
GROUP BY x.key, x.id, x.events HAVING count(e.number) <> x.events LIMIT %(limit)s

-- name: events_beyond
-- Only an execution in the state `closing` has an event beyond those that its header counts.
SELECT x.id, 'event ' || e.number || ' lies beyond the ' || x.events || ' that the header counts'
FROM executions AS x JOIN events AS e ON e.execution = x.key AND e.number > x.events
WHERE x.state <> 'closing' LIMIT %(limit)s

-- name: operations_count
SELECT x.id, 'the header counts ' || x.operations || ' operations, there are ' || count(o.place)
FROM executions AS x LEFT JOIN operations AS o ON o.execution = x.key
GROUP BY x.key, x.id, x.operations HAVING count(o.place) <> x.operations LIMIT %(limit)s

-- name: operations_without_event
-- An operation names the event that began it, and the one that holds its result.
SELECT x.id, 'operation ' || o.id || ' names event ' || coalesce(o.payload_event, o.place) || ', which is not there'
FROM executions AS x JOIN operations AS o ON o.execution = x.key
WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = o.execution AND e.number = o.place)
   OR (o.payload_event IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = o.execution AND e.number = o.payload_event)) LIMIT %(limit)s

-- name: results_missing
SELECT x.id, 'its result is event ' || x.result_event || ', which is not there' FROM executions AS x
WHERE x.result_event IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.execution = x.key AND e.number = x.result_event) LIMIT %(limit)s

-- name: orphaned_events
-- If rows have no execution, its key must be in `expired`, so that retention removes them later.
SELECT 'key ' || execution::text, count(*) || ' events of an execution that is not there' FROM events
WHERE execution NOT IN (SELECT key FROM executions) AND execution NOT IN (SELECT key FROM expired)
GROUP BY execution LIMIT %(limit)s

-- name: orphaned_operations
SELECT 'key ' || execution::text, count(*) || ' operations of an execution that is not there' FROM operations
WHERE execution NOT IN (SELECT key FROM executions) AND execution NOT IN (SELECT key FROM expired)
GROUP BY execution LIMIT %(limit)s

-- name: names_shared
SELECT min(id), 'the name ' || function || '/' || name || ' belongs to ' || count(*) || ' executions' FROM executions
WHERE superseded_by IS NULL GROUP BY function, name HAVING count(*) > 1 LIMIT %(limit)s

-- name: superseded_without_failure
-- A name is started again only after its execution failed, or after the last of the executions that continued it failed. Queues have two
-- more cases. An enqueue may replace the execution that has its name, and an execution that succeeded may be parked.
SELECT id, 'it is superseded by ' || superseded_by || ', but its status is ' || status FROM executions
WHERE superseded_by IS NOT NULL AND (status = 'RUNNING' OR (
    status = 'SUCCEEDED' AND continued_as IS NULL AND queue IS NULL AND superseded_by IN (SELECT id FROM executions WHERE queue IS NULL)
)) LIMIT %(limit)s

-- name: quarantine_unknown
SELECT id, 'there is no reason ' || quarantine || ' for a quarantine' FROM executions
WHERE quarantine NOT IN ('runner_died', 'payload_unreadable', 'replay_mismatch') LIMIT %(limit)s

-- name: ids_shared
SELECT id, count(*) || ' executions have this id' FROM executions GROUP BY id HAVING count(*) > 1 LIMIT %(limit)s

-- name: states_contradict
-- A running execution has no end, a closed one has an end, an execution with a live invocation has a runner, and one that waits in a queue
-- has all columns of its place there.
SELECT id, 'status ' || status || ' and state ' || state || ', ended_at ' || coalesce(ended_at::text, '-') || ', runner ' || coalesce(runner, '-')
FROM executions WHERE state <> 'imported' AND (
    (status = 'RUNNING') <> (state IN ('ready', 'queued', 'delayed', 'running', 'suspended', 'quarantined'))
    OR (status = 'RUNNING') <> (ended_at IS NULL)
    OR (state = 'running' AND runner IS NULL)
    OR (state IN ('queued', 'delayed') AND lane IS NULL)
    OR (lane IS NULL) <> (queue IS NULL) OR (lane IS NULL) <> (order_at IS NULL) OR NOT starts_with(lane, queue || '/')
    OR (parked = 1 AND status = 'RUNNING')
) LIMIT %(limit)s

-- name: timers_forgotten
-- A header's time is not later than the first timer among its operations, or the timer would fire too late.
SELECT x.id, 'a timer is due at ' || min(o.due_at) || ', the header says ' || coalesce(x.due_at::text, 'never')
FROM executions AS x JOIN operations AS o ON o.execution = x.key AND o.due_at IS NOT NULL
WHERE x.state = 'suspended' GROUP BY x.key, x.id, x.due_at HAVING x.due_at IS NULL OR x.due_at > min(o.due_at) LIMIT %(limit)s

-- name: graphs_missing
SELECT id, 'it runs graph ' || graph || ', which is not there' FROM executions
WHERE graph IS NOT NULL AND graph NOT IN (SELECT id FROM graphs) LIMIT %(limit)s

-- name: graphs_unused
-- A graph is removed together with the last execution that names it. Otherwise retention would never remove it.
SELECT 'graph ' || id, 'no execution runs it' FROM graphs
WHERE id NOT IN (SELECT graph FROM executions WHERE graph IS NOT NULL)
  AND id NOT IN (SELECT graph FROM expired WHERE graph IS NOT NULL) LIMIT %(limit)s

-- name: lanes_miscounted
-- A lane counts the slots that are held and the executions that wait below it. A lane that does not exist counts as 0.
SELECT 'lane ' || coalesce(l.key, x.key),
       'it counts ' || coalesce(l.held, 0) || ' held and ' || coalesce(l.waiting, 0) || ' waiting, there are '
       || coalesce(x.held, 0) || ' and ' || coalesce(x.waiting, 0)
FROM lanes AS l FULL JOIN (
    SELECT array_to_string(place.parts[1:n], '/') AS key, sum(place.held) AS held, sum(place.waiting) AS waiting FROM (
        SELECT string_to_array(lane, '/') AS parts, CASE WHEN state = 'queued' THEN 0 ELSE 1 END AS held,
               CASE WHEN state = 'queued' THEN 1 ELSE 0 END AS waiting
        FROM executions WHERE lane IS NOT NULL AND (state = 'queued' OR (
            admitted_at IS NOT NULL AND status = 'RUNNING' AND (state IN ('ready', 'running') OR (state = 'suspended' AND holds_waiting = 1))
        ))
    ) AS place, generate_subscripts(place.parts, 1) AS n
    GROUP BY 1
) AS x ON x.key = l.key
WHERE coalesce(l.held, 0) <> coalesce(x.held, 0) OR coalesce(l.waiting, 0) <> coalesce(x.waiting, 0) LIMIT %(limit)s

-- name: lanes_money
-- A lane knows what the executions that wait in it are estimated to cost.
WITH counted AS (
    SELECT lane AS key, sum(money) AS money FROM executions WHERE lane IS NOT NULL AND state = 'queued' GROUP BY lane
    UNION ALL
    SELECT parent, sum(money) FROM lanes WHERE parent <> '' GROUP BY parent
)
SELECT 'lane ' || l.key, 'it counts ' || l.money || ' billionths of a dollar, there are ' || coalesce(c.money, 0)
FROM lanes AS l LEFT JOIN counted AS c ON c.key = l.key WHERE l.money <> coalesce(c.money, 0) LIMIT %(limit)s

-- name: lanes_lost
-- The lane of every open execution exists, and so does the lane above every lane.
SELECT x.id, 'its lane ' || x.lane || ' is not there' FROM executions AS x
WHERE x.lane IS NOT NULL AND x.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.key = x.lane)
UNION ALL
SELECT 'lane ' || l.key, 'the lane above it is not there' FROM lanes AS l
WHERE l.key <> '' AND NOT EXISTS (SELECT 1 FROM lanes AS above WHERE above.key = l.parent)
LIMIT %(limit)s

-- name: rates_lost
SELECT 'lane ' || r.lane, 'it is not there, and it has a rate' FROM rates AS r
WHERE NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.key = r.lane) AND NOT EXISTS (SELECT 1 FROM lanes AS l WHERE l.shared_rate = r.lane)
LIMIT %(limit)s

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
) AS both_sides WHERE expires_at > coalesce((SELECT value::bigint FROM meta WHERE key = 'forgotten'), 0)
GROUP BY day, tenant, pipeline, node, worker, model, state, expires_at
HAVING sum(calls) <> 0 OR sum(tokens) <> 0 OR sum(parts) <> 0 OR sum(nanos) <> 0 OR sum(held_tokens) <> 0 OR sum(held_nanos) <> 0
LIMIT %(limit)s

-- name: ledger_ends
-- A call ends once.
SELECT run, 'call ' || call || ' has ' || count(*) || ' ends' FROM ledger WHERE state <> 'reserved'
GROUP BY run, call HAVING count(*) > 1 LIMIT %(limit)s

-- name: summaries_contradict
-- A summary is written when an execution closes, all but its pipeline; only one that succeeded has an outcome.
SELECT id, 'its summary says that it ended, but its status is ' || status FROM executions
WHERE (status = 'RUNNING' AND (error_code IS NOT NULL OR cost IS NOT NULL OR attempt IS NOT NULL))
   OR (status <> 'SUCCEEDED' AND outcome IS NOT NULL) LIMIT %(limit)s

-- name: signals_from_the_future
-- A subscriber whose cursor is beyond the last signal would miss the next signals. A signal whose number is used a second time would be
-- lost.
SELECT told.name, 'the number ' || told.number || ' is beyond the last one, ' || n.last FROM numbering AS n, (
    SELECT name, cursor AS number FROM subscribers UNION ALL SELECT 'signals', max(number) FROM signals
) AS told WHERE told.number > n.last LIMIT %(limit)s

-- name: numbering_missing
-- The table `numbering` must have one row. Otherwise no signal can get a number.
SELECT 'numbering', 'it has ' || count(last) || ' rows' FROM numbering HAVING count(last) <> 1 LIMIT %(limit)s

-- name: keys_used_again
-- Keys are taken a thousand at a time, so the sequence may be behind by less than that.
SELECT x.id, 'its key ' || x.key || ' may be given to another execution' FROM executions AS x, execution_keys AS k
WHERE x.key >= k.last_value + 1000 LIMIT %(limit)s
