-- Which execution has the name now, why an execution was quarantined, and which event has the error. An execution that was quarantined
-- before this step has no reason. Its number of deaths tells the reason.
ALTER TABLE executions ADD COLUMN superseded_by TEXT;
ALTER TABLE executions ADD COLUMN quarantine TEXT;
ALTER TABLE executions ADD COLUMN quarantine_event INTEGER;

-- Signals report quarantines, too.
ALTER TABLE signals ADD COLUMN quarantine TEXT;
ALTER TABLE signals ADD COLUMN quarantined_at INTEGER;
