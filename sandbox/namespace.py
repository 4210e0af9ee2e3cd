"""The `namespace` backend: zygotes in Linux namespaces of this machine, over a read-only view of its Python."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import random
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import bubblewrap
from .errors import UserError
from .faults import SandboxFault
from .local import LocalProcess
from .protocol import PYTHON_FLAGS
from .slot import Slot

PACKAGES = ("numpy", "pytest")
"""Packages that programs and tests can import where they are installed here."""

PACKAGES_AT = "/opt/packages"

_UIDS = 65536
_UID_RANGES = range(0x10000000, 0x70000000, _UIDS)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIBRARIES = re.compile(r"/(?:libc[.-]|libm[.-]|ld-)[^/]*$")
_log = logging.getLogger("rlvr.sandbox")


class NamespaceBackend:
    """Starts slots in namespaces.

    Args:
        allow_unsafe: where the kernel forbids namespaces, run programs as plain subprocesses with limits of
            resources alone: they then see the files, the network and the processes of this machine.
        packages: names of installed distributions that programs can import, with what these require.
        readable: further files and folders of this machine that programs can read and run.
        preload: modules that the zygote imports before the first job.
    """

    name = "namespace"

    def __init__(
        self,
        *,
        allow_unsafe: bool = False,
        packages: Sequence[str] = PACKAGES,
        readable: Sequence[str] = (),
        preload: Sequence[str] = (),
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise UserError(f"The sandbox backend 'namespace' needs Linux, but this is {sys.platform}; use 'docker'.")
        self.python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        self._readable = [str(Path(path).resolve()) for path in readable]
        self._packages = _package_paths(packages)
        self._preload = list(preload)
        self._allow_unsafe = allow_unsafe
        self._unsafe = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._bubblewrap = bubblewrap.program()

    def start(self) -> Slot:
        """A new slot.

        Raises:
            UserError: the kernel forbids namespaces, and unsafe runs were not allowed.
            SandboxFault: the zygote did not start.
        """
        if self._unsafe:
            return self._start_unsafe()
        if self._bubblewrap is not None:
            try:
                return self._start_in_bubblewrap(self._bubblewrap)
            except (SandboxFault, OSError) as error:
                _log.debug("bubblewrap does not do here, so the set-up is our own: %s", error)
                self._bubblewrap = None
        try:
            return Slot(LocalProcess(self.python), self.settings())
        except SandboxFault as fault:
            if "PermissionError" not in str(fault) and "OSError" not in str(fault):
                raise
            if not self._allow_unsafe:
                raise UserError(
                    f"The sandbox backend 'namespace' cannot be used here, because the kernel forbids it ({fault}); "
                    "use 'docker', or set allow_unsafe (sandbox.allow_unsafe: true) to run programs unprotected."
                ) from fault
            _log.warning(
                "UNSAFE: namespaces are forbidden here (%s), so programs run as plain subprocesses: they can read "
                "the files and use the network of this machine.",
                fault,
            )
            self._unsafe = True
            return self._start_unsafe()

    def settings(self) -> dict[str, Any]:
        """What the zygote is told at its start, where the set-up is our own."""
        return {
            "mode": "namespaces",
            "own_uid": os.geteuid() == 0,
            "uid_base": 1000,
            "scratch": "/tmp",
            "packages": PACKAGES_AT if self._packages else None,
            "preload": self._preload,
            "enclose": {**self._view(), "uid_base": _unused_uids()},
        }

    def _start_in_bubblewrap(self, program: str) -> Slot:
        process = bubblewrap.start(program, self._view(), [self.python, *PYTHON_FLAGS], _unused_uids())
        return Slot(process, {**self.settings(), "enclose": None, "leave_root": os.geteuid() == 0})

    def _start_unsafe(self) -> Slot:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rlvr-sandbox-")
        scratch = tempfile.mkdtemp(dir=self._folder.name)
        return Slot(LocalProcess(self.python), {"mode": "plain", "scratch": scratch, "spare_processes": 4096})

    def close(self) -> None:
        """Remove what slots shared."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _view(self) -> dict[str, Any]:
        """Which files of this machine are shown, and where."""
        links = [("/dev/fd", "/proc/self/fd"), ("/dev/shm", "/tmp/shm")]
        links += [(f"/dev/{name}", f"/proc/self/fd/{n}") for n, name in enumerate(("stdin", "stdout", "stderr"))]
        shown = {os.path.realpath(sys.base_prefix), *_library_folders(), *self._readable}
        for path in ("/bin", "/lib", "/lib64"):
            if Path(path).is_symlink():
                links.append((path, str(Path(path).readlink())))
        binds = [(path, path) for path in sorted(shown) if not _inside(path, shown)]
        masks = [path for path in _site_folders() if _inside(path, shown) and Path(path).is_dir()]
        binds += [(str(path), f"{PACKAGES_AT}/{path.name}") for path in self._packages]
        return {
            "binds": binds,
            "links": links,
            "masks": masks,
            "devices": [device for device in _DEVICES if Path(device).exists()],
        }


def _unused_uids() -> int | None:
    """The first of a range of uids that only root may map, and that nobody on this machine has."""
    return random.Random(os.urandom(8)).choice(_UID_RANGES) if os.geteuid() == 0 else None


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path != folder and path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _library_folders() -> set[str]:
    """The folders of the C library, the loader, and the like, as they are mapped into this process."""
    folders = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")
        if path[1] and _LIBRARIES.search("/" + path[2]):
            folders.add(str(Path("/" + path[2]).resolve().parent))
    # Where executables look for the loader.
    if Path("/lib64").is_dir():
        folders.add(str(Path("/lib64").resolve()))
    return {folder for folder in folders if folder not in ("/", "")}


def _site_folders() -> list[str]:
    """Where installed packages lie, which programs have no business to read."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = os.path.realpath(sys.base_prefix)
    return [
        f"{base}/lib/{version}/site-packages",
        f"{base}/{sysconfig.get_config_var('platlibdir') or 'lib'}/{version}/dist-packages",
        "/usr/lib/python3/dist-packages",
        "/usr/local",
    ][: 3 if base.startswith("/usr/local") else 4]


def _package_paths(names: Sequence[str]) -> list[Path]:
    """The files and folders that importing these distributions, and what they require, needs."""
    paths: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        for requirement in distribution.requires or ():
            if "extra" not in requirement.partition(";")[2]:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not top.endswith((".dist-info", ".pth", ".egg-info")):
                paths[top] = Path(str(distribution.locate_file(top))).resolve()
    return [path for _, path in sorted(paths.items()) if path.exists()]
