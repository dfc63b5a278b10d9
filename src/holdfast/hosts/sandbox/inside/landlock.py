"""Landlock: restricts the files that a program may use, and, on newer kernels, TCP, abstract sockets and signals to other processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable
from typing import Final

from holdfast.hosts.sandbox.inside import kernel

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same numbers on every machine
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_MAKE_CHAR, _MAKE_SOCK, _MAKE_BLOCK = 1 << 6, 1 << 9, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ON_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
DEVICE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE
SCRATCH: Final = ((1 << 15) - 1) & ~(_MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK | _EXECUTE)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """The kernel's Landlock version; 0 if it is missing or switched off."""
    if not kernel.LINUX:
        return 0
    try:
        return kernel.call(_CREATE, None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(abi: int, allowed: Iterable[tuple[str, int]]) -> None:
    """From now on this process may use only these paths, each with its rights (bits of Landlock). `abi` is the Landlock version of the
    kernel. The process must have set `no_new_privs` before."""
    files = _handled(abi)
    ruleset = _Ruleset(files, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    made = kernel.call(_CREATE, ruleset, size, 0)
    try:
        for path, rights in allowed:
            with contextlib.suppress(FileNotFoundError):  # a missing path needs no permission
                _allow(made, path, rights & files)
        kernel.call(_RESTRICT, made, 0)
    finally:
        os.close(made)


def _handled(abi: int) -> int:
    files = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if abi >= since:
            files |= right
    return files


def _allow(ruleset: int, path: str, rights: int) -> None:
    at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(at).st_mode):
            rights &= _ON_A_FILE
        kernel.call(_ADD_RULE, ruleset, _PATH_BENEATH, _Beneath(rights, at), 0)
    finally:
        os.close(at)
