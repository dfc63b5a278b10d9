"""A loop at the top of a module."""

while True:
    pass
