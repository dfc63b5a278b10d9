-- From now on lanes count the estimated cost of the executions that wait. No older code may run any more, because it does not subtract
-- that cost again.
UPDATE lanes SET money = 0;
