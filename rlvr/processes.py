"""The processes that a launcher (torchrun, accelerate) started, of which one speaks. No torch in here."""

from __future__ import annotations

import os
import sys
import time

_LONGEST_WAIT = 20.0  # seconds


def is_main_process() -> bool:
    """Whether this is the process that shows what happens, as it is where there is no other."""
    return _number("RANK") == 0


def another_says(error: Exception) -> bool:
    """Whether another process meets the same error and says it: all agreed on it, or read the same wrong file."""
    if getattr(error, "said_by_another", False):
        return True
    distributed = sys.modules.get("torch.distributed")
    joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return not joined and _number("LOCAL_RANK") > 0


def let_it_speak() -> None:
    """Wait for the process that says the error: a launcher ends all of them as soon as the first one has ended."""
    time.sleep(_LONGEST_WAIT)


def _number(variable: str) -> int:
    # Something else may have set one of them; a launcher sets them all.
    launched = "WORLD_SIZE" in os.environ and os.environ.get(variable, "").isdecimal()
    return int(os.environ[variable]) if launched else 0
