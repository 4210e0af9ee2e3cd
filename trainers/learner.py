"""What learns in a run, put together from its configuration: policy, reference, critic, and what moves them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from ..verifiers import UserError
from .base_weights import BaseWeights
from .checkpoint import ADAPTER
from .credit import BanditCredit
from .critic import Critic, build_critic, load_critic
from .critic_settings import CriticSettings
from .critic_updates import CriticUpdates
from .entropy import EntropyLogprobs
from .logprobs import TokenLogprobs
from .lora import ReferenceOfAdapter, add_adapter, has_adapter, restore_adapter
from .models import LoadedModel, load_model
from .parts import moved
from .ppo import ActorCriticUpdater, CriticCredit
from .progress import Reporter
from .ranks import Ranks
from .recompute import enable_recomputing
from .seeding import derive
from .settings import ModelSettings, TrainConfig
from .sharding import sharding_of_this_run
from .update import Updater
from .warmstart import tiny_base
from .weights import digest


@dataclass(frozen=True)
class Learner:
    """What learns, on this process.

    Attributes:
        loaded: the policy as a model, with its tokenizer.
        policy: the same as what says log-probs.
        optimizer: moves the policy.
        updater: turns advantages into updates.
        credit: turns a rollout into advantages.
        base: the weights that the run began with.
    """

    loaded: LoadedModel
    policy: TokenLogprobs
    optimizer: torch.optim.Optimizer
    updater: Updater
    credit: BanditCredit | CriticCredit
    base: BaseWeights


class LearnerBuilder:
    """Builds the learner of a run, the same in all of its processes.

    Args:
        config: the run.
        accelerator: its devices.
        ranks: its processes.
        reporter: is told of the warm start.
    """

    def __init__(self, config: TrainConfig, accelerator: Accelerator, ranks: Ranks, reporter: Reporter) -> None:
        self._config = config
        self._accelerator = accelerator
        self._ranks = ranks
        self._reporter = reporter
        self._base_digest: str | None = None

    def build(self, max_tokens: int, checkpoint: Path | None) -> Learner:
        """The learner as the run begins, or with the weights that it had at a checkpoint.

        Args:
            max_tokens: the most that the model generates in an episode.
            checkpoint: to go on from.

        Raises:
            UserError: if a model cannot be loaded, or the processes loaded different ones.
        """
        config, train = self._config, self._config.train
        loaded = self._policy(checkpoint)
        self._ranks.check_equal("the weights of the policy", digest(loaded.model))
        kind = EntropyLogprobs if config.algorithm.entropy_bonus else TokenLogprobs
        policy = kind(loaded.model, config.sampling.temperature)
        reference = self._reference(policy, checkpoint) if config.algorithm.needs_reference else None
        critic = self._critic(loaded) if config.algorithm.needs_critic else None
        base = BaseWeights(config.model.name, self._base_digest)
        # What is copied was copied whole, and optimizers are made for the parts.
        self._shard(policy, reference, critic)
        given: dict[str, Any] = {
            "accelerator": self._accelerator,
            "policy": policy,
            "reference": reference,
            "optimizer": torch.optim.AdamW(
                moved(policy.parameters()),
                lr=train.learning_rate,
                betas=train.adam_betas,
                weight_decay=train.weight_decay,
                fused=True,
            ),
            "algorithm": config.algorithm,
            "settings": train,
            "max_tokens": max_tokens,
            "seed": config.seed,
            "ranks": self._ranks,
            # vLLM reports no entropies, and without them a collapse would go unnoticed.
            "tells_entropy": config.engine.kind != "hf",
        }
        if critic is None:
            credit: BanditCredit | CriticCredit = BanditCredit(config.algorithm)
            return Learner(loaded, policy, given["optimizer"], Updater(**given), credit, base)
        credit = CriticCredit(
            CriticUpdates(
                self._accelerator,
                critic,
                config.critic or CriticSettings(),
                train.micro_batch_size,
                train.max_grad_norm,
                self._ranks,
            ),
            config.algorithm,
        )
        return Learner(loaded, policy, given["optimizer"], ActorCriticUpdater(credit, **given), credit, base)

    def _shard(
        self, policy: TokenLogprobs, reference: TokenLogprobs | ReferenceOfAdapter | None, critic: Critic | None
    ) -> None:
        sharding = sharding_of_this_run(self._ranks, self._accelerator.device)
        if sharding is None:
            return
        sharding.policy(policy)
        if isinstance(reference, TokenLogprobs):
            sharding.policy(reference)
        if critic is not None:
            sharding.critic(critic, policy)

    def _policy(self, checkpoint: Path | None) -> LoadedModel:
        """The policy as the run begins, or as it was at a checkpoint."""
        settings = self._config.model
        whole = checkpoint is not None and settings.lora is None
        if checkpoint is not None and (checkpoint / ADAPTER).is_dir() == whole:
            there, asked = ("an adapter", "whole weights") if whole else ("whole weights", "an adapter")
            raise self._ranks.agreed(
                UserError(f"The checkpoint {checkpoint} holds {there}, not {asked}; resume with model.lora as it was.")
            )
        loaded = self._load(settings.model_copy(update={"name": str(checkpoint)})) if whole else self._load_base()
        if settings.lora is not None:
            add_adapter(loaded.model, settings.lora, derive(self._config.seed, "adapter"), base=settings.name)
            if checkpoint is not None:
                restore_adapter(loaded.model, checkpoint / ADAPTER)
        if settings.gradient_checkpointing:
            enable_recomputing(loaded.model)
        return loaded

    def _reference(self, policy: TokenLogprobs, checkpoint: Path | None) -> TokenLogprobs | ReferenceOfAdapter:
        if has_adapter(policy.model):
            return ReferenceOfAdapter(policy)
        model = copy.deepcopy(policy.model) if checkpoint is None else self._load_base().model
        return TokenLogprobs(model.requires_grad_(False), self._config.sampling.temperature)

    def _critic(self, loaded: LoadedModel) -> Critic:
        settings = self._config.critic or CriticSettings()
        if settings.model is None:
            return build_critic(loaded.model, shared=settings.kind == "shared")
        device, vocabulary = self._accelerator.device, len(loaded.tokenizer)
        critic = self._ranks.each(partial(load_critic, settings.model, self._config.model.dtype, device, vocabulary))
        if self._config.model.gradient_checkpointing:
            enable_recomputing(critic.body)
        return critic

    def _load_base(self) -> LoadedModel:
        loaded = self._load(self._base_model())
        self._base_digest = digest(loaded.model)
        return loaded

    def _base_model(self) -> ModelSettings:
        """The model settings with the tiny base model replaced by the folder it was made in."""
        settings = self._config.model
        if settings.warm_start is None:
            return settings
        steps = settings.warm_start.steps
        folder = self._ranks.alone(
            partial(
                tiny_base,
                settings.warm_start,
                on_step=lambda step, loss: self._reporter.work("warm start", step, steps),
            )
        )
        return settings.model_copy(update={"name": str(folder), "warm_start": None})

    def _load(self, settings: ModelSettings) -> LoadedModel:
        return self._ranks.each(
            partial(
                load_model,
                settings.name,
                dtype=settings.dtype,
                device=self._accelerator.device,
                chat_template=settings.chat_template,
                attn_implementation=settings.attn_implementation,
            )
        )
