-- Each runner tells the schema number of its code, so that a step which old code cannot bear is refused while an old runner is there.
-- NULL is a runner of 0.1.0, whose statements did not name their columns: from there every process is stopped first, and `least` begins here.
ALTER TABLE runners ADD COLUMN code INTEGER;
INSERT INTO meta (key, value) VALUES ('least', 7);
