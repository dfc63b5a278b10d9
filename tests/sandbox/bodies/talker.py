"""Bodies that send bad frames."""

import os
import socket
import sys
import time

import line
from holdfast.hosts.sandbox.inside.body_channel import sent_along


def _raw(fd):
    talk = socket.socket(fileno=os.dup(fd))
    line.begun(fd)
    return talk


def too_large(fd):
    _raw(fd).sendall((1 << 30).to_bytes(4, "big") + b"{")
    time.sleep(1000)


def too_many(fd):
    talk = _raw(fd)
    while True:
        talk.sendall(b"\0\0\0\2{}")


def not_json(fd):
    _raw(fd).sendall(b"\0\0\0\4{{}}")


def not_an_object(fd):
    _raw(fd).sendall(b"\0\0\0\2[]")


def not_text(fd):
    _raw(fd).sendall(b"\0\0\0\x0a" + b'{"op":"\xff"}')


def empty(fd):
    _raw(fd).sendall(b"\0\0\0\0")


def too_deep(fd):
    text = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    _raw(fd).sendall(len(text).to_bytes(4, "big") + text)


def half(fd):
    _raw(fd).sendall(b"\0\0\0\x64{")


def dribble(fd):
    talk = _raw(fd)
    for byte in (1 << 19).to_bytes(4, "big") + b"{" + b" " * (1 << 19):
        talk.sendall(bytes([byte]))
        time.sleep(0.05)


def not_ready(fd):
    socket.socket(fileno=fd).sendall(b"\0\0\0\x0d" + b'{"op":"done"}')
    time.sleep(1000)


def silent(fd):
    time.sleep(1000)


def hand(fd, what):
    """Descriptors that would hold a reader, or worse."""
    open("file", "w").write("a file's content")
    pipe, _ = os.pipe()
    things = {
        "pipe": lambda: [pipe],
        "socket": lambda: [socket.socketpair()[0].detach()],
        "folder": lambda: [os.open(".", os.O_RDONLY)],
        "device": lambda: [os.open("/dev/zero", os.O_RDONLY)],
        "path": lambda: [os.open("file", os.O_PATH)],
        "write-only": lambda: [os.open("file", os.O_WRONLY)],
        "two": lambda: [os.open("file", os.O_RDONLY), os.open("file", os.O_RDONLY)],
        "many": lambda: [os.open("file", os.O_RDONLY) for _ in range(30)],
        "file": lambda: [os.open("file", os.O_RDONLY)],
    }
    channel = line.begun(fd)
    talk = socket.socket(fileno=os.dup(fd))
    channel.send({"op": "before"})
    text = b'{"op":"artifact"}'
    sent_along(talk, memoryview(len(text).to_bytes(4, "big") + text), *things[what]())
    channel.send({"op": "after"})


def big_with_file(fd):
    """A frame of many pieces, with a file, between others."""
    open("file", "w").write("a file's content")
    channel = line.begun(fd)
    for number in range(3):
        channel.send({"op": "before", "number": number})
        with open("file") as file:
            channel.send({"op": "artifact", "number": number, "data": "x" * 500_000}, file.fileno())
    channel.send({"op": "after"})


def printing(fd):
    channel = line.begun(fd)
    print("to the output")
    print("to the error", file=sys.stderr)
    channel.send({"op": "done"})


def raising(fd):
    line.begun(fd)
    raise ValueError("a worker's own mistake")
