"""What the bodies have in common: say `ready`, wait for the order, try things, tell."""

import os

from holdfast.hosts.sandbox.inside.body_channel import Channel


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
