-- Who has the name of an execution now, why an execution was put aside, and which event tells the error. What was put aside before has no
-- reason; its deaths tell it.
ALTER TABLE executions ADD COLUMN superseded_by TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN quarantine TEXT COLLATE "C";
ALTER TABLE executions ADD COLUMN quarantine_event BIGINT;

-- Subscribers are told of that, too.
ALTER TABLE signals ADD COLUMN quarantine TEXT COLLATE "C";
ALTER TABLE signals ADD COLUMN quarantined_at BIGINT;
