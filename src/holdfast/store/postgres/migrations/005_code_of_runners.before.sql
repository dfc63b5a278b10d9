-- Each runner writes the schema number of its code, so that a step with which older code does not work is refused while an older runner
-- has a lease. NULL is a runner of schema 4, whose statements did not name their columns. An upgrade from that schema needs every
-- process to be stopped first. `least` exists from this step on.
ALTER TABLE runners ADD COLUMN code BIGINT;
INSERT INTO meta (key, value) VALUES ('least', '5');
