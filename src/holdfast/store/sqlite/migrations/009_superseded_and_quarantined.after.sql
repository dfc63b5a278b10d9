-- From now on the name of an execution that failed can be started again. Older code would find two executions of one name.
DROP INDEX executions_by_name;
CREATE UNIQUE INDEX executions_by_name ON executions (name, function) WHERE superseded_by IS NULL;
CREATE INDEX executions_superseded ON executions (name, function) WHERE superseded_by IS NOT NULL;
