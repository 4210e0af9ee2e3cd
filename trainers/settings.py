"""What a training run may be told, section by section; unknown keys are errors. No torch in here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..verifiers.rubric_spec import read_spec
from .algorithms import Algorithm
from .critic_settings import CriticSettings
from .engine_settings import EngineSettings
from .engines.base import Sampling
from .lora_settings import LoraSettings
from .monitor_settings import MonitorSettings
from .warmstart import WarmStart

Beta = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ModelSettings(Section):
    """The policy to start from."""

    name: str = Field(
        description="a folder of safetensors, a .gguf file, a package that carries one, a hub name, or 'tiny'"
    )
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="of the weights and the optimizer")
    chat_template: str | None = Field(None, description="a Jinja file, for a tokenizer that has no template")
    attn_implementation: str | None = Field(
        None, description="eager, sdpa, flash_attention_2, ...: passed on to transformers; its own choice if null"
    )
    gradient_checkpointing: bool = Field(False, description="layers are computed again in the backward pass: memory")
    lora: LoraSettings | None = Field(None, description="adapters that are trained in place of the weights")
    warm_start: WarmStart | None = Field(None, description="how the base model 'tiny' is made; cached")

    @model_validator(mode="after")
    def _warm_start_is_for_tiny(self) -> ModelSettings:
        if self.name == "tiny" and self.warm_start is None:
            raise ValueError("model.name is 'tiny', which is made by model.warm_start; add that section.")
        if self.name != "tiny" and self.warm_start is not None:
            raise ValueError(f"model.warm_start makes the model 'tiny', not {self.name!r}; remove that section.")
        return self


class EnvSettings(Section):
    """The environment, what scores its completions, and the options that `gymnasium.make` takes for it."""

    id: str
    rubric: Any = Field(None, description="a list of parts, or the path of a YAML or JSON file; its own if null")
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("rubric")
    @classmethod
    def _rubric_is_plain_data(cls, rubric: Any) -> Any:
        # What a file holds takes the place of its path, so that the saved configuration alone repeats the run.
        spec = read_spec(rubric)
        if spec is None and rubric is not None:
            raise ValueError(f"the rubric file {str(rubric)!r} is empty; write a list of parts into it.")
        if not isinstance(spec, str | list | dict | None):
            raise ValueError(f"env.rubric is a {type(spec).__name__}; give a list of parts, or the path of a file.")
        return spec

    @model_validator(mode="after")
    def _one_rubric(self) -> EnvSettings:
        if self.rubric is not None and "rubric" in self.options:
            raise ValueError("env.rubric and env.options.rubric are both given; take one of them out.")
        return self

    @property
    def arguments(self) -> dict[str, Any]:
        """What `make_vec` takes: the options, and the rubric where one is given."""
        return self.options if self.rubric is None else {**self.options, "rubric": self.rubric}


class SandboxSettings(Section):
    """Where programs that the policy writes are run, in environments that run any: options of these, in one place."""

    backend: Literal["auto", "docker", "namespace"] = "auto"
    image: str | None = Field(None, description="for Docker; RLVR_SANDBOX_IMAGE or python:3.12-slim if null")
    runtime: str | None = Field(None, description="of Docker's daemon, such as runsc (gVisor); its default if null")
    limits: dict[str, Any] | None = Field(None, description="of one run of a program, see rlvr.sandbox.Limits")
    allow_unsafe: bool = Field(False, description="programs may run without isolation where the system has none")

    @property
    def options(self) -> dict[str, Any]:
        """What an environment is told: all that is not as it would be anyway."""
        return self.model_dump(exclude_defaults=True)


class SamplingSettings(Section):
    """How rollouts are drawn: by default from the whole distribution, whose log-probs are the policy's."""

    max_tokens: int = Field(256, ge=1)
    temperature: float = Field(1.0, gt=0)
    top_p: float = Field(1.0, gt=0, le=1, description="the likeliest tokens up to this mass; 1 for all")
    top_k: int = Field(0, ge=0, description="the likeliest so many tokens; 0 for all")

    @property
    def cuts(self) -> bool:
        """Whether some tokens that the policy could say are never drawn."""
        return self.top_p < 1 or self.top_k > 0

    def sampling(self, temperature: float | None = None) -> Sampling:
        """The same for an engine; at another temperature, if one is given, from the whole distribution."""
        if temperature is not None:
            return Sampling(self.max_tokens, temperature)
        return Sampling(self.max_tokens, self.temperature, self.top_p, self.top_k)


class TrainSettings(Section):
    """Sizes of a step and the optimizer."""

    steps: int = Field(100, ge=1)
    prompts_per_step: int = Field(8, ge=1, description="groups in a rollout")
    group_size: int = Field(8, ge=1, description="completions of each prompt")
    epochs: int = Field(1, ge=1, description="passes over a rollout")
    minibatches: int = Field(1, ge=1, description="optimizer steps in each pass")
    micro_batch_size: int = Field(32, ge=1, description="rows in one forward pass; changes memory, not the gradient")
    generation_batch_size: int = Field(256, ge=1, description="prompts that the engine takes at once")
    learning_rate: float = Field(1e-6, gt=0)
    warmup_steps: int = Field(0, ge=0, description="steps over which the learning rate rises from 0, linearly")
    weight_decay: float = Field(0.0, ge=0)
    adam_betas: tuple[Beta, Beta] = (0.9, 0.999)
    max_grad_norm: float = Field(1.0, gt=0)
    precision: Literal["fp32", "bf16"] = Field("fp32", description="bf16 is autocast over the weights' own dtype")

    @model_validator(mode="after")
    def _minibatches_have_rows(self) -> TrainSettings:
        rows = self.prompts_per_step * self.group_size
        if self.minibatches > rows:
            raise ValueError(f"minibatches is {self.minibatches} but a step has {rows} rows; lower it.")
        return self

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up over the first `warmup_steps` steps, counted from 0, then constant."""
        return self.learning_rate * min(1.0, (step + 1) / (self.warmup_steps + 1))


class EvalSettings(Section):
    """Evaluation on held-out tasks before, during and after training."""

    every: int = Field(0, ge=0, description="steps between evaluations; 0 evaluates before and after only")
    n: int = Field(8, ge=1, description="samples a task")
    k: tuple[int, ...] = (1, 8)
    tasks: int | None = Field(64, ge=1, description="the first so many tasks; all of them if null")
    env: EnvSettings | None = Field(None, description="the training environment, split 'eval', if not given")
    temperature: float = Field(1.0, ge=0)

    @model_validator(mode="after")
    def _k_within_n(self) -> EvalSettings:
        if not self.k or not all(1 <= k <= self.n for k in self.k):
            raise ValueError(f"eval.k is {list(self.k)} but n is {self.n}; every k must be from 1 to n.")
        return self


class CheckpointSettings(Section):
    """When the run can be resumed from."""

    every: int = Field(50, ge=0, description="steps between checkpoints; 0 keeps the final policy only")
    keep_last: int = Field(2, ge=1, description="how many of the latest are kept")
    keep_best: int = Field(
        0, ge=0, description="how many of the best are kept besides, by pass@1 of the evaluations; saved when evaluated"
    )


class LogSettings(Section):
    """Where the run can be watched, next to metrics.jsonl."""

    trackers: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    project: str = "rlvr"
    samples_every: int = Field(10, ge=0, description="steps between samples of completions as text; 0 for none")
    samples: int = Field(4, ge=1, description="how many completions at a time")


class TrainConfig(Section):
    """A whole run."""

    run_dir: str | None = Field(None, description="runs/<recipe>-<time> if not given")
    seed: int = Field(0, ge=0)
    imports: tuple[str, ...] = Field((), description="modules or .py files that register environments or verifiers")
    model: ModelSettings
    env: EnvSettings
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    sampling: SamplingSettings = Field(default_factory=SamplingSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    algorithm: Algorithm = Field(default_factory=lambda: Algorithm.model_validate({"name": "grpo"}))
    critic: CriticSettings | None = Field(None, description="for advantage 'gae'; the defaults if null")
    train: TrainSettings = Field(default_factory=TrainSettings)
    eval: EvalSettings = Field(default_factory=EvalSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    log: LogSettings = Field(default_factory=LogSettings)
    monitor: MonitorSettings = Field(default_factory=MonitorSettings)

    @model_validator(mode="after")
    def _groups_have_members_to_compare(self) -> TrainConfig:
        if self.algorithm.compares_groups and self.train.group_size < 2:
            raise ValueError(
                f"train.group_size is {self.train.group_size} but advantage {self.algorithm.advantage!r} compares the "
                "completions of a prompt; set it to 2 or more."
            )
        return self

    @model_validator(mode="after")
    def _a_critic_is_asked(self) -> TrainConfig:
        if self.critic is not None and not self.algorithm.needs_critic:
            raise ValueError(
                f"there is a section critic but algorithm {self.algorithm.name!r} has advantage "
                f"{self.algorithm.advantage!r}, which asks none; remove that section, or set algorithm.advantage: gae."
            )
        return self

    @model_validator(mode="after")
    def _sampler_and_trainer_can_be_compared(self) -> TrainConfig:
        row = self.algorithm
        if self.sampling.cuts and (row.correction != "none" or row.old_logprobs == "sampler"):
            cut = f"top_p {self.sampling.top_p:g}" if self.sampling.top_p < 1 else f"top_k {self.sampling.top_k}"
            asked = f"correction {row.correction!r}" if row.correction != "none" else "old_logprobs 'sampler'"
            raise ValueError(
                f"sampling has {cut}, under which the sampler's log-probs are those of the tokens that were kept and "
                f"the trainer's those of all, so {asked} would compare two different distributions; set top_p: 1 and "
                "top_k: 0, or leave that out."
            )
        if self.engine.async_steps and row.correction == "none" and row.old_logprobs == "trainer":
            raise ValueError(
                f"engine.async_steps is {self.engine.async_steps}, so rollouts are drawn from older policies than the "
                "one that learns from them; set algorithm.correction: token_truncate (or another)."
            )
        return self

    @property
    def eval_env(self) -> EnvSettings:
        """The environment that is evaluated: the training one with split 'eval', unless another is named."""
        if self.eval.env is not None:
            return self.eval.env
        return self.env.model_copy(update={"options": {**self.env.options, "split": "eval"}})
