"""Fills its scratch while it is imported."""

with open("big", "wb") as file:
    while True:
        file.write(b"x" * (1 << 20))
