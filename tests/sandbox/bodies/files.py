"""Reaching for files that are not its own."""

import ctypes
import mmap
import os
import platform
import shutil
import sqlite3
import tarfile

import line


def read(fd, *paths):
    line.tell(fd, {path: lambda path=path: open(path, "rb").read(40) for path in paths})


def listing(fd, *paths):
    line.tell(fd, {path: lambda path=path: os.listdir(path) for path in paths})


def write(fd, path):
    """Every way to change a file by its name."""
    folder = os.path.dirname(path)
    line.tell(
        fd,
        {
            "append": lambda: open(path, "a").write("x"),
            "empty": lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
            "truncate": lambda: os.truncate(path, 0),
            "create": lambda: open(f"{folder}/new", "w").write("x"),
            "unlink": lambda: os.unlink(path),
            "rename": lambda: os.rename(path, f"{folder}/other"),
            "rename out": lambda: os.rename(path, "mine"),
            "link": lambda: os.link(path, "mine"),
            "link in": lambda: (open("own", "w").close(), os.link("own", f"{folder}/own")),
            "symlink": lambda: (os.symlink(path, "way"), open("way", "a").write("x")),
            "mkdir": lambda: os.mkdir(f"{folder}/folder"),
            "chmod": lambda: os.chmod(path, 0o777),
            "chown": lambda: os.chown(path, os.getuid(), os.getgid()),
            "utime": lambda: os.utime(path, (1, 1)),
            "xattr": lambda: os.setxattr(path, "user.mine", b"x"),
            "fifo": lambda: os.mkfifo(f"{folder}/fifo"),
            "chroot": lambda: os.chroot(folder),
        },
    )


def own_code(fd, path):
    """Its package is readable, so it can be opened; it must not be changed through that either."""

    def through_a_descriptor(change):
        at = os.open(path, os.O_RDONLY)
        try:
            return change(at)
        finally:
            os.close(at)

    line.tell(
        fd,
        {
            "write": lambda: open(path, "a").write("x"),
            "fchmod": lambda: through_a_descriptor(lambda at: os.fchmod(at, 0o777)),
            "utime": lambda: through_a_descriptor(lambda at: os.utime(at, (1, 1))),
            "unlink": lambda: os.unlink(path),
            "cache": lambda: open(os.path.dirname(path) + "/cached.pyc", "w"),
        },
    )


def handed(fd):
    """A file that the runner handed over, open for reading: nothing about it may be changed through its descriptor."""
    channel = line.Channel(fd)
    channel.send({"op": "ready"})
    _, [at] = channel.receive()
    x86, libc = platform.machine() == "x86_64", ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)) == -1:
            raise OSError(ctypes.get_errno(), "refused")

    times = (ctypes.c_long * 4)(1, 0, 1, 0)
    trials = {
        "fchmod": lambda: os.fchmod(at, 0o777),
        "fchmodat2, empty path": lambda: call(452, at, b"", 0o777, 0x1000),
        "fchown": lambda: os.fchown(at, os.getuid(), os.getgid()),
        "fchownat, empty path": lambda: call(260 if x86 else 54, at, b"", os.getuid(), os.getgid(), 0x1000),
        "futimens": lambda: os.utime(at, (1, 1)),
        "utimensat, no path": lambda: call(280 if x86 else 88, at, 0, times, 0),
        "utimensat, empty path": lambda: call(280 if x86 else 88, at, b"", times, 0x1000),
        "fsetxattr": lambda: os.setxattr(at, "user.mine", b"x"),
        "fremovexattr": lambda: os.removexattr(at, "user.theirs"),
        "ftruncate": lambda: os.ftruncate(at, 0),
        "fallocate": lambda: os.posix_fallocate(at, 0, 1 << 20),
        "punch a hole": lambda: call(285 if x86 else 47, at, 3, 0, 4),
        "write": lambda: os.write(at, b"x"),
        "map for writing": lambda: mmap.mmap(at, 4, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        "open again": lambda: os.open(f"/proc/self/fd/{at}", os.O_RDWR),
        "chmod by the name of its descriptor": lambda: os.chmod(f"/proc/self/fd/{at}", 0o777),
        "utime by the name of its descriptor": lambda: os.utime(f"/proc/self/fd/{at}", (1, 1)),
        "truncate by the name of its descriptor": lambda: os.truncate(f"/proc/self/fd/{at}", 0),
        "chmod by the other name": lambda: os.chmod(f"/dev/fd/{at}", 0o777),
        "link by the name of its descriptor": lambda: os.link(f"/proc/self/fd/{at}", "mine", follow_symlinks=True),
        "a name for it": lambda: call(265 if x86 else 37, at, b"", -100, b"mine", 0x1000),
        "flags": lambda: call(16 if x86 else 29, at, 0x40086602, ctypes.c_long(0x20)),
    }
    if x86:
        trials["futimesat, no path"] = lambda: call(261, at, 0, times)
    channel.send({"op": "tried", "outcomes": {name: line.outcome(trial) for name, trial in trials.items()}})


def own_files(fd):
    """In its scratch, by their names, a body may do all of it."""

    def tried():
        with open("own", "w") as file:
            file.write("content")
        os.chmod("own", 0o600)
        os.utime("own", (1, 1))
        os.truncate("own", 3)
        shutil.copy2("own", "copy")
        with tarfile.open("packed", "w") as packed:
            packed.add("own")
        os.mkdir("unpacked")
        with tarfile.open("packed") as packed:
            packed.extractall("unpacked", filter="data")
        with sqlite3.connect("own.db") as database:
            database.execute("create table t(x)")
        return open("unpacked/own").read()

    line.tell(fd, {"own files": tried})
