"""Which weights a run began with: where they stay part of it, a resumed run loads them anew and must find the same."""

from __future__ import annotations

from typing import Any

from ..verifiers import UserError


class BaseWeights:
    """The model that a run began with, told by a digest: what adapters act on, and what the KL is measured from.

    Args:
        name: the model's, for whoever reads that it has changed.
        digest: of its weights as they were loaded now; None where the run needs them no more, its policy and all else
            being in the checkpoint.
    """

    def __init__(self, name: str, digest: str | None) -> None:
        self._name = name
        self._digest = digest

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"digest": self._digest}

    def load_state_dict(self, state: Any) -> None:
        """Take over what the run began with.

        Raises:
            UserError: if what was loaded now is something else.
        """
        saved = state["digest"]
        if self._digest is not None and saved is not None and self._digest != saved:
            raise UserError(
                f"model.name {self._name!r} has other weights than when the run began, and the run still needs those; "
                "put them back (in model.dtype as it was), or begin a new run."
            )
        self._digest = saved or self._digest
