"""The seccomp filter, run by a small machine here: so both processors are tested wherever the tests run."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from holdfast.hosts.sandbox.inside import filters, syscalls
from holdfast.hosts.sandbox.inside.filters import ALLOW, KILL, OtherLocks, refuse

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NO = refuse(errno.EPERM)
ABSENT = refuse(errno.ENOSYS)
APART = OtherLocks(children=False, own_pid=None, mounted=True, landlock=7)
BARE = OtherLocks(children=False, own_pid=77, mounted=False, landlock=7)
OLD = BARE._replace(landlock=1)

every_machine = pytest.mark.parametrize("machine", MACHINES)


def answer(machine: str, held: OtherLocks, name: str, *arguments: int, architecture: int | None = None, offset: int = 0) -> int:
    """What the kernel would do with this call: classic BPF, as far as the filter uses it."""
    number = syscalls.numbers(machine)[name] + offset
    values = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, architecture or MACHINES[machine], 0, *values)
    code, at, register = filters.instructions(machine, held), 0, 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        if operation == 0x20:
            (register,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            register &= value
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: register == value, 0x25: register > value, 0x35: register >= value, 0x45: bool(register & value)}[operation]
            at += yes if holds else no


@every_machine
def test_every_name_has_one_place(machine: str) -> None:
    groups = [syscalls.FILES, syscalls.WAITING, syscalls.MEMORY, syscalls.SELF, syscalls.CHANNEL, syscalls.RULED, syscalls.REFUSED]
    names = [name for group in groups for name in group]
    assert len(names) == len(set(names))
    assert set(syscalls.RULED) <= set(filters._rules(OLD))
    assert set(filters._rules(APART)) == set(syscalls.RULED)


@every_machine
def test_a_filter_fits_into_the_kernel_and_its_jumps_into_a_byte(machine: str) -> None:
    for held in (APART, BARE, OLD, APART._replace(children=True)):
        code = filters.instructions(machine, held)
        assert len(code) < 4096
        assert max(max(yes, no) for _, yes, no, _ in code) < 256


@every_machine
def test_ordinary_calls_are_allowed(machine: str) -> None:
    for name in ("read", "openat", "mmap", "futex", "sendmsg", "exit_group", "clock_gettime", "getrandom", "epoll_ctl"):
        assert answer(machine, APART, name) == ALLOW


@every_machine
def test_refused_calls_are_refused(machine: str) -> None:
    known = syscalls.numbers(machine)
    assert {answer(machine, held, name) for held in (APART, BARE) for name in syscalls.REFUSED if name in known} == {NO}


@every_machine
def test_what_nobody_named_does_not_exist(machine: str) -> None:
    assert answer(machine, APART, "read", offset=5000) == ABSENT
    assert answer(machine, APART, "landlock_create_ruleset") == ABSENT


@every_machine
def test_another_machine_is_death(machine: str) -> None:
    assert answer(machine, APART, "read", architecture=0x40000003) == KILL
    if machine == "x86_64":
        assert answer(machine, APART, "read", offset=0x40000000) == KILL


@every_machine
def test_only_connected_pairs_of_unix_sockets(machine: str) -> None:
    cloexec = 0o2000000
    assert answer(machine, APART, "socketpair", 1, 1 | cloexec) == ALLOW
    assert answer(machine, APART, "socketpair", 1, 5) == ALLOW
    assert answer(machine, APART, "socketpair", 1, 2) == NO
    assert answer(machine, APART, "socketpair", 30, 1) == NO
    assert answer(machine, APART, "sendto", 3, 0, 0, 0, 0) == ALLOW
    assert answer(machine, APART, "sendto", 3, 0, 0, 0, 0x7F00_0000_0000) == NO


@every_machine
def test_threads_but_no_children_and_no_namespaces(machine: str) -> None:
    thread, fork = 0x3D0F00, 0x1200011
    assert answer(machine, APART, "clone", thread) == ALLOW
    assert answer(machine, APART, "clone", fork) == NO
    assert answer(machine, APART, "execve") == NO
    parents = APART._replace(children=True)
    assert answer(machine, parents, "clone", fork) == ALLOW
    assert answer(machine, parents, "execve") == ALLOW
    for flag in (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, parents, "clone", fork | flag) == NO
        assert answer(machine, parents, "clone", thread | flag) == NO


@every_machine
def test_without_a_pid_namespace_a_body_can_name_only_itself(machine: str) -> None:
    for name in ("kill", "tgkill", "prlimit64", "sched_setaffinity"):
        assert (answer(machine, BARE, name, 77), answer(machine, BARE, name, 78)) == (ALLOW, NO)
        assert answer(machine, BARE, name, 2**64 - 1) == NO
        assert answer(machine, APART, name, 78) == ALLOW
    assert answer(machine, BARE, "tkill", 77) == NO


@every_machine
def test_a_descriptor_cannot_be_made_to_signal(machine: str) -> None:
    for command in (8, 10, 15):
        assert answer(machine, APART, "fcntl", 3, command) == NO
    assert answer(machine, APART, "fcntl", 3, 2) == ALLOW
    for request in (0x5412, 0x541C, 0x8901, 0x5452, 0x40086602):
        assert answer(machine, APART, "ioctl", 3, request) == refuse(errno.ENOTTY)


@every_machine
def test_nobody_survives_by_forgetting_its_parent(machine: str) -> None:
    assert answer(machine, APART, "prctl", 1) == NO
    assert answer(machine, APART, "prctl", 15) == ALLOW


@every_machine
def test_what_landlock_does_not_see_is_kept_from_the_users_files(machine: str) -> None:
    assert (answer(machine, APART, "fchmodat"), answer(machine, BARE, "fchmodat")) == (ALLOW, refuse(0))
    assert (answer(machine, APART, "fchownat", 0, 1), answer(machine, BARE, "fchownat", 0, 1)) == (ALLOW, NO)
    assert (answer(machine, BARE, "truncate"), answer(machine, OLD, "truncate")) == (ALLOW, NO)
    truncating, writing = 0o1000, 0o1001
    assert (answer(machine, OLD, "openat", 0, 0, truncating), answer(machine, OLD, "openat", 0, 0, writing)) == (NO, ALLOW)
    assert answer(machine, OLD, "openat", 0, 0, 0) == ALLOW


@every_machine
def test_nothing_about_a_file_is_changed_through_its_descriptor(machine: str) -> None:
    empty_path = 0x1000
    for held in (APART, BARE, OLD):
        assert (answer(machine, held, "fchmod", 5), answer(machine, held, "fchown", 5)) == (NO, NO)
        assert answer(machine, held, "utimensat", 5, 0, 1, 0) == NO
        assert answer(machine, held, "utimensat", 5, 1, 1, empty_path) == NO
        assert answer(machine, held, "fchmodat2", 5, 1, 0, empty_path) == NO
        assert answer(machine, held, "fchownat", 5, 1, 0, 0, empty_path) == NO
    assert answer(machine, APART, "utimensat", 5, 1, 1, 0) == ALLOW


@every_machine
def test_no_buffer_of_the_kernel_becomes_larger_and_no_thread_has_descriptors_of_its_own(machine: str) -> None:
    thread, files = 0x10000, 0x400
    for held in (APART, BARE):
        assert [answer(machine, held, "setsockopt", 4, 1, option) for option in (7, 8, 2)] == [NO, NO, ALLOW]
        assert [answer(machine, held, "fcntl", 4, command) for command in (1031, 6)] == [NO, ALLOW]
        assert [answer(machine, held, "clone", flags) for flags in (thread, thread | files)] == [NO, ALLOW]


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
SPELLED_OTHERWISE = {"newfstatat": "fstatat", "fadvise64": "fadvise64"}


@every_machine
def test_the_numbers_are_the_kernels(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"no kernel headers for {machine} here")
    told = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())}
    ours = syscalls.numbers(machine)
    known = {name: told[SPELLED_OTHERWISE.get(name, name)] for name in ours if SPELLED_OTHERWISE.get(name, name) in told} | {
        name: told[name] for name in ours if name in told
    }
    assert {name: number for name, number in known.items() if ours[name] != number} == {}
    assert set(ours) - set(known) <= {"fchmodat2"}  # younger than some headers
