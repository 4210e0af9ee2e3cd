"""What is installed only on request: a missing package is named together with the extra that brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .verifiers import UserError


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Imports inside may lack a package of the extra `name`.

    Raises:
        UserError: if one is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rlvr":
            raise
        raise UserError(
            f"This needs the package {error.name!r}; install it with: pip install 'rlvr[{name}]'."
        ) from None
