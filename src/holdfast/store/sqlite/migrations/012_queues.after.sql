-- From now on executions may be enqueued. No older code may run any more, because it does not give slots back.
INSERT INTO lanes (key, queue, level, at_once) VALUES ('', '', 'root', 0);
-- Only older code needs this index: it looks for ready executions of all functions together.
DROP INDEX executions_ready;
