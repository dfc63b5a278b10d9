"""What users touch: the front door, the command line, the official SDK on our engine."""
