"""Which alarms there are, and from where on each of them sounds. No torch in here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..sandbox.nearest import did_you_mean

ALARM_NAMES = (
    "entropy_collapse",
    "entropy_explosion",
    "groups_without_spread",
    "clip_fraction_zero",
    "clip_fraction_high",
    "kl_runaway",
    "length_runaway",
    "cut_off_rising",
    "held_out_falling",
    "one_part_gains",
    "critic_worse_than_mean",
    "sampler_drift",
    "not_finite",
    "grader_failures",
)


class MonitorSettings(BaseModel):
    """When a run is spoken of, and which alarms end it.

    Single steps are noisy, so every alarm but `not_finite` looks at the mean over `window` steps, and a rise or fall
    is that between the first and the last `window` of the latest `lookback` steps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    stop_on: tuple[str, ...] = Field((), description="alarms that end the run with a checkpoint")
    ignore: tuple[str, ...] = Field((), description="alarms that are never raised")
    window: int = Field(5, ge=1, description="steps that are averaged")
    lookback: int = Field(20, ge=2, description="steps over which a rise or a fall is measured")
    clear_after: int = Field(5, ge=1, description="steps without its cause after which an alarm may be raised anew")
    repeat_after: int = Field(50, ge=1, description="steps after which an alarm that goes on is raised again")

    reward_gain: float = Field(0.03, gt=0, description="a reward or pass@1 that rises by less is flat")
    solved: float = Field(0.9, gt=0, description="from this pass@1 on, low entropy is what success looks like")

    entropy_fall: float = Field(0.5, gt=0, lt=1, description="share of the entropy lost, the reward flat: a collapse")
    entropy_floor: float = Field(0.05, ge=0, description="nats a token; below it, the reward flat: a collapse")
    entropy_growth: float = Field(2.0, gt=1, description="factor by which the entropy rose: an explosion")
    entropy_rise: float = Field(0.1, gt=0, description="nats a token that an explosion takes at the least")
    zero_std_share: float = Field(0.9, gt=0, le=1, description="share of groups whose rewards are all equal")
    all_solved_share: float = Field(0.95, gt=0, le=1, description="the same where most of them are solved by all")
    clip_floor: float = Field(1e-6, ge=0, description="a share of clipped tokens up to here is none")
    clip_ceiling: float = Field(0.5, gt=0, le=1, description="share of clipped tokens that is too much")
    kl_ceiling: float = Field(1.0, gt=0, description="nats a token to the reference, whatever the reward does")
    kl_growth: float = Field(4.0, gt=1, description="factor by which the KL rose, the reward flat")
    kl_rise: float = Field(0.1, gt=0, description="nats a token that such a rise takes at the least")
    length_growth: float = Field(
        1.5, gt=1, description="factor by which completions grew, the reward flat; twice that whatever the reward does"
    )
    cut_off_rise: float = Field(0.1, gt=0, le=1, description="by how much the share of cut-off completions rose")
    cut_off_ceiling: float = Field(0.5, gt=0, le=1, description="share of cut-off completions, unless it is falling")
    held_out_fall: float = Field(0.05, gt=0, description="loss of held-out pass@1 since its best, the reward rising")
    part_share: float = Field(0.9, gt=0.5, le=1, description="share of the gain of all parts that one of them has")
    part_gain: float = Field(0.1, gt=0, description="gain of the reward below which nobody asks where it comes from")
    critic_grace: int = Field(10, ge=0, description="steps that the critic has to learn before it is judged")
    drift_mean: float = Field(0.05, gt=0, description="nats between sampler and trainer log-probs, mean over tokens")
    drift_max: float = Field(2.0, gt=0, description="the same at the worst token of a step")
    drift_growth: float = Field(3.0, gt=1, description="factor by which the mean rose, from half of drift_mean on")
    grader_failures: float = Field(0.05, ge=0, lt=1, description="share of completions that no grader could grade")

    @field_validator("stop_on", "ignore")
    @classmethod
    def _alarms_exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ALARM_NAMES:
                raise ValueError(f"there is no alarm {name!r}; {did_you_mean(name, ALARM_NAMES)}")
        return names

    @model_validator(mode="after")
    def _settings_agree(self) -> MonitorSettings:
        if self.lookback < 2 * self.window:
            raise ValueError(
                f"monitor.lookback is {self.lookback} but two windows of {self.window} steps must fit into it; "
                f"set it to {2 * self.window} or more."
            )
        for name in self.stop_on:
            if name in self.ignore:
                raise ValueError(f"the alarm {name!r} is in monitor.stop_on and in monitor.ignore; take it out of one.")
        return self
