"""Two programs for tests of private listeners: a runner that listens for its own children, and a stranger that tries to get in.

`python -m tests.flow.runtime.strangers listen USER`: prints its address, then obeys lines: `block` stops its loop until `go`, `friend 4`
and `friend 6` have a child ask, `count` tells how many requests of strangers and of friends got in.
`python -m tests.flow.runtime.strangers attack USER ADDRESS COUNT`: connects, sends a whole request, and is gone at once, in several ways.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from pathlib import Path

from starlette.types import Receive, Scope, Send

from holdfast.hosts.sandbox import visible_folders
from holdfast.lambda_api.runtime.runtime_listener import RuntimeListener
from holdfast.web.replies import json_reply
from tests.sandbox import settings

_FRIEND = """
import socket, sys
family, host = {"4": (socket.AF_INET, "127.0.0.1"), "6": (socket.AF_INET6, "::ffff:127.0.0.1")}[sys.argv[2]]
asking = socket.socket(family)
asking.connect((host, int(sys.argv[1])))
asking.sendall(f"GET /friend HTTP/1.1\\r\\nhost: 127.0.0.1:{sys.argv[1]}\\r\\nconnection: close\\r\\n\\r\\n".encode())
print(asking.makefile("rb").readline().decode().strip())
"""


async def listen() -> None:
    """Serve the children of this process until the line ends."""
    seen = {"/stranger": 0, "/friend": 0}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen[scope["path"]] += 1
        await json_reply({})(scope, receive, send)

    listener = RuntimeListener(app, lambda client: None, os.getpid)
    await listener.open()
    _say(listener.address)
    loop = asyncio.get_running_loop()
    while words := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        if words[0] == "block":
            _say("blocked")
            sys.stdin.readline()  # on the loop's own thread
        elif words[0] == "friend":
            port = listener.address.rpartition(":")[2]
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _FRIEND, port, words[1], stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            _say((await child.communicate())[0].decode().strip())
        else:
            for _ in range(20):
                await asyncio.sleep(0)
            _say(json.dumps(seen))
    listener.close()
    await asyncio.sleep(0)


def attack(address: str, count: int) -> None:
    """End before the listener can check which process connected."""
    host, port = address.split(":")
    request = f"GET /stranger HTTP/1.1\r\nhost: {address}\r\n\r\n".encode()
    waiting = []
    for number in range(count):
        asking = socket.socket()
        try:
            asking.connect((host, int(port)))
            asking.sendall(request)
            if number % 4 == 1:
                asking.shutdown(socket.SHUT_WR)
            if number % 4 == 2:  # a reset
                asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:  # it was hung up on already
            continue
        if number % 4 == 3:
            waiting.append(asking)  # stays, and is looked at alive
        else:
            asking.close()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """One of the two, as a user."""
    role, user, *rest = sys.argv[1:]
    other = int(user) != os.getuid()
    if role == "listen":
        if other:
            settings.become(settings.USER, [*visible_folders.readable(), *visible_folders.packages(), Path(sys.executable)])
        asyncio.run(listen())
    else:
        if other:
            os.setgid(int(user))
            os.setuid(int(user))
        attack(rest[0], int(rest[1]))


if __name__ == "__main__":
    main()
