"""The set-up of the `namespace` backend: from a process of the host to the first process of a closed world."""

from __future__ import annotations

import os
import signal

from . import kernel

_STAGES = ("/sys", "/mnt")
_KEPT = {8: kernel.NOEXEC, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""Flags of a mount that stay as they are, as `statvfs` says them and as `mount` takes them."""

_PROC = kernel.NOSUID | kernel.NODEV | kernel.NOEXEC
_ALL = kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWCGROUP


def enter(plan: dict) -> None:
    """Go in; returns in the first process of new namespaces, whose root shows only what the plan says.

    Args:
        plan: `binds`: pairs of a path of the host and where it is shown, read-only. `links`: pairs of a symbolic link
            and what it says. `masks`: folders shown empty. `devices`: device files to show. `uid_base`: the first of
            65,536 uids of the host that uids inside stand for, or None for an ordinary user, who has but one.

    Raises:
        OSError: the kernel forbids it.
    """
    stage = next(path for path in _STAGES if os.path.isdir(path))
    if plan["uid_base"] is None:
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
        _build(plan, stage)
    else:
        kernel.unshare(kernel.NEWNS)
        _build(plan, stage)
        _take_uids(plan["uid_base"], 65536)
    _be_first_in(_ALL)
    kernel.mount("proc", f"{stage}/proc", "proc", _PROC)
    # A copy of the tree: the original was mounted by a more privileged user and may not become the root.
    kernel.mount(stage, stage, None, kernel.BIND | kernel.REC)
    os.chdir(stage)
    kernel.pivot_root(".", ".")
    kernel.unmount(".", kernel.DETACH)
    os.chdir("/")
    kernel.libc.sethostname(b"sandbox", 7)


def leave_root() -> None:
    """In a world that bubblewrap built for root: be the first process of one without root, whose uids are the others.

    There, uid 0 is the host's root, without power over the host's things but the owner of some. Here, nobody is.
    """
    os.closerange(3, 1 << 20)
    # Bubblewrap covers some files of its own; below a /proc that is not whole nobody may mount another.
    kernel.mount("proc", "/proc", "proc", _PROC)
    _take_uids(1, 65535)
    # As was asked of bubblewrap, and taken back by the change of user.
    kernel.die_with_parent()
    _be_first_in(kernel.NEWPID | kernel.NEWNS)
    kernel.mount("proc", "/proc", "proc", _PROC)


def _be_first_in(namespaces: int) -> None:
    """Go on as the first process of new namespaces."""
    kernel.unshare(namespaces)
    process = os.fork()
    if process:
        _stand_by(process)
    kernel.die_with_parent()


def _take_uids(first: int, count: int) -> None:
    """Be root in a new user namespace, whose uids from 0 on stand for this one's from `first` on."""
    helper, ask = _mapper(first, count)
    kernel.unshare(kernel.NEWUSER)
    os.write(ask, b"+")
    if os.waitpid(helper, 0)[1] != 0:
        raise OSError("uids of the new user namespace cannot be mapped")
    os.close(ask)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _mapper(first: int, count: int) -> tuple[int, int]:
    """A process that will map the uids of this one, from outside its new user namespace, when asked."""
    asked, ask = os.pipe()
    target = os.getpid()
    helper = os.fork()
    if helper:
        os.close(asked)
        return helper, ask
    code = 1
    try:
        os.close(ask)
        if os.read(asked, 1):
            for kind in ("uid_map", "gid_map"):
                _write(f"/proc/{target}/{kind}", f"0 {first} {count}")
            code = 0
    finally:
        os._exit(code)


def _build(plan: dict, stage: str) -> None:
    """Put the new root together at `stage`, in a mount namespace of our own."""
    kernel.mount(None, "/", None, kernel.REC | kernel.PRIVATE)
    kernel.mount("tmpfs", stage, "tmpfs", kernel.NOSUID | kernel.NODEV, "size=1m,mode=755")
    for folder in ("proc", "tmp", "dev", "etc"):
        os.mkdir(f"{stage}/{folder}")
    for source, target in plan["binds"]:
        _show(source, stage + target, kernel.NODEV)
    for folder in plan["masks"]:
        kernel.mount("tmpfs", stage + folder, "tmpfs", kernel.NOSUID | kernel.NODEV | kernel.RDONLY, "size=4k")
    for device in plan["devices"]:
        _show(device, stage + device, 0)
    for path, content in plan["links"]:
        os.makedirs(os.path.dirname(stage + path), exist_ok=True)
        if not os.path.lexists(stage + path):
            os.symlink(content, stage + path)
    kernel.mount(None, stage, None, kernel.REMOUNT | kernel.BIND | kernel.RDONLY | kernel.NOSUID | kernel.NODEV)


def _show(source: str, target: str, flags: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    try:
        kernel.mount(source, target, None, kernel.BIND)
    except OSError:
        # Another user's mounts lie below it and cannot be left out.
        kernel.mount(source, target, None, kernel.BIND | kernel.REC)
    kept = os.statvfs(target).f_flag
    for said, wanted in _KEPT.items():
        if kept & said:
            flags |= wanted
    kernel.mount(None, target, None, kernel.REMOUNT | kernel.BIND | kernel.RDONLY | kernel.NOSUID | flags)


def _stand_by(process: int) -> None:
    """Wait outside for the first process; if this one is killed, so is that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(0, 1 << 20)
    _, status = os.waitpid(process, 0)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)


def _write(path: str, content: str) -> None:
    with open(path, "w") as file:
        file.write(content)
