"""The algorithm table: one row of choices an algorithm, every cell of which a configuration may override."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..sandbox.nearest import did_you_mean

# Formulas stand with the functions that compute them: advantages.py, losses.py, kl.py.
ALGORITHMS: dict[str, dict[str, Any]] = {
    # Shao et al. 2024 (DeepSeekMath), section 4.1
    "grpo": {"advantage": "group_mean_std", "surrogate": "clip", "aggregate": "sequence_mean", "kl": "loss"},
    # Liu et al. 2025 (Understanding R1-Zero-like training), section 3.2
    "dr_grpo": {"advantage": "group_mean", "surrogate": "clip", "aggregate": "fixed_length", "kl": "none"},
}


class Algorithm(BaseModel):
    """One row of the table, with the cells that the configuration overrode."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str = "grpo"
    advantage: Literal["group_mean_std", "group_mean"]
    std_ddof: int = Field(1, ge=0, le=1, description="1 divides the group's variance by G - 1, 0 by G")
    std_eps: float = Field(1e-4, ge=0, description="added to the group's standard deviation")
    surrogate: Literal["clip"]
    clip_low: float = Field(0.2, ge=0, lt=1, description="the ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(0.2, ge=0, description="the ratio is clipped above at 1 + clip_high")
    aggregate: Literal["sequence_mean", "token_mean", "fixed_length", "sequence_sum"]
    kl: Literal["loss", "none"]
    kl_coef: float = Field(0.0, ge=0, description="weight of the k3 KL to the reference policy")

    @model_validator(mode="before")
    @classmethod
    def _start_from_row(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        name = given.get("name", "grpo")
        if not isinstance(name, str) or name not in ALGORITHMS:
            raise ValueError(f"there is no algorithm {name!r}; {did_you_mean(str(name), ALGORITHMS)}")
        return {**ALGORITHMS[name], **given, "name": name}

    @model_validator(mode="after")
    def _kl_has_a_place(self) -> Algorithm:
        if self.kl == "none" and self.kl_coef > 0:
            raise ValueError(f"kl_coef is {self.kl_coef} but kl is 'none'; set kl: loss or kl_coef: 0.")
        return self

    @property
    def needs_reference(self) -> bool:
        """Whether the loss holds a term in the reference policy."""
        return self.kl != "none" and self.kl_coef > 0
