"""Taking more than is allowed."""

import ctypes
import fcntl
import mmap
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import line


def memory(fd):
    line.begun(fd)
    held = []
    while True:
        held.append(bytearray(1 << 20))


def memory_at_once(fd):
    line.begun(fd)
    return bytearray(1 << 42)


def memory_stubborn(fd):
    """Goes on when an allocation fails."""
    line.begun(fd)
    held = []
    while True:
        try:
            held.append(b"x" * (1 << 20))
        except MemoryError:
            time.sleep(0.001)


def memory_shared(fd):
    """Not in the count of private pages."""
    line.begun(fd)
    held = []
    while True:
        held.append(mmap.mmap(-1, 1 << 22))
        held[-1].write(b"x" * (1 << 22))


def memory_in_c(fd):
    """Where nothing raises MemoryError."""
    line.begun(fd)
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    while True:
        at = libc.malloc(1 << 20)
        ctypes.memset(at, 1, 1 << 20)


def cpu(fd):
    line.begun(fd)
    while True:
        pass


def cpu_in_threads(fd):
    line.begun(fd)
    for _ in range(4):
        threading.Thread(target=lambda: re.match(r"(a+)+$", "a" * 40 + "b")).start()


def disk(fd):
    line.begun(fd)
    with open("big", "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))


def disk_in_pieces(fd):
    """No single file is large, and an error does not stop it."""
    line.begun(fd)
    number = 0
    while True:
        try:
            number += 1
            with open(f"piece-{number}", "wb") as file:
                file.write(b"x" * (1 << 18))
        except OSError:
            time.sleep(0.001)


def disk_without_names(fd):
    """The files are unlinked while they are open."""
    line.begun(fd)
    held = []
    while True:
        try:
            held.append(open("nameless", "wb"))
            os.unlink("nameless")
            held[-1].write(b"x" * (1 << 20))
            held[-1].flush()
        except OSError:
            time.sleep(0.001)


def disk_of_names(fd):
    """Empty files, without end."""
    line.begun(fd)
    number = 0
    while True:
        try:
            number += 1
            os.close(os.open(f"{number}", os.O_CREAT))
        except OSError:
            time.sleep(0.001)


def disk_deep(fd):
    """Folders in folders, deeper than any path."""
    channel = line.begun(fd)
    for _ in range(1500):
        os.mkdir("deep-and-deeper")
        os.chdir("deep-and-deeper")
    channel.send({"op": "done"})


def descriptors(fd):
    channel = line.begun(fd)
    held = []
    try:
        while True:
            held.append(os.open(".", os.O_RDONLY))
    except OSError as error:
        channel.send({"op": "stopped", "at": len(held), "by": os.strerror(error.errno)})


def fork(fd):
    line.begun(fd)
    os.fork()


def spawn(fd):
    line.begun(fd)
    subprocess.run([sys.executable, "-c", ""], check=True)


def shell(fd):
    channel = line.begun(fd)
    channel.send({"op": "status", "status": os.system("true")})


def fork_bomb(fd):
    line.begun(fd)
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.001)


def threads(fd):
    line.begun(fd)
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def sleep(fd):
    line.begun(fd)
    time.sleep(1000)


def sleep_through_signals(fd):
    line.begun(fd)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    time.sleep(1000)


def blocked_in_c(fd):
    """Holds the interpreter's lock, so that no Python code runs, no handler either."""
    line.begun(fd)
    ctypes.PyDLL(None).sleep(1000)


def backtracking(fd):
    line.begun(fd)
    re.match(r"(a+)+$", "a" * 50 + "b")


def grandchild(fd, word):
    """A daemon, by the book: new session, parents gone, another program."""
    channel = line.begun(fd)
    heard, says = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.set_inheritable(says, False)
            os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)", word])
        os._exit(0)
    os.close(says)
    os.read(heard, 1)  # ends when the daemon runs its own program
    channel.send({"op": "done"})


def children_cpu(fd):
    line.begun(fd)
    for _ in range(3):
        if os.fork() == 0:
            while True:
                pass
    time.sleep(1000)


def flood(fd):
    line.begun(fd)
    while True:
        os.write(1, b"noise " * 1000)


def memory_of_children(fd):
    """No single process has too much."""
    line.begun(fd)
    for _ in range(4):
        if os.fork() == 0:
            held = b"x" * (60 << 20)
            time.sleep(1000 + len(held))
    time.sleep(1000)


def family(fd):
    """Twenty processes that share what their parent has."""
    channel = line.begun(fd)
    held = b"x" * (30 << 20)
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(1000 + len(held))
    time.sleep(0.5)
    channel.send({"op": "done"})


def renamed(fd):
    """Takes a name with another end of a line in it, then more than is allowed. Which and what comes with the order."""
    channel = line.Channel(fd)
    channel.send({"op": "ready"})
    order, _ = channel.receive()
    ctypes.CDLL(None).prctl(15, order["name"].encode(), 0, 0, 0)
    if order["takes"] == "threads":  # more than are allowed, fewer than the kernel itself refuses
        for _ in range(265):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        time.sleep(1000)
    held = []
    while True:
        if order["takes"] == "memory":
            held.append(bytearray(1 << 20))


def memory_behind_a_dead_leader(fd):
    """The first thread ends, the process goes on: its row in the kernel's table has no memory any more."""
    line.begun(fd)
    held = []

    def fill():
        while True:
            try:
                held.append(bytearray(1 << 20))
            except MemoryError:  # the kernel's limit was quicker than a busy watch: what is held stays until the watch comes
                time.sleep(0.01)

    threading.Thread(target=fill, daemon=True).start()
    ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)


def signalled(fd):
    """Ended by a signal that has no name."""
    line.begun(fd)
    os.kill(os.getpid(), signal.SIGRTMIN + 3)
    time.sleep(1000)


def _filled(end, chunk=b"x" * 4096):
    """Bytes that the kernel keeps for a socket that is never read."""
    end.setblocking(False)
    total = 0
    try:
        while True:
            total += end.send(chunk)
    except OSError:
        return total


def _pin(wanted):
    """As much as the kernel takes, in sockets that are open and in sockets that are in flight."""
    held, total, empty = [], 0, 0
    try:
        carrier, other = socket.socketpair()
        held += [carrier, other]
        while total < wanted and empty < 200:
            ours, theirs = socket.socketpair()
            got = _filled(ours) + _filled(theirs)
            try:
                socket.send_fds(carrier, [b"x"], [ours.fileno(), theirs.fileno()])
                ours.close()
                theirs.close()
            except OSError:
                held += [ours, theirs]
            total, empty = total + got, empty + (not got)
    except OSError:  # descriptors are used up
        pass
    return held, total


def pinned(fd, megabytes):
    channel = line.begun(fd)
    ours, theirs = socket.socketpair()
    pipe = os.pipe()[1]
    enlarged = {
        "socket": line.outcome(lambda: ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)),
        "pipe": line.outcome(lambda: fcntl.fcntl(pipe, 1031, 1 << 20)),
    }
    held, total = _pin(int(megabytes) << 20)
    time.sleep(0.5)
    channel.send({"op": "pinned", "mb": total >> 20, "enlarged": enlarged, "held": len(held)})


def flying(fd):
    """As many descriptors in flight as the kernel allows this user; no process ever receives them."""
    channel = line.begun(fd)
    carrier, other = socket.socketpair()
    nothing = os.open("/dev/null", os.O_RDONLY)
    sent = 0
    try:
        while True:
            socket.send_fds(carrier, [b"x"], [nothing] * 50)
            sent += 50
    except OSError as error:
        channel.send({"op": "flying", "sent": sent, "why": error.errno})
    time.sleep(1000)


def pinned_by_children(fd):
    """Each process has descriptors of its own."""
    line.begun(fd)
    for _ in range(8):
        if os.fork() == 0:
            held, _ = _pin(1 << 30)
            time.sleep(1000 + len(held))
    time.sleep(1000)


def locks(fd):
    """Each lock is memory of the kernel, and nothing bounds their number."""
    line.begun(fd)
    files = [open(f"locked-{number}", "wb") for number in range(64)]
    at = 0
    while True:
        at += 2
        for file in files:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)


def holding(fd):
    """So much, and no more."""
    channel = line.Channel(fd)
    channel.send({"op": "ready"})
    order, _ = channel.receive()
    held = [bytearray(1 << 20) for _ in range(order["megabytes"])]
    channel.send({"op": "holding"})
    time.sleep(1000 + len(held))


def spinning(fd):
    """Computes without an end."""
    channel = line.Channel(fd)
    channel.send({"op": "ready"})
    channel.receive()
    while True:
        pass
