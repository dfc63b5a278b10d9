-- The graphs of pipelines, the graph that an execution runs, and the graph that an execution named whose rows are being removed.
ALTER TABLE executions ADD COLUMN graph TEXT COLLATE "C";
CREATE INDEX executions_by_graph ON executions (graph) WHERE graph IS NOT NULL;
CREATE TABLE graphs (
    id   TEXT COLLATE "C" PRIMARY KEY,
    text TEXT COLLATE "C" NOT NULL
);
ALTER TABLE expired ADD COLUMN graph TEXT COLLATE "C";

-- The part of a budget that calls have reserved which have not ended yet.
ALTER TABLE counters ADD COLUMN reserved BIGINT NOT NULL DEFAULT 0;
