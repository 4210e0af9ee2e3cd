"""Files and folders that are there whole or not at all, whenever the process is killed or the power goes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Put `text` in the place of a file: a reader finds the old content or the new one, never a part."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def published(folder: Path) -> Iterator[Path]:
    """Gives a path at which to make a folder; what was made there is then put in the place of `folder`.

    All of it is on the disk before it has that name. An older folder of the name is moved aside and deleted after
    that, so that there is always one of the two: `restore_published` puts it back, should the process end between.
    """
    partial, old = _beside(folder, "partial"), _beside(folder, "old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        sync_tree(partial)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        partial.rename(folder)
    except BaseException:
        restore_published(folder)
        raise
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def restore_published(folder: Path) -> None:
    """Put `folder` right, whose publication or removal may have been interrupted."""
    old = _beside(folder, "old")
    if old.exists() and not folder.exists():
        old.rename(folder)
    for ending in ("partial", "old", "gone"):
        shutil.rmtree(_beside(folder, ending), ignore_errors=True)


def interrupted(parent: Path, pattern: str) -> list[Path]:
    """The folders of `parent`, by a pattern of their names, on which `restore_published` has something to do."""
    leftovers = [path for ending in ("partial", "old", "gone") for path in parent.glob(f".{pattern}.{ending}")]
    return sorted({parent / path.stem.removeprefix(".") for path in leftovers})


def moved_aside(parent: Path, pattern: str) -> list[Path]:
    """Whole folders that were moved aside for a newer one, which did not take their place."""
    return [path for path in parent.glob(f".{pattern}.old") if not (parent / path.stem.removeprefix(".")).exists()]


def remove(folder: Path) -> None:
    """Delete a folder, which is not for a moment there in part."""
    gone = _beside(folder, "gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def sync_tree(folder: Path) -> None:
    """Have the contents of a folder on the disk; one that is not there has none."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))


def sync(path: Path) -> None:
    """Have a file's content, or a folder's list of names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(f".{folder.name}.{ending}")
