"""Checksums of the files of a folder, kept in it, by which a byte that changed on the disk since is noticed."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

_NAME = "checksums.json"
_PIECE = 2**20  # bytes


def write_checksums(folder: Path) -> None:
    """Note the checksum of every file under a folder in a file beside them."""
    # CRC-32 is for accidents, which is all that it is asked to find: half the time of SHA-256 where the processor has
    # instructions for that one, and a fifth elsewhere.
    noted = folder / _NAME
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != noted)
    sums = {path.relative_to(folder).as_posix(): _crc32(path) for path in files}
    noted.write_text(json.dumps({"crc32": sums}, indent=1) + "\n", encoding="utf-8")


def changed_file(folder: Path) -> str | None:
    """What is wrong with the first file that is not as it was when `write_checksums` noted it; reads all of them.

    None where all are, and of a folder without checksums, as older versions wrote them. Files that came later do not
    count.
    """
    try:
        noted = json.loads((folder / _NAME).read_text(encoding="utf-8"))["crc32"].items()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{_NAME} cannot be read: {error}"
    for name, checksum in noted:
        try:
            if _crc32(folder / name) != checksum:
                return f"{name} has changed since it was written"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _crc32(path: Path) -> str:
    checksum, piece = 0, memoryview(bytearray(_PIECE))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(piece):
            checksum = zlib.crc32(piece[:read], checksum)
    return f"{checksum:08x}"
