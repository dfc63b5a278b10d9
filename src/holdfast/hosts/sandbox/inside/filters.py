"""The seccomp filter: which system calls a jailed program may make, as a program in classic BPF.

Every jump is forward and short, so no labels are needed. A rule means: if all tests hold, return this answer; else try the next rule.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import struct
from typing import Final, NamedTuple

from holdfast.hosts.sandbox.inside import kernel, syscalls

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32: Final = 0x40000000

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _GREATER, _AT_LEAST, _ANY_BIT = 0x15, 0x25, 0x35, 0x45

_CLONE_THREAD: Final = 0x00010000
_CLONE_FILES: Final = 0x00000400
_CLONE_PARENT: Final = 0x00008000
_CLONE_NEW: Final = 0x7E020000
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET = 1, 1, 5
_SOL_SOCKET, _LAST_PLAIN_OPTION = 1, 21
_SO_SNDBUF, _SO_RCVBUF = 7, 8
_AT_EMPTY_PATH: Final = 0x1000
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000
_TRUNCATE_ABI: Final = 3
# The ioctls that Python uses: isatty, size and group of a terminal, bytes waiting, (non)blocking, close on exec.
_IOCTLS: Final = (0x5401, 0x5413, 0x540F, 0x541B, 0x5421, 0x5450, 0x5451)
# Refused fcntl commands: a signal to another process when a descriptor is ready, leases, directory notices, a larger pipe.
_FCNTLS: Final = (8, 10, 15, 1024, 1026, 1031)
# Locks that belong to a descriptor: they survive while the descriptor is in flight between sockets, where they cannot be counted.
_LOCKS_IN_FLIGHT: Final = (36, 37, 38)
_PRCTLS: Final = (
    kernel.PR_SET_PDEATHSIG, kernel.PR_SET_DUMPABLE, kernel.PR_SET_MM, kernel.PR_SET_CHILD_SUBREAPER, kernel.PR_SET_PTRACER,
)  # fmt: skip

Instruction = tuple[int, int, int, int]


class OtherLocks(NamedTuple):
    """The locks on the program besides this filter. What they do not prevent, the filter must refuse."""

    children: bool
    own_pid: int | None
    """The program's pid if there is no PID namespace: then the program may signal and limit only itself. None with a PID namespace."""
    mounted: bool
    """Whether the program has mounts of its own. All of them except its scratch are read-only, so changing modes and owners is harmless."""
    landlock: int


class ArgumentTest(NamedTuple):
    """One comparison of an argument (`argument` is its number) with a value, by the BPF comparison `jump`. The test holds if the comparison
    gives `wanted`. `mask`: only these bits of the argument are compared; None: all. With `high`, the upper 32 bits of the argument are
    compared, else the lower 32."""

    argument: int
    jump: int
    value: int
    wanted: bool = True
    mask: int | None = None
    high: bool = False


class FilterRule(NamedTuple):
    """If all tests hold, the filter returns this answer."""

    tests: tuple[ArgumentTest, ...]
    answer: int


def refuse(number: int) -> int:
    """The answer that makes the call fail with this errno. With 0 the call seems to succeed."""
    return _ERRNO | number


def equal(argument: int, value: int) -> ArgumentTest:
    """A test that holds if an argument equals this value. `argument` is the number of the argument, from 0."""
    return ArgumentTest(argument, _EQUAL, value)


def any_bit(argument: int, bits: int) -> ArgumentTest:
    """A test that holds if at least one of these bits of an argument is set. `argument` is the number of the argument, from 0."""
    return ArgumentTest(argument, _ANY_BIT, bits)


_NO: Final = refuse(errno.EPERM)
_PRETEND: Final = refuse(0)


@functools.lru_cache
def program(machine: str, held: OtherLocks) -> bytes:
    """The whole filter in the kernel's form. With namespaces, the stub computes it once, and its forks inherit the cached result."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(machine, held))


def instructions(machine: str, held: OtherLocks) -> list[Instruction]:
    """The instructions of the whole filter. Raises KeyError for a machine whose system call numbers are unknown."""
    numbers = syscalls.numbers(machine)
    code: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, KILL)]
    ruled = _rules(held)
    plain = [*syscalls.FILES, *syscalls.WAITING, *syscalls.MEMORY, *syscalls.SELF, *syscalls.CHANNEL]
    code += _answered({numbers[name] for name in plain if name in numbers and name not in ruled}, ALLOW)
    for name, rules in ruled.items():
        if name in numbers:
            body = [part for rule in rules for part in _compiled(rule)]
            code += [(_EQUAL, 0, len(body), numbers[name]), *body]
    code += _answered({numbers[name] for name in syscalls.REFUSED if name in numbers}, _NO)
    return [*code, (_RETURN, 0, 0, refuse(errno.ENOSYS))]


def install(packed: bytes) -> None:
    """Install the filter in this process and all its future children. It cannot be removed."""
    buffer = ctypes.create_string_buffer(packed, len(packed))
    head = struct.pack("@HP", len(packed) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(head, len(head))
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(pointer))


def _answered(numbers: set[int], answer: int) -> list[Instruction]:
    """Instructions that give the same answer for all these system call numbers. Neighbouring numbers are tested together as one range."""
    code: list[Instruction] = []
    todo = sorted(numbers)
    while todo:
        first = last = todo.pop(0)
        while todo and todo[0] == last + 1:
            last = todo.pop(0)
        code += [(_AT_LEAST, 0, 2, first), (_GREATER, 1, 0, last), (_RETURN, 0, 0, answer)]
    return code


def _compiled(rule: FilterRule) -> list[Instruction]:
    code: list[Instruction] = [(_RETURN, 0, 0, rule.answer)]
    for test in reversed(rule.tests):
        beyond = len(code)
        yes, no = (0, beyond) if test.wanted else (beyond, 0)
        mask: list[Instruction] = [] if test.mask is None else [(_AND, 0, 0, test.mask)]
        # Arguments have 64 bits, little-endian on both machines. Except for pointers, the kernel uses only the low half of those we
        # compare.
        code = [(_LOAD, 0, 0, 16 + 8 * test.argument + 4 * test.high), *mask, (test.jump, yes, no, test.value), *code]
    return code


FilterRules = dict[str, tuple[FilterRule, ...]]


def _rules(held: OtherLocks) -> FilterRules:
    return {**_always(held.children), **_towards_others(held.own_pid), **_on_files(held)}


def _always(children: bool) -> FilterRules:
    allow, no = FilterRule((), ALLOW), FilterRule((), _NO)
    forks = (allow if children else no,)
    thread, thread_alone = any_bit(0, _CLONE_THREAD), ArgumentTest(0, _EQUAL, _CLONE_THREAD, mask=_CLONE_THREAD | _CLONE_FILES)
    stream, packets = (ArgumentTest(1, _EQUAL, kind, mask=0xF) for kind in (_SOCK_STREAM, _SOCK_SEQPACKET))
    return {
        # A datagram pair could be redirected to a socket in the file system; a connected stream cannot.
        "socketpair": (FilterRule((equal(0, _AF_UNIX), stream), ALLOW), FilterRule((equal(0, _AF_UNIX), packets), ALLOW), no),
        "sendto": (FilterRule((equal(4, 0), ArgumentTest(4, _EQUAL, 0, high=True)), ALLOW), no),
        # Larger buffers are kernel memory that the keeper does not count. The later options attach filters, which run code in the kernel.
        "setsockopt": (
            *(FilterRule((equal(1, _SOL_SOCKET), equal(2, size)), _NO) for size in (_SO_SNDBUF, _SO_RCVBUF)),
            FilterRule((equal(1, _SOL_SOCKET), ArgumentTest(2, _GREATER, _LAST_PLAIN_OPTION, wanted=False)), ALLOW),
            no,
        ),
        # A thread with its own descriptor table could open the same number of files again, and the keeper would not see them.
        "clone": (
            *(FilterRule((test,), _NO) for test in (any_bit(0, _CLONE_NEW | _CLONE_PARENT), thread_alone)),
            FilterRule((thread,), ALLOW),
            *forks,
        ),
        "fork": forks, "vfork": forks, "execve": forks, "execveat": forks,
        "prctl": (*(FilterRule((equal(0, option),), _NO) for option in _PRCTLS), allow),
        "ioctl": (*(FilterRule((equal(1, request),), ALLOW) for request in _IOCTLS), FilterRule((), refuse(errno.ENOTTY))),
        "fcntl": (
            *(FilterRule((equal(1, command),), _NO) for command in _FCNTLS),
            *(FilterRule((equal(1, command),), refuse(errno.EINVAL)) for command in _LOCKS_IN_FLIGHT),
            allow,
        ),
    }  # fmt: skip


def _towards_others(own_pid: int | None) -> FilterRules:
    """The rules for calls that name a process. Without a PID namespace (`own_pid` is given) the program may name only itself."""
    first = ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64"]
    first += ["sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"]
    if own_pid is None:
        return dict.fromkeys([*first, "tkill", "setpriority"], (FilterRule((), ALLOW),))
    no = FilterRule((), _NO)
    itself = (FilterRule((equal(0, 0),), ALLOW), FilterRule((equal(0, own_pid),), ALLOW), no)
    ranked = (FilterRule((equal(0, 0), equal(1, who)), ALLOW) for who in (0, own_pid))
    return {**dict.fromkeys(first, itself), "tkill": (no,), "setpriority": (*ranked, no)}


def _on_files(held: OtherLocks) -> FilterRules:
    """The rules for calls on files that Landlock does not control. They are stricter if there are no read-only mounts (`held.mounted` is
    False), because then only Landlock protects the user's files."""
    modes = ["chmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat", "futimesat"]
    owners = ["chown", "lchown", "fchownat"]
    marks = ["setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"]
    allow, no = (FilterRule((), ALLOW),), (FilterRule((), _NO),)
    found: FilterRules = dict.fromkeys(marks, (FilterRule((), refuse(errno.EOPNOTSUPP)),))
    found.update(dict.fromkeys(modes, allow if held.mounted else (FilterRule((), _PRETEND),)))
    found.update(dict.fromkeys(owners, allow if held.mounted else no))
    # A descriptor from the runner may refer to a file on the runner's mounts, perhaps with the same owner.
    found.update(dict.fromkeys(["fchmod", "fchown"], no))
    for name, path, flags in (("fchmodat2", 1, 3), ("fchownat", 1, 4), ("utimensat", 1, 3), ("futimesat", 1, None)):
        through = [FilterRule((equal(path, 0), ArgumentTest(path, _EQUAL, 0, high=True)), _NO)]
        through += [] if flags is None else [FilterRule((any_bit(flags, _AT_EMPTY_PATH),), _NO)]
        found[name] = (*through, *found[name])
    if held.mounted or held.landlock >= _TRUNCATE_ABI:
        return {**found, "truncate": allow, "openat2": allow}
    # Older versions of Landlock allow truncation, by name or by opening for reading with O_TRUNC.
    for name, flags in (("open", 1), ("openat", 2)):
        emptied = (any_bit(flags, _O_TRUNC), ArgumentTest(flags, _EQUAL, 0, mask=_O_ACCMODE))
        found[name] = (FilterRule(emptied, _NO), *allow)
    return {**found, "truncate": no, "openat2": (FilterRule((), refuse(errno.ENOSYS)),)}
