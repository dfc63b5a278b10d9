-- From now on lanes count the estimated money of what waits. Code from before must be gone: it does not take that money back.
UPDATE lanes SET money = 0;
