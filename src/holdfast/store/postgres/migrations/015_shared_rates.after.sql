-- From now on lanes may share a rate. Code from before must be gone: it does not see that rate.
UPDATE lanes SET shared_rate = NULL WHERE shared_rate IS NOT NULL;
