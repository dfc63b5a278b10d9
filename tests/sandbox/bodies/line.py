"""What the bodies have in common: say `ready`, wait for the order, try things, tell."""

import json
import os
import socket

from holdfast.hosts.sandbox.inside.body_channel import received, sent_along


class Channel:
    """The body's end of the channel. A frame is four bytes of length, big-endian, then a JSON object; it may carry one descriptor."""

    def __init__(self, fd):
        self._socket = socket.socket(fileno=fd)
        self._buffer = b""
        self._fds = []

    def fileno(self):
        """The descriptor, for a body that waits for frames in its own loop."""
        return self._socket.fileno()

    def send(self, frame, fd=None):
        """Send one frame, with a descriptor if `fd` is given."""
        text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        data = memoryview(len(text).to_bytes(4, "big") + text)
        if fd is not None:
            data = data[sent_along(self._socket, data, fd) :]
        if data:
            self._socket.sendall(data)

    def receive(self):
        """Receive one frame with its descriptors; None when the runner has closed the channel."""
        while (frame := self._next()) is None:
            data, ancillary, _, _ = self._socket.recvmsg(64 * 1024, socket.CMSG_SPACE(4 * 4))
            if not data:
                return None
            self._buffer += data
            self._fds += received(ancillary)
        fds, self._fds = self._fds, []
        return frame, fds

    def _next(self):
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        if len(self._buffer) < max(end, 4):
            return None
        text, self._buffer = self._buffer[4:end], self._buffer[end:]
        frame = json.loads(text)
        assert isinstance(frame, dict)
        return frame


def begun(fd):
    channel = Channel(fd)
    channel.send({"op": "ready"})
    channel.receive()
    return channel


def outcome(trial):
    """What came of trying: the errno's name, the exception's, or what was got."""
    try:
        got = trial()
    except OSError as error:
        return os.strerror(error.errno) if error.errno and error.errno > 0 else type(error).__name__
    except Exception as error:
        return type(error).__name__
    return f"GOT {got!r}"[:200]


def tell(fd, trials):
    channel = begun(fd)
    channel.send({"op": "tried", "outcomes": {name: outcome(trial) for name, trial in trials.items()}})
