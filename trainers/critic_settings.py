"""What the critic is made of and how it learns. No torch in here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class CriticSettings(BaseModel):
    """The critic of an algorithm that estimates its advantages with one; discount and lambdas are the algorithm's."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind: Literal["separate", "shared"] = Field(
        "separate", description="a backbone of its own, or a head on the policy's"
    )
    model: str | None = Field(
        None,
        description="what a separate one starts from: a critic's checkpoint, a reward model, ...; null: the policy",
    )
    learning_rate: float = Field(1e-5, gt=0, description="of all that is not the policy's")
    weight_decay: float = Field(0.0, ge=0)
    warmup_steps: int = Field(0, ge=0, description="steps in which the critic learns alone, before the policy moves")
    clip: float | None = Field(0.2, gt=0, description="how far a value moves from the old one in a step; null: freely")
    coef: float = Field(0.1, gt=0, description="weight of the value loss on a shared backbone")

    @model_validator(mode="after")
    def _only_a_separate_one_starts_elsewhere(self) -> CriticSettings:
        if self.kind == "shared" and self.model is not None:
            raise ValueError(
                f"critic.model is {self.model!r} but a shared critic is on the policy's own backbone; set critic.kind: "
                "separate or critic.model: null."
            )
        return self
