"""The sandboxes that verdicts on code come from: opened on first use, kept, and closed at the end of the process."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..sandbox import Box, Limits

_boxes: dict[tuple[Any, ...], Box] = {}
_opening = threading.Lock()


def shared_box(backend: str, image: str | None, runtime: str | None, limits: Limits, allow_unsafe: bool) -> Box:
    """The sandbox of this process with these settings.

    Raises:
        UserError: there is no such backend, or it cannot be used here.
        SandboxFault: it cannot be started.
    """
    from ..sandbox import open as open_box

    # A process that was forked has none of its parent's, whose streams it must not share.
    key = (os.getpid(), backend, image, runtime, limits, allow_unsafe)
    with _opening:
        if key not in _boxes:
            options: dict[str, Any] = {}
            if image is not None and backend != "namespace":
                options["image"] = image
            if runtime is not None:
                # No isolation but the one that was asked for: where it cannot be had, the sandbox says so.
                options["runtime"] = runtime
            if allow_unsafe and backend != "docker":
                options["allow_unsafe"] = True
            _boxes[key] = open_box(backend, limits=limits, **options)
        return _boxes[key]


@atexit.register
def _close_all() -> None:
    for (process, *_), box in list(_boxes.items()):
        if process == os.getpid():
            box.close()
    _boxes.clear()
