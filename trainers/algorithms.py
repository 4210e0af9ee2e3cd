"""The algorithm table: one row of choices an algorithm, every cell of which a configuration may override."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..sandbox.nearest import did_you_mean

CorrectionKind = Literal["none", "token_truncate", "token_mask", "sequence_mask"]

# (low, high) of the ratio of trainer and sampler, where a configuration gives none.
CORRECTION_BOUNDS: dict[str, tuple[float, float]] = {
    "token_truncate": (0.0, 2.0),
    "token_mask": (0.5, 5.0),
    "sequence_mask": (0.9, 1.1),
}

# Formulas stand with the functions that compute them: advantages.py, losses.py, kl.py, correction.py.
# In words: formula.py.
ALGORITHMS: dict[str, dict[str, Any]] = {
    # Williams 1992
    "reinforce": {
        "advantage": "batch_mean", "ratio": "none", "surrogate": "logprob", "aggregate": "sequence_sum", "kl": "reward",
    },
    # Ahmadian et al. 2024 (Back to Basics), section 3.3
    "rloo": {
        "advantage": "leave_one_out", "ratio": "none", "surrogate": "logprob", "aggregate": "sequence_sum",
        "kl": "reward",
    },
    # Hu et al. 2025 (REINFORCE++), section 3
    "reinforce_pp": {
        "advantage": "batch_mean_std", "ratio": "token", "surrogate": "clip", "aggregate": "token_mean", "kl": "reward",
    },
    # Shao et al. 2024 (DeepSeekMath), section 4.1
    "grpo": {
        "advantage": "group_mean_std", "ratio": "token", "surrogate": "clip", "aggregate": "sequence_mean",
        "kl": "loss",
    },
    # Liu et al. 2025 (Understanding R1-Zero-like training), section 3.2
    "dr_grpo": {
        "advantage": "group_mean", "ratio": "token", "surrogate": "clip", "aggregate": "fixed_length", "kl": "none",
    },
    # Yu et al. 2025 (DAPO), section 3; its overlong punishment is the verifier rlvr/overlong-v1
    "dapo": {
        "advantage": "group_mean_std", "ratio": "token", "surrogate": "clip", "clip_high": 0.28,
        "aggregate": "token_mean", "kl": "none", "dynamic_sampling": True,
    },
    # Zheng et al. 2025 (Group Sequence Policy Optimization), section 4.1; the bounds of section 5.1
    "gspo": {
        "advantage": "group_mean_std", "ratio": "sequence", "surrogate": "clip", "clip_low": 3e-4, "clip_high": 4e-4,
        "aggregate": "sequence_mean", "kl": "none",
    },
    # Schulman et al. 2017 (Proximal policy optimization), as Ouyang et al. 2022 (InstructGPT) apply it to tokens
    "ppo": {
        "advantage": "gae", "ratio": "token", "surrogate": "clip", "aggregate": "token_mean", "kl": "reward",
    },
    # MiniMax 2025 (MiniMax-M1), section 3.1
    "cispo": {
        "advantage": "group_mean_std", "ratio": "token", "surrogate": "cispo", "aggregate": "token_mean", "kl": "none",
    },
}  # fmt: skip

_OF_THE_PLACE = {"reward": "k1", "loss": "k3", "none": "k3"}
_SCALED = ("group_mean_std", "batch_mean_std")
# Which cells are asked for only where another one, named first, has one of some values.
_ASKED_WHERE: tuple[tuple[str, tuple[Any, ...], tuple[str, ...]], ...] = (
    ("advantage", ("gae",), (
        "gamma", "lam", "critic_lam", "length_adaptive_alpha", "whiten", "bootstrap_truncated", "missing_eos_penalty",
    )),
    ("advantage", _SCALED, ("std_ddof", "std_eps")),
    ("advantage", ("moving_average",), ("baseline_momentum",)),
    ("surrogate", ("clip", "cispo"), ("clip_low", "clip_high")),
    ("kl_controller", ("proportional",), ("kl_target", "kl_horizon")),
    ("correction", tuple(CORRECTION_BOUNDS), ("correction_low", "correction_high")),
    ("dynamic_sampling", (True,), ("dynamic_sampling_rollouts",)),
)  # fmt: skip


class Algorithm(BaseModel):
    """One row of the table, with the cells that the configuration overrode."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = "grpo"
    advantage: Literal[
        "group_mean_std",
        "group_mean",
        "leave_one_out",
        "batch_mean",
        "moving_average",
        "batch_mean_std",
        "gae",
    ]
    std_ddof: int = Field(1, ge=0, le=1, description="1 divides a variance by its count less 1, 0 by its count")
    std_eps: float = Field(1e-4, ge=0, description="added to the standard deviation")
    baseline_momentum: float = Field(0.9, ge=0, lt=1, description="what the moving average keeps of itself a step")
    gamma: float = Field(1.0, gt=0, le=1, description="discount a token")
    lam: float = Field(0.95, ge=0, le=1, description="lambda of the advantages")
    critic_lam: float | None = Field(None, ge=0, le=1, description="lambda of the critic's returns; null: the same")
    length_adaptive_alpha: float | None = Field(
        None, gt=0, description="lambda of the advantages is 1 - 1 / (alpha * length), if given; VAPO has 0.05"
    )
    whiten: bool = Field(True, description="advantages a token to mean 0 and deviation 1 over the loss tokens")
    bootstrap_truncated: bool = Field(False, description="what was cut short goes on from the critic's last value")
    missing_eos_penalty: float = Field(0.0, ge=0, description="taken off the reward of a completion that was cut off")
    ratio: Literal["none", "token", "sequence"]
    surrogate: Literal["logprob", "clip", "cispo"]
    clip_low: float = Field(0.2, ge=0, le=1, description="the ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(0.2, ge=0, description="the ratio is clipped above at 1 + clip_high")
    aggregate: Literal["sequence_mean", "token_mean", "fixed_length", "sequence_sum"]
    kl: Literal["reward", "loss", "none"]
    kl_coef: float = Field(0.0, ge=0, description="weight of the KL to the reference policy")
    kl_estimator: Literal["k1", "k2", "k3"] = Field(description="k1 in the reward and k3 in the loss if not given")
    kl_controller: Literal["fixed", "proportional"] = Field(
        "fixed", description="proportional steers kl_coef, which is then where it starts, to kl_target"
    )
    kl_target: float = Field(6.0, gt=0, description="nats a trajectory")
    kl_horizon: float = Field(10_000, gt=0, description="episodes in which kl_coef moves by about a fifth")
    early_stop_kl: float | None = Field(
        None, gt=0, description="nats a token; the epochs end where the policy is 1.5 times as far from the old one"
    )
    entropy_coef: float = Field(0.0, ge=0, description="weight of the entropy bonus; where it starts, with a target")
    entropy_target: float | None = Field(None, ge=0, description="nats a token that the bonus is to keep up, if any")
    entropy_coef_delta: float = Field(0.005, gt=0, description="how far the weight moves an optimizer step")
    entropy_coef_max: float = Field(1.0, ge=0, description="the most that the weight may become")
    old_logprobs: Literal["trainer", "sampler"] = Field(
        "trainer", description="whose log-probs the ratio divides by: of a pass over the batch, or those of the engine"
    )
    correction: CorrectionKind = Field(
        "none", description="weight of a token for what sampler and trainer differ by, in the policy term alone"
    )
    correction_low: float | None = Field(None, ge=0, description="lower bound of its ratio; its kind's own if null")
    correction_high: float | None = Field(None, gt=0, description="upper bound of its ratio; its kind's own if null")
    truncated: Literal["as_is", "zero_reward", "mask"] = Field(
        "as_is", description="completions that were cut off: as any other, worth 0, or taken out of the loss"
    )
    dynamic_sampling: bool = Field(False, description="draw other tasks for groups without spread")
    dynamic_sampling_rollouts: int = Field(10, ge=1, description="the most rollouts that a step may take for that")

    @model_validator(mode="before")
    @classmethod
    def _start_from_row(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        name = given.get("name", "grpo")
        if not isinstance(name, str) or name not in ALGORITHMS:
            raise ValueError(f"there is no algorithm {name!r}; {did_you_mean(str(name), ALGORITHMS)}")
        cells = {**ALGORITHMS[name], **given, "name": name}
        return {"kl_estimator": _OF_THE_PLACE.get(str(cells["kl"]), "k3"), **cells}

    @model_validator(mode="after")
    def _kl_has_a_place(self) -> Algorithm:
        if self.kl == "none" and self.kl_coef > 0:
            raise ValueError(f"kl_coef is {self.kl_coef} but kl is 'none'; set kl: loss or kl_coef: 0.")
        return self

    @model_validator(mode="after")
    def _surrogate_fits_ratio(self) -> Algorithm:
        if self.surrogate == "logprob" and self.ratio != "none":
            raise ValueError(f"surrogate 'logprob' has no ratio but ratio is {self.ratio!r}; set ratio: none.")
        if self.surrogate != "logprob" and self.ratio == "none":
            raise ValueError(f"surrogate {self.surrogate!r} clips a ratio but ratio is 'none'; set ratio: token.")
        if self.surrogate == "clip" and self.clip_low == 1:
            raise ValueError("clip_low is 1, which only the surrogate cispo takes; set it below 1.")
        return self

    @model_validator(mode="after")
    def _old_logprobs_are_divided_by(self) -> Algorithm:
        if self.old_logprobs == "sampler" and self.ratio == "none":
            raise ValueError(
                f"old_logprobs is 'sampler' but {self.name} has no ratio that would divide by them; set correction: "
                "token_truncate in its place, or ratio: token and surrogate: clip."
            )
        return self

    @model_validator(mode="after")
    def _spread_is_what_teaches(self) -> Algorithm:
        if self.dynamic_sampling and not self.compares_groups:
            raise ValueError(
                f"dynamic_sampling throws away groups without spread, but advantage {self.advantage!r} learns from "
                "these too; set dynamic_sampling: false."
            )
        return self

    @model_validator(mode="after")
    def _entropy_coef_within_bounds(self) -> Algorithm:
        if self.entropy_target is not None and self.entropy_coef > self.entropy_coef_max:
            raise ValueError(
                f"entropy_coef is {self.entropy_coef} but entropy_coef_max is {self.entropy_coef_max}; lower the first."
            )
        return self

    @model_validator(mode="after")
    def _cells_are_asked_for(self) -> Algorithm:
        for decider, values, names in _ASKED_WHERE:
            decided = getattr(self, decider)
            for name in names if decided not in values else ():
                if self._overrides(name):
                    raise ValueError(
                        f"{name} is {getattr(self, name)} but {decider} is {decided!r}, under which nothing asks for "
                        f"it; set {decider}: {values[0]}, or leave {name} out."
                    )
        for name in ("entropy_coef_delta", "entropy_coef_max"):
            if self.entropy_target is None and self._overrides(name):
                raise ValueError(
                    f"{name} is {getattr(self, name)} but the weight of the entropy is fixed; set entropy_target, or "
                    f"leave {name} out."
                )
        return self

    def _overrides(self, name: str) -> bool:
        """Whether a cell is another than that of its row."""
        return bool(getattr(self, name) != ALGORITHMS[self.name].get(name, type(self).model_fields[name].default))

    @model_validator(mode="after")
    def _only_a_kl_in_the_reward_is_steered(self) -> Algorithm:
        if self.kl_controller == "proportional" and not self.kl_in_reward:
            raise ValueError(
                f"kl_controller is 'proportional' but kl is {self.kl!r} with kl_coef {self.kl_coef}; set kl: reward "
                "and a kl_coef above 0 to start from."
            )
        return self

    @model_validator(mode="after")
    def _sampler_and_trainer_are_compared_once(self) -> Algorithm:
        if self.correction == "none":
            return self
        if self.old_logprobs == "sampler":
            raise ValueError(
                f"correction is {self.correction!r} but old_logprobs is 'sampler', so the ratio itself is already to "
                "the sampler and would count twice; set old_logprobs: trainer or correction: none."
            )
        low, high = self.correction_bounds
        if low >= high:
            raise ValueError(f"the correction keeps ratios from {low:g} to {high:g}, which is none; raise the second.")
        return self

    @property
    def correction_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the ratio of trainer and sampler."""
        low, high = CORRECTION_BOUNDS.get(self.correction, (0.0, math.inf))
        return (
            low if self.correction_low is None else self.correction_low,
            high if self.correction_high is None else self.correction_high,
        )

    @property
    def needs_critic(self) -> bool:
        """Whether advantages are estimated with a critic."""
        return self.advantage == "gae"

    @property
    def compares_groups(self) -> bool:
        """Whether a trajectory is measured against the others of its group."""
        return self.advantage in ("group_mean_std", "group_mean", "leave_one_out")

    @property
    def needs_reference(self) -> bool:
        """Whether any term is measured against the reference policy."""
        return self.kl != "none" and self.kl_coef > 0

    @property
    def kl_in_reward(self) -> bool:
        """Whether a KL is taken off the rewards."""
        return self.kl == "reward" and self.kl_coef > 0

    @property
    def kl_in_loss(self) -> bool:
        """Whether a KL is added to the loss."""
        return self.kl == "loss" and self.kl_coef > 0

    @property
    def entropy_bonus(self) -> bool:
        """Whether the loss holds the entropy of the policy."""
        return self.entropy_coef > 0 or self.entropy_target is not None
