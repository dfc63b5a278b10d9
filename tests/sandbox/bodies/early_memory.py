"""A bomb at the top of a module."""

held = []
while True:
    held.append(bytearray(1 << 20))
