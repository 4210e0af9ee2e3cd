"""What Docker takes as the name of an image (its "reference"), so that a mistake is said before the daemon is asked."""

from __future__ import annotations

import re

from .errors import UserError

_LONGEST = 255
_WORD = r"[a-zA-Z0-9][a-zA-Z0-9-]*+(?<!-)"
_HOST = rf"(?:{_WORD}(?:\.{_WORD})*+|\[[0-9a-fA-F:]++\])"
_PART = r"[a-z0-9]++(?:(?:\.|__?|-++)[a-z0-9]++)*+"
_TAGGED = re.compile(rf"((?:{_HOST}(?::[0-9]++)?/)?{_PART}(?:/{_PART})*+)(:\w[\w.-]{{0,127}})?", re.ASCII)
_DIGEST = re.compile(r"@[a-zA-Z][a-zA-Z0-9]*+(?:[-_+.][a-zA-Z][a-zA-Z0-9]*+)*+:[0-9a-fA-F]{32,}+")
_ID = re.compile(r"[0-9a-f]{64}")


def checked_image(image: str, what: str) -> str:
    """The name, if images can be asked for by it: `NAME`, `NAME:TAG`, either with `@DIGEST`, or an id.

    Raises:
        UserError: it is none; `what` says whose it is.
    """
    match = _TAGGED.match(image)
    if match and len(match[1]) <= _LONGEST and (match.end() == len(image) or _DIGEST.fullmatch(image, match.end())):
        return image
    raise UserError(f"{what} is {image!r:.100}, which is no name of a Docker image; give one such as python:3.12-slim.")


def checked_tag(tag: str) -> tuple[str, str]:
    """The name and the tag to give to an image, from `NAME` or `NAME:TAG`.

    Raises:
        UserError: it is neither.
    """
    match = _TAGGED.fullmatch(tag)
    if match and len(match[1]) <= _LONGEST and not _ID.fullmatch(match[1]):
        return match[1], (match[2] or ":latest")[1:]
    raise UserError(
        f"The image cannot be called {tag!r:.100}; give it a name in lower case that Docker takes, NAME or NAME:TAG, "
        "such as rlvr-sandbox:host."
    )
