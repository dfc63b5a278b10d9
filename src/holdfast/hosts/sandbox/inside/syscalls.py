"""The system calls that the filter names, with their numbers on x86_64 and aarch64 (None: not on that machine).

They are sorted into calls that a jailed program may make, may make under a rule (`filters.py`), and may never make. A call in no list
fails with ENOSYS, as on an older kernel, so that libraries use another call. A test compares the numbers with the kernel's headers.
"""

from __future__ import annotations

from typing import Final

FILES: Final = (
    "read", "write", "open", "close", "stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "lseek", "pread64",
    "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "access", "faccessat", "faccessat2", "openat", "creat",
    "dup", "dup2", "dup3", "sendfile", "flock", "fsync", "fdatasync", "ftruncate", "fallocate", "fadvise64", "readahead",
    "sync_file_range", "copy_file_range", "splice", "tee", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "rename", "renameat",
    "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat",
    "umask", "mknod", "mknodat", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "close_range",
)  # fmt: skip
"""Calls on files. The mounts and Landlock restrict what they can do."""
WAITING: Final = (
    "poll", "ppoll", "select", "pselect6", "pipe", "pipe2", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "eventfd", "eventfd2", "signalfd", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "futex",
    "futex_waitv", "pause", "nanosleep", "clock_nanosleep", "alarm", "getitimer", "setitimer", "timer_create", "timer_settime",
    "timer_gettime", "timer_getoverrun", "timer_delete", "restart_syscall",
)  # fmt: skip
"""Calls for waiting, for time, and for the synchronisation of threads."""
MEMORY: Final = (
    "mmap", "mprotect", "munmap", "brk", "mremap", "madvise", "mincore", "msync", "membarrier",
)  # fmt: skip
"""Calls on memory. Limits restrict how much the program can have."""
SELF: Final = (
    "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "getpgrp",
    "getpgid", "getsid", "setsid", "setpgid", "exit", "exit_group", "wait4", "waitid", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigpending", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "rseq", "set_robust_list", "set_tid_address", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_getattr", "sched_get_priority_max", "sched_get_priority_min",
    "sched_rr_get_interval", "getpriority", "arch_prctl", "getrlimit", "setrlimit", "getrusage", "times", "sysinfo", "uname", "getcpu",
    "capget", "clock_gettime", "clock_getres", "gettimeofday", "time", "getrandom",
)  # fmt: skip
"""Calls on the state of the program itself."""
CHANNEL: Final = (
    "sendmsg", "recvmsg", "recvfrom", "sendmmsg", "recvmmsg", "shutdown", "getsockopt", "getsockname", "getpeername",
)  # fmt: skip
"""Calls for communication over an open socket."""
RULED: Final = (
    "socketpair", "sendto", "setsockopt", "clone", "fork", "vfork", "execve", "execveat", "kill", "tkill", "tgkill", "rt_sigqueueinfo",
    "rt_tgsigqueueinfo", "prlimit64", "prctl", "ioctl", "fcntl", "sched_setaffinity", "sched_setscheduler", "sched_setparam",
    "sched_setattr", "setpriority", "truncate", "openat2", "chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "utimensat",
    "futimesat", "chown", "lchown", "fchown", "fchownat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
    "fremovexattr",
)  # fmt: skip
"""The filter has rules for these calls (`filters.py`). Most of them are allowed for some arguments, or only together with certain other
locks; a few are always refused."""
REFUSED: Final = (
    "socket", "connect", "bind", "listen", "accept", "accept4", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
    "process_mrelease", "kcmp", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "keyctl", "add_key", "request_key", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "mount_setattr",
    "fsopen", "fsconfig", "fsmount", "fspick", "setns", "unshare", "pidfd_open", "pidfd_getfd", "pidfd_send_signal",
    "open_by_handle_at", "name_to_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "swapon", "swapoff", "syslog", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "sethostname", "setdomainname", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
    "setgroups", "capset", "personality", "seccomp", "memfd_create", "memfd_secret", "shmget", "shmat", "shmctl", "shmdt", "msgget",
    "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl", "semtimedop", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive",
    "mq_notify", "mq_getsetattr", "inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark", "vhangup",
    "modify_ldt", "ioperm", "iopl", "lookup_dcookie", "migrate_pages", "move_pages", "ioprio_set", "io_setup", "vmsplice",
)  # fmt: skip
"""Calls that are refused with EPERM, whatever their arguments are."""

_NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "accept": (43, 202), "accept4": (288, 242), "access": (21, None), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171),
    "alarm": (37, None), "arch_prctl": (158, None), "bind": (49, 200), "bpf": (321, 280), "brk": (12, 214), "capget": (125, 90),
    "capset": (126, 91), "chdir": (80, 49), "chmod": (90, None), "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_getres": (229, 114), "clock_gettime": (228, 113), "clock_nanosleep": (230, 115), "clock_settime": (227, 112),
    "clone": (56, 220), "close": (3, 57), "close_range": (436, 436), "connect": (42, 203), "copy_file_range": (326, 285),
    "creat": (85, None), "delete_module": (176, 106), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "epoll_create": (213, None),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_pwait": (281, 22), "epoll_pwait2": (441, 441), "epoll_wait": (232, None),
    "eventfd": (284, None), "eventfd2": (290, 19), "execve": (59, 221), "execveat": (322, 281), "exit": (60, 93), "exit_group": (231, 94),
    "faccessat": (269, 48), "faccessat2": (439, 439), "fadvise64": (221, 223), "fallocate": (285, 47), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263), "fchdir": (81, 50), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "fchown": (93, 55), "fchownat": (260, 54), "fcntl": (72, 25), "fdatasync": (75, 83), "fgetxattr": (193, 10),
    "finit_module": (313, 273), "flistxattr": (196, 13), "flock": (73, 32), "fork": (57, None), "fremovexattr": (199, 16),
    "fsconfig": (431, 431), "fsetxattr": (190, 7), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "fstat": (5, 80),
    "fstatfs": (138, 44), "fsync": (74, 82), "ftruncate": (77, 46), "futex": (202, 98), "futex_waitv": (449, 449),
    "futimesat": (261, None), "getcpu": (309, 168), "getcwd": (79, 17), "getdents": (78, None), "getdents64": (217, 61),
    "getegid": (108, 177), "geteuid": (107, 175), "getgid": (104, 176), "getgroups": (115, 158), "getitimer": (36, 102),
    "getpeername": (52, 205), "getpgid": (121, 155), "getpgrp": (111, None), "getpid": (39, 172), "getppid": (110, 173),
    "getpriority": (140, 141), "getrandom": (318, 278), "getresgid": (120, 150), "getresuid": (118, 148), "getrlimit": (97, 163),
    "getrusage": (98, 165), "getsid": (124, 156), "getsockname": (51, 204), "getsockopt": (55, 209), "gettid": (186, 178),
    "gettimeofday": (96, 169), "getuid": (102, 174), "getxattr": (191, 8), "init_module": (175, 105), "inotify_add_watch": (254, 27),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "io_setup": (206, 0), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "kill": (62, 129), "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446),
    "lchown": (94, None), "lgetxattr": (192, 9), "link": (86, None), "linkat": (265, 37), "listen": (50, 201), "listxattr": (194, 11),
    "llistxattr": (195, 12), "lookup_dcookie": (212, 18), "lremovexattr": (198, 15), "lseek": (8, 62), "lsetxattr": (189, 6),
    "lstat": (6, None), "madvise": (28, 233), "membarrier": (324, 283), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "migrate_pages": (256, 238), "mincore": (27, 232), "mkdir": (83, None), "mkdirat": (258, 34), "mknod": (133, None),
    "mknodat": (259, 33), "mmap": (9, 222), "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mprotect": (10, 226), "mq_getsetattr": (245, 185), "mq_notify": (244, 184),
    "mq_open": (240, 180), "mq_timedreceive": (243, 183), "mq_timedsend": (242, 182), "mq_unlink": (241, 181), "mremap": (25, 216),
    "msgctl": (71, 187), "msgget": (68, 186), "msgrcv": (70, 188), "msgsnd": (69, 189), "msync": (26, 227), "munmap": (11, 215),
    "name_to_handle_at": (303, 264), "nanosleep": (35, 101), "newfstatat": (262, 79), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "openat": (257, 56), "openat2": (437, 437), "pause": (34, None), "perf_event_open": (298, 241),
    "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pipe": (22, None),
    "pipe2": (293, 59), "pivot_root": (155, 41), "poll": (7, None), "ppoll": (271, 73), "prctl": (157, 167), "pread64": (17, 67),
    "preadv": (295, 69), "preadv2": (327, 286), "prlimit64": (302, 261), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pselect6": (270, 72), "ptrace": (101, 117), "pwrite64": (18, 68),
    "pwritev": (296, 70), "pwritev2": (328, 287), "quotactl": (179, 60), "quotactl_fd": (443, 443), "read": (0, 63),
    "readahead": (187, 213), "readlink": (89, None), "readlinkat": (267, 78), "readv": (19, 65), "reboot": (169, 142),
    "recvfrom": (45, 207), "recvmmsg": (299, 243), "recvmsg": (47, 212), "removexattr": (197, 14), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "request_key": (249, 218), "restart_syscall": (219, 128), "rmdir": (84, None),
    "rseq": (334, 293), "rt_sigaction": (13, 134), "rt_sigpending": (127, 136), "rt_sigprocmask": (14, 135),
    "rt_sigqueueinfo": (129, 138), "rt_sigreturn": (15, 139), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "rt_tgsigqueueinfo": (297, 240), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "sched_getaffinity": (204, 123), "sched_getattr": (315, 275), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_rr_get_interval": (148, 127), "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "sched_yield": (24, 124), "seccomp": (317, 277), "select": (23, None), "semctl": (66, 191),
    "semget": (64, 190), "semop": (65, 193), "semtimedop": (220, 192), "sendfile": (40, 71), "sendmmsg": (307, 269), "sendmsg": (46, 211),
    "sendto": (44, 206), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "setdomainname": (171, 162), "setfsgid": (123, 152),
    "setfsuid": (122, 151), "setgid": (106, 144), "setgroups": (116, 159), "sethostname": (170, 161), "setitimer": (38, 103),
    "setns": (308, 268), "setpgid": (109, 154), "setpriority": (141, 140), "setregid": (114, 143), "setresgid": (119, 149),
    "setresuid": (117, 147), "setreuid": (113, 145), "setrlimit": (160, 164), "setsid": (112, 157), "setsockopt": (54, 208),
    "settimeofday": (164, 170), "setuid": (105, 146), "setxattr": (188, 5), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "shmget": (29, 194), "shutdown": (48, 210), "sigaltstack": (131, 132), "signalfd": (282, None), "signalfd4": (289, 74),
    "socket": (41, 198), "socketpair": (53, 199), "splice": (275, 76), "stat": (4, None), "statfs": (137, 43), "statx": (332, 291),
    "swapoff": (168, 225), "swapon": (167, 224), "symlink": (88, None), "symlinkat": (266, 36), "sync_file_range": (277, 84),
    "sysinfo": (99, 179), "syslog": (103, 116), "tee": (276, 77), "tgkill": (234, 131), "time": (201, None), "timer_create": (222, 107),
    "timer_delete": (226, 111), "timer_getoverrun": (225, 109), "timer_gettime": (224, 108), "timer_settime": (223, 110),
    "timerfd_create": (283, 85), "timerfd_gettime": (287, 87), "timerfd_settime": (286, 86), "times": (100, 153), "tkill": (200, 130),
    "truncate": (76, 45), "umask": (95, 166), "umount2": (166, 39), "uname": (63, 160), "unlink": (87, None), "unlinkat": (263, 35),
    "unshare": (272, 97), "userfaultfd": (323, 282), "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None),
    "vfork": (58, None), "vhangup": (153, 58), "vmsplice": (278, 75), "wait4": (61, 260), "waitid": (247, 95), "write": (1, 64),
    "writev": (20, 66),
}  # fmt: skip

_MACHINES: Final = {"x86_64": 0, "aarch64": 1}


def numbers(machine: str) -> dict[str, int]:
    """The numbers of the system calls on one machine, by name, without those that it does not have. Raises KeyError for an unknown
    machine."""
    column = _MACHINES[machine]
    return {name: number for name, pair in _NUMBERS.items() if (number := pair[column]) is not None}
