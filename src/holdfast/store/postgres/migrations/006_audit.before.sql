-- The kind of a function: only a plain function can be invoked by its name. A worker writes its kind when it is served the next time.
ALTER TABLE functions ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'function';

-- From now on a run is marked in its first event. Runs up to this id have no mark, and are recognised by their input alone.
INSERT INTO meta (key, value) SELECT 'unmarked', max(id) FROM executions HAVING max(id) IS NOT NULL
ON CONFLICT (key) DO NOTHING;

-- The audit log: who did what. Rows are added, and removed when their time is over. No row is ever changed.
CREATE TABLE audit (
    number     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         BIGINT NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    who        TEXT COLLATE "C" NOT NULL,
    what       TEXT COLLATE "C" NOT NULL,
    target     TEXT COLLATE "C" NOT NULL,
    origin     TEXT COLLATE "C" NOT NULL,
    outcome    TEXT COLLATE "C" NOT NULL,
    tenant     TEXT COLLATE "C",
    times      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX audit_expiring ON audit (expires_at);
