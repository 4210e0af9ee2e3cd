"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT = 1, 2, 4, 8, 32
BIND, REC, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_M_ARENA_MAX = -8

_NO_CAPABILITIES = ((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())

# Not PyDLL: the lock that is let go costs nothing where there is one thread.
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _text(path: str | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


def unshare(flags: int) -> None:
    """Give this process new namespaces (for pids: its next child)."""
    _checked(libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter a namespace."""
    _checked(libc.setns(descriptor, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """Mount a file system."""
    _checked(
        libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data)), f"mount {target}"
    )


def unmount(target: str, flags: int) -> None:
    """Unmount a file system."""
    _checked(libc.umount2(_text(target), flags), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root and put the old one at `old`."""
    _checked(libc.syscall(_PIVOT_ROOT[machine], _text(new), _text(old)), "pivot_root")


def prctl(option: int, value: int = 0, address: int = 0) -> None:
    """Change something of this process."""
    _checked(
        libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(address), ctypes.c_ulong(0), ctypes.c_ulong(0)),
        f"prctl {option}",
    )


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, 9)


def adopt_orphans() -> None:
    """Have processes whose parent ended become children of this one."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(value: bool) -> None:
    """Whether processes of the same uid may look into this one."""
    prctl(_PR_SET_DUMPABLE, int(value))


def no_new_privileges() -> None:
    """From here on no program started gains anything by its file's bits."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_filter(address: int) -> None:
    """Install a seccomp filter, given as the address of a `sock_fprog`."""
    prctl(_PR_SET_SECCOMP, 2, address)


def bound_capabilities() -> None:
    """Have no program that is started from here on gain a capability; those of this process stay."""
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # the last one that this kernel knows, or none may be dropped


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    _checked(libc.syscall(_CAPSET[machine], *_NO_CAPABILITIES), "capset")


def few_arenas() -> None:
    """Keep malloc from reserving 64 MB of address space for each thread."""
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 2)
