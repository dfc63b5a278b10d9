-- What a function is: only a plain one can be invoked by its name. Workers say so when they are served next.
ALTER TABLE functions ADD COLUMN kind TEXT NOT NULL DEFAULT 'function';

-- From now on a run is marked in its first event. Those that are there are known by their input alone, up to this one.
INSERT INTO meta (key, value) SELECT 'unmarked', max(id) FROM executions WHERE TRUE HAVING max(id) IS NOT NULL
ON CONFLICT (key) DO NOTHING;

-- The audit log: who did what. Rows are added, and removed when their time is over; nothing changes one.
CREATE TABLE audit (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    who        TEXT NOT NULL,
    what       TEXT NOT NULL,
    target     TEXT NOT NULL,
    origin     TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    tenant     TEXT,
    times      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX audit_expiring ON audit (expires_at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
-- Retention says first up to when it forgets (`forgotten` in meta); nothing else is removed.
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit WHEN OLD.expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0) BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
