"""The seccomp filter of a job: what no program needs, and what would reach out of its cage."""

from __future__ import annotations

import ctypes
import errno
import struct

from . import kernel

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Name: number on x86_64, number on aarch64; None where there is none.
_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "personality": (135, 92),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    "fanotify_init": (300, 262),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "mbind": (237, 235),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "set_mempolicy": (238, 237),
    # System V and POSIX queues and memory belong to no process, so they would outlive a job.
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
}
# As if the kernel were too old, so that libraries fall back (on `clone`, whose flags can be read here).
_UNKNOWN = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_secret": (447, 447),
    # Its memory belongs to no process and to no mount, so no limit counts it.
    "memfd_create": (319, 279),
}
_CLONE = (56, 220)
_SOCKET = (41, 198)
_SOCKETPAIR = (53, 199)
_MKNOD = (133, None)
_MKNODAT = (259, 33)
_AF_UNIX = 1
# The bit that modes of devices have, and no other mode that can be made.
_DEVICE = 0x2000
_NEW_NAMESPACES = 0x7E020000
_X32 = 0x40000000
_PORTION = 10

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16
_ARGUMENT_BYTES = 8


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class Filter:
    """The filter, put together once and installed in each job.

    Raises:
        OSError: this machine's system calls are not known here.
    """

    def __init__(self) -> None:
        if kernel.machine not in _ARCHITECTURES:
            raise OSError(errno.ENOSYS, f"there is no seccomp filter for {kernel.machine} machines")
        column = list(_ARCHITECTURES).index(kernel.machine)
        self._code = _assembled(_ARCHITECTURES[kernel.machine], column)
        self._program = _Program(len(self._code) // 8, self._code)

    def install(self) -> None:
        """From here on, for this process and all that it starts."""
        kernel.set_filter(ctypes.addressof(self._program))


def _assembled(architecture: int, column: int) -> bytes:
    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    def refuse(number: int) -> bytes:
        return step(_RETURN, _ERRNO | number)

    allow = step(_RETURN, _ALLOW)
    code = [
        step(_LOAD, _ARCHITECTURE),
        step(_JUMP_EQUAL, architecture, 1, 0),
        step(_RETURN, _KILL),
        step(_LOAD, _NUMBER),
        step(_JUMP_AT_LEAST, _X32, 0, 1),
        step(_RETURN, _KILL),
    ]
    rules: dict = {}
    for calls, number in ((_REFUSED, errno.EPERM), (_UNKNOWN, errno.ENOSYS)):
        for numbers in calls.values():
            rules[numbers[column]] = [refuse(number)]
    for numbers in (_SOCKET, _SOCKETPAIR):
        rules[numbers[column]] = [step(_LOAD, _ARGUMENT), step(_JUMP_EQUAL, _AF_UNIX, 1, 0), refuse(errno.EPERM), allow]
    # The kernel refuses devices to whoever has no capability; gVisor makes a file of them.
    for numbers, place, bits in ((_CLONE, 0, _NEW_NAMESPACES), (_MKNOD, 1, _DEVICE), (_MKNODAT, 2, _DEVICE)):
        rules[numbers[column]] = [
            step(_LOAD, _ARGUMENT + place * _ARGUMENT_BYTES),
            step(_JUMP_ANY_BIT, bits, 0, 1),
            refuse(errno.EPERM),
            allow,
        ]
    rules.pop(None, None)
    # In portions that are leapt over, for the kernel tries all numbers when the filter is installed.
    ordered = sorted(rules)
    for start in range(0, len(ordered), _PORTION):
        portion = []
        for call in ordered[start : start + _PORTION]:
            portion += [step(_JUMP_EQUAL, call, 0, len(rules[call])), *rules[call]]
        following = ordered[start + _PORTION : start + _PORTION + 1]
        if following:
            portion.append(allow)
            code.append(step(_JUMP_AT_LEAST, following[0], len(portion), 0))
        code += portion
    code.append(allow)
    return b"".join(code)
