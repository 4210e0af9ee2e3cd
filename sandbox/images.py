"""Which image the containers are made from, and how to make one from the running Python where no registry is near."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .errors import UserError
from .image_names import checked_image, checked_tag
from .namespace import PACKAGES, PACKAGES_AT
from .namespace import _package_paths as package_paths

DEFAULT_IMAGE = "python:3.12-slim"
BUILT_IMAGE = "rlvr-sandbox:host"
"""The tag that `rlvr sandbox build-image` gives by default."""
IMAGE_VARIABLE = "RLVR_SANDBOX_IMAGE"
"""The environment variable that names the image where the caller does not."""

_UNUSED = {
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "pydoc_data",
}
_UNUSED_IN_PACKAGES = {"tests", "f2py", "distutils"}
_ASK_PYTHON = (
    "import os, sys, sysconfig; print(os.path.realpath(sys.executable)); print(sysconfig.get_path('stdlib')); "
    "print(sysconfig.get_path('platstdlib'))"
)
_FIXED_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsandbox:x:65534:65534:sandbox:/tmp:/bin/sh\n",
    "/etc/group": "root:x:0:\nsandbox:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# A tmpfs takes the mode of the directory that it covers, whatever mode is asked for.
_OPEN_DIRECTORIES = ("/tmp", "/var/tmp")
_DIRECTORIES = ("/proc", "/sys", "/dev", "/run", "/usr/bin", "/bin")


def chosen_image(image: str | None = None) -> str:
    """The image to use: `image`, else what RLVR_SANDBOX_IMAGE says, else `DEFAULT_IMAGE`.

    Raises:
        UserError: it is no name of an image.
    """
    if image is not None:
        return checked_image(image, "The image of the sandbox")
    return checked_image(os.environ.get(IMAGE_VARIABLE) or DEFAULT_IMAGE, IMAGE_VARIABLE)


def build_image(client: Any, tag: str = BUILT_IMAGE, *, python: str | None = None, extra: Sequence[Path] = ()) -> str:
    """Make an image from a Python on this machine; nothing is downloaded.

    It holds the interpreter, its standard library, the shared libraries that these need, and, of the running Python,
    `namespace.PACKAGES`: no shell, and no file with the setuid bit.

    Args:
        client: a `docker.APIClient`.
        tag: what to call it, `NAME` or `NAME:TAG`.
        python: the interpreter; by default the running one.
        extra: programs and directories to put in under their own paths, such as a compiler.

    Returns:
        The id of the image.

    Raises:
        UserError: Docker does not take the tag, or the interpreter or an extra path is not there.
    """
    # Before anything is made: an image whose name is refused would stay without one.
    repository, name = checked_tag(tag)
    with tempfile.TemporaryFile() as file:
        write_root(file, python, extra)
        file.seek(0)
        # As an iterator, for the SDK announces pieces, and a file would be sent whole.
        pieces = iter(lambda: file.read(1 << 20), b"")
        client.import_image_from_stream(pieces, repository=repository, tag=name, changes=['CMD ["python3"]'])
    return str(client.inspect_image(tag)["Id"])


def write_root(file: IO[bytes], python: str | None = None, extra: Sequence[Path] = ()) -> None:
    """Write the root file system of such an image as a tar archive.

    Raises:
        UserError: the interpreter or an extra path is not there.
    """
    executable, *libraries = _ask(python or sys.executable)
    own = {Path(executable), *_standard_library(map(Path, libraries))}
    for path in extra:
        if not path.exists():
            raise UserError(f"There is no {str(path)!r} to put into the image; name a program or a directory.")
        own |= set(_files_below(path)) if path.is_dir() else {path}
    packages = {} if python else _packages()
    linked = _linked_libraries([*own, *packages.values()]) - set(packages.values())
    placed = {Path(os.path.normpath(path.absolute())): path for path in [*own, *linked]} | packages
    with _Root(file) as root:
        for name in _OPEN_DIRECTORIES:
            root.directory(name, 0o1777)
        for name in _DIRECTORIES:
            root.directory(name)
        for name, text in _FIXED_FILES.items():
            root.text(name, text)
        for target, source in sorted(placed.items()):
            root.copy(str(target), source)
        for name in ("python3", "python"):
            if Path("/usr/bin") / name not in placed:
                root.link(f"/usr/bin/{name}", executable)


def _packages() -> dict[Path, Path]:
    """The files of the packages that programs can import, by where they are in the image."""
    found: dict[Path, Path] = {}
    for top in package_paths(PACKAGES):
        for path in [top] if top.is_file() else _files_below(top, _UNUSED_IN_PACKAGES):
            found[Path(PACKAGES_AT) / top.name / path.relative_to(top)] = path
    return found


def _ask(python: str) -> list[str]:
    try:
        answer = subprocess.run([python, "-I", "-c", _ASK_PYTHON], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{python!r} does not run as a Python interpreter ({error}); name another one.") from None
    return answer.stdout.splitlines()


def _standard_library(directories: Iterable[Path]) -> Iterator[Path]:
    """Its files, compiled ones too: a container would compile them again at every start, for its root is read-only."""
    for directory in directories:
        for path in _files_below(directory, _UNUSED):
            # The folder config-... is for embedding Python, and has its library a second time.
            kept = path.suffix not in (".a", ".exe") and ".opt-" not in path.name
            if kept and not path.parent.name.startswith("config-"):
                yield path


def _files_below(directory: Path, skipped: Collection[str] = ()) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name not in skipped]
        for name in names:
            path = Path(parent) / name
            if path.is_file():
                yield path


def _linked_libraries(files: Iterable[Path]) -> set[Path]:
    """The shared libraries that the programs and libraries among `files` are linked to, under the loader's names."""
    binaries = [str(path) for path in files if _is_elf(path)]
    found: set[str] = set()
    for start in range(0, len(binaries), 100):
        # A file that is linked to nothing makes ldd fail, which says nothing about the others.
        answer = subprocess.run(["ldd", *binaries[start : start + 100]], capture_output=True, text=True)
        found.update(re.findall(r"=>\s+(/\S+)", answer.stdout))
        found.update(re.findall(r"^\s+(/\S+) \(", answer.stdout, re.MULTILINE))
    return {Path(os.path.normpath(path)) for path in found}


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


class _Root:
    """A tar archive that makes the directories above what is put into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.archive = tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.made: set[str] = set()

    def __enter__(self) -> _Root:
        return self

    def __exit__(self, *exception: object) -> None:
        self.archive.close()

    def directory(self, path: str, mode: int = 0o755) -> None:
        for parent in reversed(PurePosixPath(path).parents):
            self._make(str(parent), 0o755)
        self._make(path, mode)

    def _make(self, path: str, mode: int) -> None:
        if path not in self.made and path != "/":
            self.made.add(path)
            self._add(path, tarfile.DIRTYPE, mode)

    def text(self, path: str, text: str) -> None:
        self.directory(str(PurePosixPath(path).parent))
        content = text.encode()
        self._add(path, tarfile.REGTYPE, 0o644, content=io.BytesIO(content), size=len(content))

    def link(self, path: str, target: str) -> None:
        self.directory(str(PurePosixPath(path).parent))
        self._add(path, tarfile.SYMTYPE, 0o777, target=target)

    def copy(self, path: str, source: Path) -> None:
        """Put a file of this machine in; its time is kept, by which compiled modules are valid."""
        self.directory(str(PurePosixPath(path).parent))
        state = source.stat()
        with source.open("rb") as content:
            mode = (state.st_mode & 0o755) | 0o444
            self._add(path, tarfile.REGTYPE, mode, content=content, size=state.st_size, time=int(state.st_mtime))

    def _add(
        self,
        path: str,
        kind: bytes,
        mode: int,
        *,
        content: IO[bytes] | None = None,
        size: int = 0,
        time: int = 0,
        target: str = "",
    ) -> None:
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.mode, entry.size, entry.mtime, entry.linkname = kind, mode, size, time, target
        self.archive.addfile(entry, content)
