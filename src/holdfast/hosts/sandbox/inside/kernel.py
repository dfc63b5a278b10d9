"""System calls that the standard library of Python 3.11 does not have."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Final

LINUX: Final = sys.platform == "linux"

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_GET_SECCOMP: Final = 21
PR_CAPBSET_DROP: Final = 24
PR_SET_MM: Final = 35
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_SET_PTRACER: Final = 0x59616D61

_libc = ctypes.CDLL(None, use_errno=True)
_CAPABILITY_VERSION: Final = 0x20080522
_CAP_AMBIENT_CLEAR_ALL: Final = 4

Argument = int | bytes | ctypes.Array[ctypes.c_char] | ctypes.Structure | None


def call(number: int, *arguments: Argument) -> int:
    """Make one system call. Raises OSError when it fails."""
    return _checked(_libc.syscall(ctypes.c_long(number), *map(_passed, arguments)))


def prctl(option: int, *arguments: int) -> int:
    """Call prctl(2) for this process."""
    return _checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4])))


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Call mount(2)."""
    _checked(_libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data)))


def detach(target: str) -> None:
    """Unmount what is mounted at `target`, also when it is in use."""
    _checked(_libc.umount2(_text(target), 2))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _checked(_libc.unshare(flags))


def bound_capabilities() -> None:
    """Empty the bounding set, so that no later program gets a capability. This needs CAP_SETPCAP; without it the set stays as it is."""
    for capability in range(64):
        with contextlib.suppress(OSError):  # the kernel does not have this capability, or we may not drop it: then `no_new_privs` protects
            prctl(PR_CAPBSET_DROP, capability)


def drop_capabilities() -> None:
    """Drop all capabilities of this process for good."""
    with contextlib.suppress(OSError):  # a kernel before 4.3 has no ambient set
        prctl(PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, nothing))


def has_capabilities() -> bool:
    """Whether the effective, the permitted or the inheritable set still has a capability."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, sets))
    return any(sets)


def _checked(result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _passed(value: Argument) -> object:
    if isinstance(value, int):
        return ctypes.c_long(value)
    return ctypes.byref(value) if isinstance(value, ctypes.Structure) else value


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)
