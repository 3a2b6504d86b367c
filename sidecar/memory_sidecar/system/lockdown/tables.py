"""The system calls that a lock knows, by their numbers on each machine, and what is done about each.

Data alone: what a call's arguments decide is in `seccomp`, what a Landlock version can do in `landlock`.
"""

from collections.abc import Mapping

from ...hints import Final
from ...named_tuple import NamedTuple

__all__ = ["CONDITIONAL", "MACHINES", "NEWEST", "REFUSED", "UNKNOWN", "USED", "Machine", "Numbers"]


class Machine(NamedTuple):
    column: int
    """Where its numbers stand in the tables below."""
    audit: int
    """AUDIT_ARCH_*: what the kernel tells a filter about the calling convention in use."""


MACHINES: Final[Mapping[str, Machine]] = {
    "x86_64": Machine(0, 0xC000003E),
    "aarch64": Machine(1, 0xC00000B7),
}

# name: (x86_64, aarch64); None where that machine never had the call.
Numbers = Mapping[str, tuple[int | None, int | None]]

# Numbers above this one are newer than this file. Refusing them as unknown keeps the list below complete on
# kernels yet to come, and the C library falls back to older calls. On x86_64 it also refuses the x32
# convention, which reaches every call under a second number with bit 30 set.
NEWEST: Final = 469

# Refused whatever their arguments.
REFUSED: Final[Numbers] = {
    # Being reached.
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # A second way to almost every call, which no filter sees.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Other programs and processes. A memory file is the one kind of file that can be executed though Landlock
    # forbids executing, hence no use for it here.
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "memfd_create": (319, 279),
    # Looking into other processes, signalling and steering them.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # Channels between processes that are neither files nor sockets.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # What Landlock doesn't cover of changing files: a mode alone can lay a private key open.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "open_by_handle_at": (304, 265),
    # Another view of the machine.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # The kernel's large attack surfaces and its key store.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Administration, which matters when a container runs this as root.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}

# Refused or not by their arguments: see `conditions`.
CONDITIONAL: Final[Numbers] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "clone": (56, 220),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "prctl": (157, 167),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
}

# Its flags lie in memory, where no filter can look. Told that the call doesn't exist, the C library starts
# threads with `clone`, whose flags are an argument.
UNKNOWN: Final[Numbers] = {"clone3": (435, 435)}

# Called by the product itself, because no binding covers them.
USED: Final[Numbers] = {
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "capget": (125, 90),
    "renameat2": (316, 276),
    "capset": (126, 91),
    "getdents64": (217, 61),
}
