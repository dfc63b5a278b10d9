"""A process that stops executions, and dies at the moment it is told to.

    python -m tests.crash.stopper STORE

Each line of its input is an EXECUTION and a MOMENT: the number of the SQL statement before which it dies, or a time after COMMIT has
begun (`+0.0003`, in seconds), or `never`. Each is done by a fork of its own, and answered by how many statements there were, or `killed`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import cast

from holdfast.service.client import Client
from holdfast.store.sqlite.store import SqliteStore


def _die(after: float) -> None:
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


def stop(store: str, execution: str, moment: str) -> int:
    """Stop it, and see every statement of the transaction on its way."""
    seen: list[str] = []

    def traced(statement: str) -> None:
        seen.append(statement)
        if moment == str(len(seen)):
            _die(0)
        elif moment.startswith("+") and statement == "COMMIT":
            threading.Thread(target=_die, args=(float(moment),)).start()

    with Client.open(store) as client:
        cast("SqliteStore", client._store)._writer.set_trace_callback(traced)
        client.stop(execution)
    return len(seen)


def main(store: str) -> None:
    for line in sys.stdin:
        execution, moment = line.split()
        child = os.fork()
        if not child:
            os.write(1, f"{stop(store, execution, moment)}\n".encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.write(1, b"killed\n")


if __name__ == "__main__":
    main(sys.argv[1])
