"""Proximal policy optimisation with a critic: Schulman et al. 2017, on the tokens of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..verifiers import UserError
from .critic_updates import CriticTally, CriticUpdates
from .estimates import Estimates, estimate
from .kl import kl_estimate
from .kl_controller import KLController
from .sharding import WholeOptimizer, load_whole_weights, whole_weights, whole_weights_fit
from .trajectory import Batch
from .update import Frozen, Tally, Updater


class CriticCredit:
    """One advantage a token, estimated with the critic as it is at the start of the batch.

    Args:
        critic: what is asked.
        algorithm: of the policy, and of the estimates.

    Attributes:
        estimates: of the last batch, frozen while policy and critic move.
        kl: the weight of the KL in the rewards.
    """

    def __init__(self, critic: CriticUpdates, algorithm: Any) -> None:
        self.critic = critic
        self.algorithm = algorithm
        self.estimates: Estimates | None = None
        self.kl = KLController(algorithm)

    def __call__(self, batch: Batch, frozen: Frozen | None) -> tuple[Tensor, dict[str, float]]:
        """Advantages (N, T), 0 where there is nothing to say, and what there is to log.

        Args:
            batch: N trajectories.
            frozen: log-probs of policy and reference at the start of the batch, if a KL is taken off the rewards.
        """
        kl = self._kl(frozen) if self.algorithm.kl_in_reward else None
        self.estimates = estimate(batch, *self.critic.look(batch), kl, self.kl.coef, self.algorithm)
        metrics = self.estimates.metrics()
        if kl is not None:
            metrics["kl_coef"] = self.kl.coef
            metrics["kl"] = self._steer(kl.double().masked_fill(~self.estimates.mask, 0.0), self.estimates.mask)
        return self.estimates.advantages, metrics

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: what is the critic's own, its optimizer, the weight of the KL."""
        critic = self.critic.critic
        return {
            "critic": whole_weights(critic.head if critic.shared else critic),
            "optimizer": WholeOptimizer(self.critic.optimizer).state_dict(),
            "kl": self.kl.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint.

        Raises:
            UserError: if it is of another critic, or of none.
        """
        self._check_saved(state.get("critic"))
        critic = self.critic.critic
        load_whole_weights(critic.head if critic.shared else critic, state["critic"])
        WholeOptimizer(self.critic.optimizer).load_state_dict(state["optimizer"])
        self.kl.load_state_dict(state["kl"])

    def _check_saved(self, weights: Mapping[str, Tensor] | None) -> None:
        critic = self.critic.critic
        if weights is None:
            raise UserError(
                f"algorithm {self.algorithm.name!r} asks a critic, and the checkpoint holds none, as the run was "
                "trained without; resume with the algorithm that it had, or begin a new run with the checkpoint as "
                "model.name."
            )
        kind, saved = (
            "shared" if shared else "separate"
            for shared in (critic.shared, weights.keys() == critic.head.state_dict().keys())
        )
        if kind != saved:
            raise UserError(
                f"critic.kind is {kind!r} but the checkpoint holds a {saved} critic; resume with critic.kind: {saved}."
            )
        if not whole_weights_fit(critic.head if critic.shared else critic, weights):
            raise UserError(
                "critic.model asks for a critic of another shape than the checkpoint's; resume with critic.model as it "
                "was."
            )

    def _kl(self, frozen: Frozen | None) -> Tensor:
        assert frozen is not None
        assert frozen.old_logprobs is not None
        assert frozen.reference_logprobs is not None
        return kl_estimate(frozen.old_logprobs, frozen.reference_logprobs, self.algorithm.kl_estimator)

    def _steer(self, kl: Tensor, mask: Tensor) -> float:
        """Tell the controller the KL a trajectory; returns that a token."""
        episodes = int(mask.any(dim=1).sum())
        self.kl.observe(float(kl.sum()) / max(episodes, 1), episodes)
        return float(kl.sum() / mask.sum().clamp(min=1))


class ActorCriticUpdater(Updater):
    """Moves policy and critic on the same minibatches; in the warm-up of the critic, the critic alone.

    Args:
        credit: what the batch was worth, and the critic that said so.
        given: what `Updater` takes.
    """

    def __init__(self, credit: CriticCredit, **given: Any) -> None:
        super().__init__(**given)
        self.credit = credit
        self._step = 0
        self._critic_tally = CriticTally()

    def step(self, batch: Batch, advantages: Tensor, step: int, frozen: Frozen | None = None) -> dict[str, float]:
        """See `Updater.step`; adds the critic's metrics."""
        self._step, self._critic_tally = step, CriticTally()
        metrics = super().step(batch, advantages, step, frozen)
        learning_rate = self.credit.critic.settings.learning_rate
        return metrics | {"critic/learning_rate": learning_rate, **self._critic_tally.metrics()}

    def learning_rate_at(self, step: int) -> float:
        """The warm-up of the learning rate begins when that of the critic is over."""
        return super().learning_rate_at(max(0, step - self.credit.critic.settings.warmup_steps))

    def push(self, batch: Batch, advantages: Tensor, frozen: Frozen, rows: Tensor, tally: Tally) -> bool:
        """Adds the gradients of both, and moves the critic; says whether the policy has any."""
        critic, estimates = self.credit.critic, self.credit.estimates
        assert estimates is not None
        warms_up = critic.warms_up(self._step)
        pushed = not warms_up and super().push(batch, advantages, frozen, rows, tally)
        if self.goes_too_far(tally):
            return False
        critic.optimizer.zero_grad(set_to_none=True)
        # The backbone of a shared critic is the policy's, which stays as it is.
        head_only = warms_up and critic.critic.shared
        if critic.accumulate(batch, estimates, rows, self._critic_tally, head_only=head_only):
            critic.move(self._critic_tally)
            pushed = pushed or (critic.critic.shared and not warms_up)
        return pushed
