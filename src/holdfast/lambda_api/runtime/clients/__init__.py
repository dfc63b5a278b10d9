"""Runtime clients of ours, for where the official ones cannot be had. Each is a script with nothing but its language's own library."""
