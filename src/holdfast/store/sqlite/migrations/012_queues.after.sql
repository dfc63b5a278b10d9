-- From now on executions may be enqueued. Code from before must be gone: it does not give slots back.
INSERT INTO lanes (key, queue, level, at_once) VALUES ('', '', 'root', 0);
-- Code from before looks for ready work of all functions together.
DROP INDEX executions_ready;
