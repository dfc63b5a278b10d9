-- The graphs of pipelines, which graph an execution runs, and which graph an execution named whose rows are being removed.
ALTER TABLE executions ADD COLUMN graph TEXT;
CREATE INDEX executions_by_graph ON executions (graph) WHERE graph IS NOT NULL;
CREATE TABLE graphs (
    id   TEXT PRIMARY KEY,
    text TEXT NOT NULL
) WITHOUT ROWID;
ALTER TABLE expired ADD COLUMN graph TEXT;

-- What calls that are under way have reserved of a budget.
ALTER TABLE counters ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0;
