"""Processes that are killed while they migrate a file, or put a copy in its place: `python -m tests.store.dying FILE FOLDER [COPY]`.

Each does so with a file of its own in a folder of its own, and dies at a point of its own: before the first statement, before the second,
and so on, also in the middle of the copy that is kept. Says how many there were; the last one lived.
"""

import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from holdfast.store.sqlite.restore import restore
from holdfast.store.sqlite.store import SqliteStore

_ITS_OWN_CONNECT = sqlite3.connect
points = 0
last = 0


def reached() -> None:
    """One more point; at the last one this process dies."""
    global points
    points += 1
    if points == last:
        os.kill(os.getpid(), signal.SIGKILL)


class Dying(sqlite3.Connection):
    def execute(self, *args: Any) -> sqlite3.Cursor:
        reached()
        return super().execute(*args)

    def backup(self, target: sqlite3.Connection, **_: Any) -> None:
        super().backup(target, pages=20, progress=lambda *_: reached())


def lived(path: Path, point: int, copy: Path | None) -> bool:
    """Do it in a forked process that dies at a point; whether it lived."""
    global last
    child = os.fork()
    if child == 0:
        last = point
        sqlite3.connect = lambda *args, **more: _ITS_OWN_CONNECT(*args, factory=Dying, **more)  # type: ignore[assignment]
        if copy is None:
            SqliteStore(str(path), f"dying-{point}").close()
        else:
            restore(str(path), copy)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def main(old: Path, folder: Path, copy: Path | None = None) -> None:
    point = 0
    while True:
        point += 1
        path = folder / str(point) / "store.db"
        path.parent.mkdir()
        shutil.copy(old, path)
        if lived(path, point, copy):
            break
    sys.stdout.write(f"{point}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
