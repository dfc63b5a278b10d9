"""Reaching for the network, by every door."""

import ctypes
import socket

import line


def _send(family, kind, address):
    with socket.socket(family, kind) as made:
        made.settimeout(2)
        if kind == socket.SOCK_STREAM:
            made.connect(address)
            return made.send(b"escaped")
        return made.sendto(b"escaped", address)


def _pair(kind, way):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    with ours, theirs:
        return way(ours)


def dial(fd, port, stream, datagram, abstract):
    unix = socket.AF_UNIX
    by_path = datagram
    line.tell(
        fd,
        {
            "tcp": lambda: _send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
            "tcp6": lambda: _send(socket.AF_INET6, socket.SOCK_STREAM, ("::1", int(port))),
            "udp": lambda: _send(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(port))),
            "unix stream": lambda: _send(unix, socket.SOCK_STREAM, stream),
            "unix datagram": lambda: _send(unix, socket.SOCK_DGRAM, by_path),
            "unix abstract": lambda: _send(unix, socket.SOCK_STREAM, "\0" + abstract),
            "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
            "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
            "vsock": lambda: socket.socket(40, socket.SOCK_STREAM),
            "dns": lambda: socket.getaddrinfo("example.com", 80),
            "datagram pair": lambda: _pair(socket.SOCK_DGRAM, lambda ours: ours.sendto(b"escaped", by_path)),
            "datagram pair, message": lambda: _pair(socket.SOCK_DGRAM, lambda ours: ours.sendmsg([b"escaped"], [], 0, by_path)),
            "stream pair, connect": lambda: _pair(socket.SOCK_STREAM, lambda ours: ours.connect(stream)),
            "stream pair, bind": lambda: _pair(socket.SOCK_STREAM, lambda ours: ours.bind("mine")),
            "stream pair, sendto": lambda: _pair(socket.SOCK_STREAM, lambda ours: ours.sendto(b"escaped", stream)),
            "stream pair, message": lambda: _pair(socket.SOCK_STREAM, lambda ours: ours.sendmsg([b"escaped"], [], 0, stream)),
            "packet pair, message": lambda: _pair(socket.SOCK_SEQPACKET, lambda ours: _alone(ours.sendmsg, [b"escaped"], [], 0, by_path)),
            "filter": lambda: _pair(socket.SOCK_STREAM, lambda ours: ours.setsockopt(socket.SOL_SOCKET, 26, b"\0" * 16)),
        },
    )


def _alone(way, *arguments):
    """A packet pair ignores the address and sends to its own other end: that is no escape."""
    way(*arguments)
    raise PermissionError(1, "went to itself")


def raw(fd, port):
    """Past Python's own library, and on an address family picked by number."""
    libc = ctypes.CDLL(None, use_errno=True)
    channel = line.begun(fd)
    found = {}
    for family in range(46):
        for kind in (1, 2, 3, 5):
            if libc.socket(family, kind, 0) >= 0:
                found[f"{family}/{kind}"] = "GOT"
    channel.send({"op": "tried", "outcomes": found})
