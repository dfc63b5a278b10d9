-- The person who holds a credential. Credentials from before name none.
ALTER TABLE credentials ADD COLUMN person TEXT;
