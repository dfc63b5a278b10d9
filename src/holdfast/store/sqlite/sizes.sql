-- How large a store is, and what of it retention can remove.

-- name: tables
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name

-- name: rows_of
SELECT count(*) FROM "{table}"

-- name: bytes
-- The bytes of each table with its indexes. Some builds of SQLite do not have `dbstat`.
SELECT m.tbl_name, sum(s.pgsize) FROM dbstat AS s JOIN sqlite_master AS m ON m.name = s.name GROUP BY m.tbl_name

-- name: removable
-- Closed executions, and the bytes of their payloads: first those whose retention has ended, then those that are still kept.
SELECT coalesce(sum(expires_at <= :now), 0), coalesce(sum(stored) FILTER (WHERE expires_at <= :now), 0),
       coalesce(sum(expires_at > :now), 0), coalesce(sum(stored) FILTER (WHERE expires_at > :now), 0)
FROM executions WHERE expires_at IS NOT NULL AND state IN ('closed', 'imported')
