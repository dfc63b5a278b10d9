-- Who has the name of an execution now, why an execution was put aside, and which event tells the error. What was put aside before has no
-- reason; its deaths tell it.
ALTER TABLE executions ADD COLUMN superseded_by TEXT;
ALTER TABLE executions ADD COLUMN quarantine TEXT;
ALTER TABLE executions ADD COLUMN quarantine_event INTEGER;

-- Subscribers are told of that, too.
ALTER TABLE signals ADD COLUMN quarantine TEXT;
ALTER TABLE signals ADD COLUMN quarantined_at INTEGER;
