"""How strongly the rewards hold the policy to its reference: by a fixed weight, or one steered to a target."""

from __future__ import annotations

from .algorithms import Algorithm


class KLController:
    """The weight of the KL in the rewards, step by step.

    `fixed`:         beta stays what it is.
    `proportional`:  beta <- beta * (1 + clip(KL / target - 1, -0.2, 0.2) * min(episodes / horizon, 1))

    Source: Ziegler et al. 2019 (Fine-tuning language models from human preferences), section 2.2, and its code, where
    the paper's gain of 0.1 stands as batch size / horizon; that is kept to 1, so that no batch can turn the sign.

    Args:
        algorithm: which of the two, where beta starts, the target in nats a trajectory (not a token), the horizon in
            episodes.

    Attributes:
        coef: beta as it stands.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.coef = algorithm.kl_coef

    def observe(self, kl: float, episodes: int) -> None:
        """Take note of a step: the mean KL of a trajectory in nats, and how many trajectories there were."""
        algorithm = self._algorithm
        if algorithm.kl_controller == "proportional" and episodes > 0:
            error = min(max(kl / algorithm.kl_target - 1, -0.2), 0.2)
            self.coef *= 1 + error * min(episodes / algorithm.kl_horizon, 1.0)

    def state_dict(self) -> dict[str, float]:
        """What a checkpoint keeps."""
        return {"coef": self.coef, "start": self._algorithm.kl_coef}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint; where the configuration has another weight than it had, that is where beta stands.

        Older checkpoints do not say with which one they started.
        """
        started = state.get("start", self._algorithm.kl_coef)
        if self._algorithm.kl_controller == "proportional" and started == self._algorithm.kl_coef:
            self.coef = state["coef"]
