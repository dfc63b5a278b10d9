-- The columns by which people search for executions, and the tables of the console. Executions that closed before this step have no
-- summary.
ALTER TABLE executions ADD COLUMN outcome TEXT;
ALTER TABLE executions ADD COLUMN error_code TEXT;
ALTER TABLE executions ADD COLUMN pipeline TEXT;
ALTER TABLE executions ADD COLUMN cost INTEGER;
ALTER TABLE executions ADD COLUMN attempt INTEGER;
ALTER TABLE executions ADD COLUMN attempts INTEGER;
CREATE INDEX executions_by_error ON executions (error_code, id) WHERE error_code IS NOT NULL;
CREATE INDEX executions_by_pipeline ON executions (pipeline, id) WHERE pipeline IS NOT NULL;
-- Runs that failed or gave only a part: their executions have succeeded, with a response that says so.
CREATE INDEX executions_by_outcome ON executions (outcome, id) WHERE outcome IS NOT NULL AND outcome <> 'ok';

-- Sessions of the console: a browser that has signed in. The id is the SHA-256 of the cookie's value.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    credential TEXT NOT NULL,
    csrf       TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_of ON sessions (credential);
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- Saved views of the console: searches that people keep under a name.
CREATE TABLE views (
    owner   TEXT NOT NULL,
    name    TEXT NOT NULL,
    query   TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) WITHOUT ROWID;
