"""The exceptions of a sandbox that is itself at fault."""

from __future__ import annotations


class SandboxFault(Exception):
    """The infrastructure failed, so that nothing is known about the program: its score is None, never 0.

    A daemon that cannot be reached, an image that is missing, a slot that cannot be started. What the program itself
    provoked is a `Result` with the status that says so.
    """


class SlotLost(SandboxFault):
    """The slot ended, fell silent or spoke nonsense while it ran a job; the job may be tried on another."""
