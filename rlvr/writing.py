"""Naming the file when a disk is full."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Has an OSError say that it was `path` that could not be written: unlike opening, writing does not say where."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _REFUSALS:
            error.filename = str(path)
        raise
