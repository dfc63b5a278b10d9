"""Pure rules: no store, no loop, no processes."""
