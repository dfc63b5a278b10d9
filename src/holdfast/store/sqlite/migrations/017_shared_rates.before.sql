-- All leaf lanes of a worker share the rate of its contract. A lane from before keeps its own rate until a runner that serves the worker
-- starts and sets the rate again.
ALTER TABLE lanes ADD COLUMN shared_rate TEXT;
CREATE INDEX lanes_sharing ON lanes (shared_rate) WHERE shared_rate IS NOT NULL;
