-- The kind of a function: only a plain function can be invoked by its name. A worker writes its kind when it is served the next time.
ALTER TABLE functions ADD COLUMN kind TEXT NOT NULL DEFAULT 'function';

-- From now on a run is marked in its first event. Runs up to this id have no mark, and are recognised by their input alone.
INSERT INTO meta (key, value) SELECT 'unmarked', max(id) FROM executions WHERE TRUE HAVING max(id) IS NOT NULL
ON CONFLICT (key) DO NOTHING;

-- The audit log: who did what. Rows are added, and removed when their time is over. No row is ever changed.
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
-- Retention first writes up to which time it removes notes (`forgotten` in meta). The trigger lets only such notes be removed.
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit WHEN OLD.expires_at > coalesce((SELECT value FROM meta WHERE key = 'forgotten'), 0) BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;
