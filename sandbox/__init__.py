"""Running programs that nobody trusts.

    with rlvr.sandbox.open("auto") as box:
        result = box.run(Program("print(1 + 1)"))

`docker` runs them in warm containers, `namespace` in Linux namespaces of this machine; `auto` takes Docker where a
daemon answers and has an image, and namespaces else. Either way a small trusted fork server (the zygote) inside the
sandbox forks one process for each program.
"""

from __future__ import annotations

from .box import Box, open
from .faults import SandboxFault, SlotLost
from .limits import Limits
from .program import Call, Program, TestProgram
from .result import CallResult, Result, Status, TestReport

__all__ = [
    "Box",
    "Call",
    "CallResult",
    "Limits",
    "Program",
    "Result",
    "SandboxFault",
    "SlotLost",
    "Status",
    "TestProgram",
    "TestReport",
    "open",
]
