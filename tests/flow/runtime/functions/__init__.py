"""What the tests deploy."""
