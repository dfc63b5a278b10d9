"""Functions in real processes, which speak the Lambda Runtime API through the official clients."""
