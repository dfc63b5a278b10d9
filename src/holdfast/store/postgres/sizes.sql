-- How large a store is, and what of it retention can remove.

-- name: tables
-- With the bytes of each, its indexes and its large values.
SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY relname

-- name: rows_of
SELECT count(*) FROM "{table}"

-- name: removable
-- Executions that are over, with their payload: first those whose retention has ended, then those that are still kept.
SELECT count(*) FILTER (WHERE expires_at <= %(now)s), coalesce(sum(stored) FILTER (WHERE expires_at <= %(now)s), 0)::bigint,
       count(*) FILTER (WHERE expires_at > %(now)s), coalesce(sum(stored) FILTER (WHERE expires_at > %(now)s), 0)::bigint
FROM executions WHERE expires_at IS NOT NULL AND state IN ('closed', 'imported')

-- name: whole_plans
-- These questions read whole tables, which the settings of a session are not made for.
SET LOCAL enable_seqscan = on;
SET LOCAL enable_hashjoin = on;
SET LOCAL enable_mergejoin = on;
SET LOCAL plan_cache_mode = auto
