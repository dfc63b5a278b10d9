"""Pages that are drawn from the tables that decide, so that a page and its table cannot differ: states.py and codes.py."""
