-- For the audit log by time. The server writes refusals later than decisions, so the order of numbers is not the order of times.
CREATE INDEX audit_by_time ON audit (at, number);
