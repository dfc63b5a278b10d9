"""Reaching for files that are not its own."""

import os

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
