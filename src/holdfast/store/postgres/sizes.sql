-- How large a store is, and what of it retention can remove.

-- name: tables
-- Each table with its bytes, including its indexes and its large values (TOAST).
SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname

-- name: rows_of
SELECT count(*) FROM "{table}"

-- name: removable
-- Closed executions, and the bytes of their payloads: first those whose retention has ended, then those that are still kept.
SELECT count(*) FILTER (WHERE expires_at <= %(now)s), coalesce(sum(stored) FILTER (WHERE expires_at <= %(now)s), 0)::bigint,
       count(*) FILTER (WHERE expires_at > %(now)s), coalesce(sum(stored) FILTER (WHERE expires_at > %(now)s), 0)::bigint
FROM executions WHERE expires_at IS NOT NULL AND state IN ('closed', 'imported')

-- name: whole_plans
-- The queries of this file and of checks.sql read whole tables. The settings of a session are made for queries by index.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on;
SET LOCAL plan_cache_mode = auto
