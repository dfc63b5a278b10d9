"""The kernel's table of processes (/proc), read as it is written: bytes, in lines that end with a line feed.

A process chooses its own name, and the name is in this table. Python's `str.splitlines` also splits at form feeds and seven other
characters, so a name could make lines of its own. Therefore nothing here decodes text, and the line of the name is never looked at.

A process that has ended uses nothing: for it the functions return None, 0 or an empty list. For a process that lives, but cannot be read,
they raise Unreadable.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_READ_BYTES: Final = 1 << 16
_LOCKS_BYTES: Final = 1 << 20
_OWN: Final = (b"RssAnon", b"RssShmem")
_ELSEWHERE: Final = (b"VmSwap", b"HugetlbPages")
"""Rows of memory that is not in the rows of `_OWN`: a process can move its own pages there. Not every kernel has these rows."""
_SHARES: Final = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:", b"Private_Hugetlb:", b"Shared_Hugetlb:")


class Unreadable(Exception):
    """Raised if a process lives, but the kernel's table does not say what it uses."""


class Uses(NamedTuple):
    """What one process has at this moment."""

    kilobytes: int
    """Memory of its own: anonymous and shared pages, swapped out or not, without the files that all processes share."""
    threads: int
    data_kilobytes: int
    """The memory that it may write to (VmData), whether it has used that memory or not. The kernel's limit RLIMIT_DATA counts it."""
    peak_kilobytes: int
    """The most memory that it ever had at one time (VmHWM), with files."""


def give_way(pid: int, nice: int) -> None:
    """Raise the nice value of a process to `nice`, so that other processes get the CPU before it. A higher value stays. The pid 0 means
    this process. If the kernel refuses, nothing happens.

    If the kernel groups processes by session (autogroup), it compares the groups, and compares nice values only inside a group. So the
    group of the process gets the same nice value.
    """
    with contextlib.suppress(OSError):
        before = os.getpriority(os.PRIO_PROCESS, pid)
        if before < nice:
            os.setpriority(os.PRIO_PROCESS, pid, nice)
        nice = max(before, nice)
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid or 'self'}/autogroup", "r+b", buffering=0) as group:
        if int(group.read(_READ_BYTES).rpartition(b" nice ")[2]) < nice:  # "/autogroup-ID nice N"
            group.write(b"%d" % nice)


def uses(pid: int) -> Uses | None:
    """What a process uses now; None if it has ended. Raises Unreadable if it lives and cannot be read."""
    rows = _rows(f"/proc/{pid}/status")
    if rows is None:
        return None
    threads = _number(rows, b"Threads")
    if _OWN[0] not in rows and threads > 1:
        # Its first thread has ended, so /proc/PID has no rows of memory; the other threads still use the memory.
        rows = _of_a_thread(pid) or rows
    if _OWN[0] not in rows:  # the process is about to end: every process that runs has memory
        return Uses(0, threads, 0, 0)
    kilobytes = sum(_number(rows, name) for name in (*_OWN, *(name for name in _ELSEWHERE if name in rows)))
    return Uses(kilobytes, threads, _number(rows, b"VmData"), _number(rows, b"VmHWM"))


def share(pid: int) -> int:
    """The kilobytes of memory of a process. A page that several processes share is divided among them, so that a sum over all of them
    counts it once. This is slow, because the kernel looks at each page. If the kernel does not tell this, shared pages are counted
    whole."""
    for path in (f"/proc/{pid}", *_threads(pid)):
        text = None
        with contextlib.suppress(OSError):
            text = read(f"{path}/smaps_rollup")
        if text:
            shares = [line.split() for line in text.split(b"\n") if line.startswith(_SHARES)]
            with contextlib.suppress(ValueError, IndexError):
                return sum(int(words[1]) for words in shares)
    found = uses(pid)
    return 0 if found is None else found.kilobytes


def cpu_seconds(pid: int) -> float | None:
    """The CPU seconds of all threads of a process and of its children that it has reaped; None if it has ended. Raises Unreadable if it
    lives and cannot be read."""
    fields = _stat(pid)
    return None if fields is None else sum(fields[11:15]) / _TICKS


def children(pid: int) -> list[int]:
    """The pids of the children of a process. Each thread may have children of its own, so all threads are read. Raises Unreadable if a
    thread lives and cannot be read."""
    found: list[int] = []
    for path in _threads(pid):
        try:
            found += map(int, read(f"{path}/children").split())
        except FileNotFoundError:
            if os.path.exists(path):  # a kernel that keeps no such list
                return _scanned(pid)
        except ProcessLookupError:
            continue
        except (OSError, ValueError) as error:
            raise Unreadable(f"{path}/children: {error}") from None
    return found


def open_files(pid: int) -> Iterator[os.stat_result]:
    """The results of `stat` for the files that a process has open. Raises Unreadable if it lives and cannot be read."""
    folder, names = _descriptors(pid)
    for name in names:
        with contextlib.suppress(OSError):  # closed meanwhile
            yield os.stat(f"{folder}/fd/{name}")


def file_locks(pid: int) -> int:
    """How many locks a process has on its open files. For each file, at most a megabyte of the kernel's list is read."""
    folder, names = _descriptors(pid)
    count = 0
    for name in names:
        with contextlib.suppress(OSError):
            count += read(f"{folder}/fdinfo/{name}", _LOCKS_BYTES).count(b"\nlock:")
    return count


def _descriptors(pid: int) -> tuple[str, list[str]]:
    """Two values: the folder in /proc of a living thread of the process, and the numbers of the descriptors that it lists. All threads
    share the descriptors (the sandbox's filter makes sure of that), so any living thread lists them; a thread that has ended lists none.
    ("", []) if there is nothing to list."""
    refused = ""
    for path in _threads(pid):
        try:
            if names := os.listdir(f"{path}/fd"):
                return path, names
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:  # the files of a process that is ending belong to root
            refused = f"{path}/fd: {error.strerror}"
    found = uses(pid) if refused else None
    if found is not None and found.kilobytes:
        raise Unreadable(refused)
    return "", []


def open_sockets(pid: int) -> int:
    """How many descriptors of a process are sockets."""
    return sum(stat.S_ISSOCK(found.st_mode) for found in open_files(pid))


def read(path: str, most: int | None = None) -> bytes:
    """The content of one of the kernel's files: all of it, or about the first `most` bytes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while (most is None or len(parts) * _READ_BYTES < most) and (part := os.read(file, _READ_BYTES)):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def _rows(path: str) -> dict[bytes, bytes] | None:
    """The rows of a file such as /proc/PID/status, by the name of the row. The first row is left out, because it has the name of the
    process. If two rows have the same name, the first of them is used. None if the process has ended."""
    try:
        lines = read(path).split(b"\n")[1:]
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    return {name: value for name, _, value in (line.partition(b":") for line in reversed(lines))}


def _number(rows: dict[bytes, bytes], name: bytes) -> int:
    try:
        return int(rows[name].split()[0])
    except (KeyError, IndexError, ValueError):
        raise Unreadable(f"the kernel's table of processes has no row {name.decode()} for this process") from None


def _of_a_thread(pid: int) -> dict[bytes, bytes] | None:
    for path in _threads(pid):
        rows = _rows(f"{path}/status")
        if rows is not None and _OWN[0] in rows:
            return rows
    return None


def _threads(pid: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        try:
            return [f"/proc/{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]
        except PermissionError as error:
            raise Unreadable(f"/proc/{pid}/task: {error.strerror}") from None
    return []


def _scanned(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, Unreadable):
                fields = _stat(int(name))
                if fields is not None and fields[1] == parent:
                    found.append(int(name))
    return found


def _stat(pid: int) -> list[int] | None:
    """The fields of /proc/PID/stat after the name, as numbers. The first of them is a letter for the state of the process; 0 stands in its
    place. The name is in brackets and may contain brackets, so it ends at the last closing bracket of the line. None if the process has
    ended."""
    path = f"/proc/{pid}/stat"
    try:
        words = read(path).rpartition(b")")[2].split()
        if len(words) < 20:
            raise Unreadable(f"{path} has too few fields")
        return [0, *map(int, words[1:20])]
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from None
