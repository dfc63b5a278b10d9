-- The person who holds a credential. NULL in credentials that were made before this step.
ALTER TABLE credentials ADD COLUMN person TEXT;
