"""What a run carries from step to step besides its weights, as one thing to save and to load."""

from __future__ import annotations

from typing import Any, Protocol

_CARRIED = "carried"


class Stateful(Protocol):
    """Whatever can give its state and take it back: an optimizer, a controller, a baseline."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, strings and None, in dicts and lists."""
        ...

    def load_state_dict(self, state: Any) -> None:
        """Be as the state says."""
        ...


class RunState:
    """The optimizer with everything else that affects the steps to come.

    Args:
        optimizer: of the policy; its own state keeps its place, so that it can be loaded without the rest.
        parts: the rest, by name.
    """

    def __init__(self, optimizer: Stateful, **parts: Stateful) -> None:
        self._optimizer = optimizer
        self._parts = parts

    def state_dict(self) -> dict[str, Any]:
        """Of the optimizer, with that of the parts beside it."""
        carried = {name: part.state_dict() for name, part in self._parts.items()}
        return {**self._optimizer.state_dict(), _CARRIED: carried}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the optimizer and every part that was saved; one that was not stays as it is."""
        self._optimizer.load_state_dict({name: value for name, value in state.items() if name != _CARRIED})
        for name, saved in state.get(_CARRIED, {}).items():
            if name in self._parts:
                self._parts[name].load_state_dict(saved)


class UnfinishedStep:
    """A step whose updates are done but whose evaluation was interrupted, or whose weights the engine did not take.

    Attributes:
        metrics: of its rollout and updates; None where no step is unfinished.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, float] | None = None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"metrics": self.metrics}

    def load_state_dict(self, state: Any) -> None:
        """Go on from a checkpoint."""
        self.metrics = state["metrics"]


class Taken:
    """A state as it was when it was asked for; what several processes gather together, one of them can then save."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        return self._state

    def load_state_dict(self, state: Any) -> None:
        """There is nothing that could be as the state says."""
        raise TypeError("a state that was taken is only there to be saved")
