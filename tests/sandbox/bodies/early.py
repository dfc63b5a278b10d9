"""Hostile before it is asked to do anything: code at the top of a module."""

import os
import socket

try:
    socket.socket()
    STOLEN = "a socket"
except OSError as error:
    STOLEN = os.strerror(error.errno)


def main(fd):
    import line

    line.begun(fd).send({"op": "tried", "outcomes": {"socket at import": STOLEN}})
