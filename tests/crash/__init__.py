"""Real processes, killed."""
