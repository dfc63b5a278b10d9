"""The seam and its backends: one suite, every store."""
