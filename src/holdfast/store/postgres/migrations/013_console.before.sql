-- The columns by which people search for executions, and the tables of the console. Executions that closed before this step have no
-- summary.
ALTER TABLE executions ADD COLUMN outcome TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN error_code TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN pipeline TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN cost BIGINT;
ALTER TABLE executions ADD COLUMN attempt BIGINT;
ALTER TABLE executions ADD COLUMN attempts BIGINT;
CREATE INDEX executions_by_error ON executions (error_code, id) WHERE error_code IS NOT NULL;
CREATE INDEX executions_by_pipeline ON executions (pipeline, id) WHERE pipeline IS NOT NULL;
-- Runs that failed or gave only a part: their executions have succeeded, with a response that says so.
CREATE INDEX executions_by_outcome ON executions (outcome, id) WHERE outcome IS NOT NULL AND outcome <> 'ok';

-- Sessions of the console: a browser that has signed in. The id is the SHA-256 of the cookie's value.
CREATE TABLE sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    credential TEXT COLLATE "C" NOT NULL,
    csrf       TEXT COLLATE "C" NOT NULL,
    made_at    BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_of ON sessions (credential);
CREATE INDEX sessions_expiring ON sessions (expires_at);

-- Saved views of the console: searches that people keep under a name.
CREATE TABLE views (
    owner   TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    query   TEXT COLLATE "C" NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (owner, name)
);
