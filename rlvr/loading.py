"""Ctrl-C while the command line is still being imported, which takes a second: it ends without a traceback.

To be imported before the rest of the package.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType


def is_loaded() -> None:
    """From here on, Ctrl-C is what it is in other programs."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _is_command_line() -> bool:
    """Whether this process was started as `rlvr ...` or `python -m rlvr ...`, and does not merely use the package."""
    program = sys.argv[0] if sys.argv else ""
    # So Python calls a module that is run, as long as it has not found it.
    if program == "-m":
        return __package__ in sys.orig_argv
    # Workers that a process of the command line spawns have the name of its program, too.
    return Path(program).name == __package__ and program in sys.orig_argv


# Not where it is ignored, as in the background of a script.
if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
