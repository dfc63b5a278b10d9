-- What must be true of every store. Each question finds the rows for which it is not: which execution (or what else), and what is wrong with it.

-- name: events_missing
-- A header counts its events, which are numbered from 1 without a gap.
SELECT x.id, 'the header counts ' || x.events || ' events, there are ' || count(e.number)
FROM executions AS x LEFT JOIN events AS e ON e.execution = x.key AND e.number BETWEEN 1 AND x.events
GROUP BY x.key, x.id, x.events HAVING count(e.number) <> x.events LIMIT %(limit)s

-- name: events_beyond
-- Only an execution that closes has an event that it does not show yet.
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
-- What retention has not removed yet is known by its key in `expired`.
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
-- A name is started again only after its execution failed, by itself or as the last of those it went on as.
SELECT id, 'it is superseded by ' || superseded_by || ', but its status is ' || status FROM executions
WHERE superseded_by IS NOT NULL AND (status = 'RUNNING' OR (status = 'SUCCEEDED' AND continued_as IS NULL)) LIMIT %(limit)s

-- name: quarantine_unknown
SELECT id, 'there is no reason ' || quarantine || ' for a quarantine' FROM executions
WHERE quarantine NOT IN ('runner_died', 'payload_unreadable', 'replay_mismatch') LIMIT %(limit)s

-- name: ids_shared
SELECT id, count(*) || ' executions have this id' FROM executions GROUP BY id HAVING count(*) > 1 LIMIT %(limit)s

-- name: states_contradict
-- What is under way has no end, what is over has one, and only a live invocation has a runner.
SELECT id, 'status ' || status || ' and state ' || state || ', ended_at ' || coalesce(ended_at::text, '-') || ', runner ' || coalesce(runner, '-')
FROM executions WHERE state <> 'imported' AND (
    (status = 'RUNNING') <> (state IN ('ready', 'running', 'suspended', 'quarantined'))
    OR (status = 'RUNNING') <> (ended_at IS NULL)
    OR (state = 'running' AND runner IS NULL)
) LIMIT %(limit)s

-- name: timers_forgotten
-- A header's time is not later than the first timer among its operations, or the timer would fire too late.
SELECT x.id, 'a timer is due at ' || min(o.due_at) || ', the header says ' || coalesce(x.due_at::text, 'never')
FROM executions AS x JOIN operations AS o ON o.execution = x.key AND o.due_at IS NOT NULL
WHERE x.state = 'suspended' GROUP BY x.key, x.id, x.due_at HAVING x.due_at IS NULL OR x.due_at > min(o.due_at) LIMIT %(limit)s

-- name: signals_from_the_future
-- A subscriber that is said to have had what was never written would miss what comes; a number given twice is lost.
SELECT told.name, 'the number ' || told.number || ' is beyond the last one, ' || n.last FROM numbering AS n, (
    SELECT name, cursor AS number FROM subscribers UNION ALL SELECT 'signals', max(number) FROM signals
) AS told WHERE told.number > n.last LIMIT %(limit)s

-- name: numbering_missing
-- It has one row, or no signal can be numbered.
SELECT 'numbering', 'it has ' || count(last) || ' rows' FROM numbering HAVING count(last) <> 1 LIMIT %(limit)s

-- name: keys_used_again
-- Keys are taken a thousand at a time, so the sequence may be behind by less than that.
SELECT x.id, 'its key ' || x.key || ' may be given to another execution' FROM executions AS x, execution_keys AS k
WHERE x.key >= k.last_value + 1000 LIMIT %(limit)s
