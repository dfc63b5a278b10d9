"""The official SDK on our engine, in process."""
