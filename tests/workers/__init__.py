"""Workers: one request, end to end."""
