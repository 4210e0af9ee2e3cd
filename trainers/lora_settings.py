"""What an adapter is made of. No torch in here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class LoraSettings(BaseModel):
    """Low-rank adapters that are trained in place of the model's own weights (Hu et al. 2021).

    The update of a weight is alpha / r * B A, with B zero at first. With the adapter off, the model is the reference
    policy, so there is no second copy of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    r: int = Field(16, ge=1, description="rank of the updates")
    alpha: float = Field(32.0, gt=0, description="an update counts alpha / r times")
    dropout: float = Field(0.0, description="must be 0: the policy that learns is the one that was sampled from")
    target_modules: Literal["all-linear"] | list[str] = Field(
        "all-linear", description="ends of the names of the layers that get an adapter; all but the output layer"
    )

    @field_validator("dropout")
    @classmethod
    def _no_dropout(cls, dropout: float) -> float:
        if dropout != 0:
            raise ValueError(
                f"model.lora.dropout is {dropout:g}, under which the policy that learns would not be the one that was "
                "sampled from; set it to 0."
            )
        return dropout
