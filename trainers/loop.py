"""The training loop: rollout, advantages, update, sync; evaluation, metrics and checkpoints around it."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import math
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin

from ..envs import make_vec
from ..verifiers import UserError
from . import run_dir as run_dirs
from .checkpoint import (
    ADAPTER,
    best_checkpoints,
    checkpoint_score,
    checkpoint_step,
    checkpoints,
    clear_interrupted,
    is_among_best,
    latest_checkpoint,
    restore_state,
    save_checkpoint,
)
from .credit import BanditCredit
from .critic import Critic, build_critic, load_critic, save_critic
from .critic_settings import CriticSettings
from .critic_updates import CriticUpdates
from .durable import published, sync, sync_tree, write_text
from .dynamic_sampling import Sampled, sample_with_spread
from .engines import Completion, Engine, Sampling
from .engines.hf import HFEngine
from .entropy import EntropyLogprobs
from .evaluate import Evaluation, evaluate
from .formula import formula
from .logprobs import TokenLogprobs
from .lora import ReferenceOfAdapter, add_adapter, has_adapter, restore_adapter
from .metrics import MetricsLog, rollout_metrics
from .models import LoadedModel, load_model, save_policy
from .monitor import Alarm, Monitor
from .part_gains import part_weights
from .ppo import ActorCriticUpdater, CriticCredit
from .progress import Reporter, Silent
from .recompute import enable_recomputing
from .rollout import collect
from .run_state import RunState, UnfinishedStep
from .samples import write_samples
from .seeding import derive
from .settings import ModelSettings, TrainConfig
from .task_queue import TaskQueue
from .trajectory import Batch, Trajectory
from .truncation import worth_of_truncated
from .update import Updater
from .warmstart import tiny_base


class Trainer:
    """Trains the policy of a configuration in its environment.

    A run directory holds `config.yaml`, `metrics.jsonl`, `samples/`, `eval/` (one row a sample), `checkpoints/`,
    `summary.json` (before, after, and where the best checkpoint is) and `final/`: the trained policy in Hugging Face
    format with its tokenizer.

    Args:
        config: the run.
        run_dir: where it is kept.
        reporter: is told what happens.
        resume: go on from the latest checkpoint in `run_dir`; from the beginning, if the run had none yet.

    Raises:
        UserError: if the configuration does not fit what it names, if `run_dir` holds a run and `resume` is
            false, or if there is nothing to resume.
    """

    def __init__(
        self, config: TrainConfig, run_dir: Path, reporter: Reporter | None = None, resume: bool = False
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.reporter = reporter or Silent()
        self.stop_requested = False
        train = config.train
        episodes = train.prompts_per_step * train.group_size
        self.envs = make_vec(config.env.id, episodes, **config.env.arguments)
        self._warn_if_eval_tasks_are_trained_on()
        run_dirs.claim(run_dir, resume)
        checkpoint = self._checkpoint_to_resume() if resume else None
        run_dirs.save_config(config.model_copy(update={"run_dir": str(run_dir)}), run_dir / run_dirs.CONFIG)

        self.accelerator = _accelerator(config, run_dir)
        self.step = 0 if checkpoint is None else checkpoint_step(checkpoint)
        self._saved = None if checkpoint is None else self.step
        loaded = self._policy(checkpoint)
        if config.model.dtype == "bfloat16" and config.model.lora is None:
            self.reporter.say(
                "warning: weights in bfloat16 lose updates smaller than a 500th of them, so most stay as they are at "
                "a small learning rate; for bf16 training set model.dtype: float32 and train.precision: bf16"
            )
        self.tokenizer, self.eos_ids = loaded.tokenizer, loaded.eos_ids
        policy = EntropyLogprobs if config.algorithm.entropy_bonus else TokenLogprobs
        self.policy = policy(loaded.model, config.sampling.temperature)
        self.optimizer = torch.optim.AdamW(
            self.policy.parameters(),
            lr=train.learning_rate,
            betas=train.adam_betas,
            weight_decay=train.weight_decay,
            fused=True,
        )
        self.updater, self.credit = self._learner(loaded, checkpoint)
        self.queue = TaskQueue(
            derive(config.seed, "tasks"), len(self.envs.tasks), taken=self.step * train.prompts_per_step
        )
        # All that the steps to come depend on, besides weights and seeds; every part of it is in a checkpoint.
        self.monitor = self._monitor()
        self.unfinished = UnfinishedStep()
        self.state = RunState(
            self.optimizer,
            credit=self.credit,
            entropy=self.updater.entropy,
            tasks=self.queue,
            monitor=self.monitor,
            unfinished=self.unfinished,
        )
        if checkpoint is not None:
            restore_state(checkpoint, self.state)
        self.engine: Engine = HFEngine(
            loaded.model,
            loaded.eos_ids,
            loaded.tokenizer.pad_token_id,
            max_batch=train.generation_batch_size,
            autocast=self.accelerator.autocast,
        )
        self.engine.sync(self.policy.model.state_dict().items(), self.step)
        self.log = MetricsLog(run_dir / "metrics.jsonl", self.accelerator)
        # The line of a step comes after its evaluation.
        self.log.forget_after(self.step - (self.unfinished.metrics is not None))
        run_dirs.forget_after(run_dir, self.step)

    def run(self) -> dict[str, Evaluation]:
        """Train to the configured number of steps, or until `stop_requested`, and keep what was learned.

        Returns:
            The evaluations `before` and `after`; `after` is missing from a run that was stopped early.
        """
        config = self.config
        self.reporter.say(
            formula(
                config.algorithm,
                config.train,
                config.sampling.max_tokens * self.envs.max_turns,
                config.sampling.temperature,
                config.critic,
            )
        )
        results: dict[str, Evaluation] = {}
        # What there is of an evaluation that was stopped is kept, and a resumed run goes on with it.
        with contextlib.suppress(EvaluationStopped):
            self._train(results)
        if "after" not in results:
            if self._saved != self.step:
                self.save()
            self.reporter.say(f"stopped after step {self.step}; go on with: rlvr train --resume {self.run_dir}")
        with published(self.run_dir / "final") as final:
            save_policy(self.policy.model, self.tokenizer, final)
            if isinstance(self.credit, CriticCredit):
                save_critic(self.credit.critic.critic, final / "critic")
        self._write_summary(results)
        self.accelerator.end_training()
        return results

    def _train(self, results: dict[str, Evaluation]) -> None:
        """All steps that are left, with the evaluations before, between and after; the first and last go to results."""
        results["before"] = self._evaluate_at(0, None if self.step == 0 else _NoEngine())
        if self.step == 0:
            self._heed(self.monitor.observe_evaluation(0, results["before"].metrics()))
        if self.unfinished.metrics is not None:
            self._finish_step(self.unfinished.metrics, results)
        while self.step < self.config.train.steps and not self.stop_requested:
            self._finish_step(self.train_step(), results)
        if self.step >= self.config.train.steps and "after" not in results:
            results["after"] = self._evaluate_at(self.step)

    def _finish_step(self, metrics: dict[str, float], results: dict[str, Evaluation]) -> None:
        """What comes after the updates of a step: its evaluation, its line in the log, its checkpoint."""
        every, last = self.config.eval.every, self.step == self.config.train.steps
        score = None
        if last or (every and self.step % every == 0):
            self.unfinished.metrics, self._saved = dict(metrics), None
            evaluation = self._evaluate_at(self.step)
            self.unfinished.metrics = None
            metrics |= evaluation.metrics()
            score = None if math.isnan(evaluation.avg.value) else evaluation.avg.value
            if last:
                results["after"] = evaluation
        self._heed(self.monitor.observe(self.step, metrics))
        self._heed(self.monitor.observe_evaluation(self.step, metrics))
        self.log.write(self.step, metrics)
        self.reporter.step(self.step, self.config.train.steps, metrics)
        settings = self.config.checkpoint
        best = score is not None and is_among_best(self.run_dir / "checkpoints", score, settings.keep_best)
        if best or (settings.every and (self.step % settings.every == 0 or last)):
            self.save(score)

    def _monitor(self) -> Monitor:
        config = self.config
        warmup = (config.critic or CriticSettings()).warmup_steps if config.algorithm.needs_critic else 0
        return Monitor(
            config.monitor,
            epochs=config.train.epochs if config.algorithm.ratio != "none" else 1,
            compares_groups=config.algorithm.compares_groups,
            part_weights=part_weights(self.envs.rubric),
            critic_warmup=warmup,
        )

    def _heed(self, alarms: Sequence[Alarm]) -> None:
        """Say what the monitor noticed; the run ends with a checkpoint where the settings ask for it."""
        for alarm in alarms:
            self.reporter.say(f"warning: step {alarm.step}: {alarm.name}: {alarm.sentence}")
        if any(alarm.stops for alarm in alarms):
            self.stop_requested = True

    def train_step(self) -> dict[str, float]:
        """One rollout and its updates; returns the step's metrics."""
        started = time.perf_counter()
        sampled = self._sample()
        collected = time.perf_counter()
        algorithm = self.config.algorithm
        batch = Batch.from_trajectories(sampled.kept, self.tokenizer.pad_token_id)
        batch = worth_of_truncated(batch, algorithm.truncated)
        frozen = self.updater.freeze(batch) if algorithm.kl_in_reward else None
        advantages, told = self.credit(batch, frozen)
        metrics = rollout_metrics(sampled.everything) | sampled.metrics | told
        metrics |= self.updater.step(batch, advantages, self.step, frozen)
        self.step += 1
        self.engine.sync(self.policy.model.state_dict().items(), self.step)

        log = self.config.log
        if log.samples_every and self.step % log.samples_every == 0:
            write_samples(self.run_dir / "samples" / f"step-{self.step:06d}.txt", sampled.kept, log.samples)
        finished = time.perf_counter()
        return metrics | {
            "completions/num_tokens": float(sum(trajectory.length for trajectory in sampled.everything)),
            "time/rollout": collected - started,
            "time/update": finished - collected,
            "step_time": finished - started,
        }

    def save(self, score: float | None = None) -> Path:
        """A checkpoint of this step; `score` is the policy's pass@1 on held-out tasks, if it was evaluated."""
        # Whatever is not of later steps has to be there when the run is resumed, even after a power cut.
        if self.log.path.exists():
            sync(self.log.path)
        for name in ("eval", "samples"):
            sync_tree(self.run_dir / name)
        saved = save_checkpoint(
            self.run_dir / "checkpoints",
            self.step,
            self.policy.model,
            self.tokenizer,
            self.state,
            self.config.checkpoint.keep_last,
            self.config.checkpoint.keep_best,
            score,
        )
        self._saved = self.step
        return saved

    def close(self) -> None:
        """Let go of the engine, with its processes, memory and folders."""
        self.engine.close()

    def _sample(self) -> Sampled:
        """What the step learns from: a rollout, or as many as give every group spread."""
        algorithm, train = self.config.algorithm, self.config.train
        if not algorithm.dynamic_sampling:
            trajectories = self._rollout()
            return Sampled(trajectories, trajectories, {})

        def worth(trajectory: Trajectory) -> float:
            worthless = algorithm.truncated == "zero_reward" and trajectory.finish_reason == "length"
            return 0.0 if worthless and not math.isnan(trajectory.reward) else trajectory.reward

        sampled = sample_with_spread(self._rollout, train.prompts_per_step, algorithm.dynamic_sampling_rollouts, worth)
        flat = int(sampled.metrics["dynamic_sampling/groups_without_spread"])
        if flat:
            self.reporter.say(
                f"warning: step {self.step + 1}: {flat} of {train.prompts_per_step} groups have no spread after "
                f"{algorithm.dynamic_sampling_rollouts} rollouts; the tasks are too easy or too hard for the policy"
            )
        return sampled

    def _rollout(self, number: int = 0) -> list[Trajectory]:
        """Rollout `number` of the step, each with tasks and seeds of its own."""
        if self.engine.version != self.step:
            raise AssertionError(
                f"the engine generates with the weights of step {self.engine.version} at step {self.step}"
            )
        config, first = self.config, number * self.envs.num_envs
        trajectories = collect(
            self.envs,
            self.engine,
            self.tokenizer,
            self.eos_ids,
            self.queue.take(config.train.prompts_per_step),
            config.train.group_size,
            config.sampling.sampling(),
            [derive(config.seed, "rollout", self.step, first + row) for row in range(self.envs.num_envs)],
        )
        self._speak_of_grader_failures(trajectories)
        return trajectories

    def _speak_of_grader_failures(self, trajectories: Sequence[Trajectory]) -> None:
        failed = [trajectory for trajectory in trajectories if math.isnan(trajectory.reward)]
        if not failed:
            return
        first = f"task {failed[0].task_id}: {failed[0].verdict.detail}"
        if len(failed) == len(trajectories):
            raise UserError(
                f"The grader failed on every completion of step {self.step + 1}, so mend it first ({first})."
            )
        self.reporter.say(
            f"warning: step {self.step + 1}: the grader failed on {len(failed)} of {len(trajectories)} completions, "
            f"which are left out of the update ({first})"
        )

    def _evaluate_at(self, step: int, engine: Engine | None = None) -> Evaluation:
        settings, env = self.config.eval, self.config.eval_env
        return evaluate(
            engine or self.engine,
            self.tokenizer,
            self.eos_ids,
            env.id,
            rows_path=self.run_dir / "eval" / f"step-{step:06d}.jsonl",
            options=env.arguments,
            n=settings.n,
            ks=settings.k,
            tasks=settings.tasks,
            sampling=self.config.sampling.sampling(settings.temperature),
            seed=derive(self.config.seed, "eval"),
            batch_size=self.config.train.generation_batch_size,
            identity={"model": self.config.model.model_dump(mode="json"), "step": step},
            on_progress=lambda done, total: self._evaluated(step, done, total),
        )

    def _evaluated(self, step: int, done: int, total: int) -> None:
        self.reporter.work(f"evaluate at step {step}", done, total)
        if self.stop_requested and done < total:
            raise EvaluationStopped

    def _base_model(self) -> ModelSettings:
        """The model settings with the tiny base model replaced by the folder it was made in."""
        settings = self.config.model
        if settings.warm_start is None:
            return settings
        steps = settings.warm_start.steps
        folder = tiny_base(
            settings.warm_start, on_step=lambda step, loss: self.reporter.work("warm start", step, steps)
        )
        return settings.model_copy(update={"name": str(folder), "warm_start": None})

    def _policy(self, checkpoint: Path | None) -> LoadedModel:
        """The policy as the run begins, or as it was at a checkpoint."""
        settings = self.config.model
        whole = checkpoint is not None and settings.lora is None
        loaded = self._load(settings.model_copy(update={"name": str(checkpoint)}) if whole else self._base_model())
        if settings.lora is not None:
            add_adapter(loaded.model, settings.lora, derive(self.config.seed, "adapter"), base=settings.name)
            if checkpoint is not None:
                restore_adapter(loaded.model, checkpoint / ADAPTER)
        if settings.gradient_checkpointing:
            enable_recomputing(loaded.model)
        return loaded

    def _load(self, settings: ModelSettings) -> LoadedModel:
        return load_model(
            settings.name,
            dtype=settings.dtype,
            device=self.accelerator.device,
            chat_template=settings.chat_template,
            attn_implementation=settings.attn_implementation,
        )

    def _learner(self, loaded: LoadedModel, checkpoint: Path | None) -> tuple[Updater, BanditCredit | CriticCredit]:
        """What turns advantages into updates, and what turns a rollout into advantages."""
        config, train = self.config, self.config.train
        given: dict[str, Any] = {
            "accelerator": self.accelerator,
            "policy": self.policy,
            "reference": self._reference(loaded, checkpoint),
            "optimizer": self.optimizer,
            "algorithm": config.algorithm,
            "settings": train,
            "max_tokens": config.sampling.max_tokens * self.envs.max_turns,
            "seed": config.seed,
        }
        if not config.algorithm.needs_critic:
            return Updater(**given), BanditCredit(config.algorithm)
        settings = config.critic or CriticSettings()
        critic = self._critic(settings, loaded)
        credit = CriticCredit(
            CriticUpdates(self.accelerator, critic, settings, train.micro_batch_size, train.max_grad_norm),
            config.algorithm,
        )
        return ActorCriticUpdater(credit, **given), credit

    def _critic(self, settings: CriticSettings, loaded: LoadedModel) -> Critic:
        if settings.model is None:
            return build_critic(loaded.model, shared=settings.kind == "shared")
        return load_critic(settings.model, self.config.model.dtype, self.accelerator.device, len(loaded.tokenizer))

    def _reference(self, loaded: LoadedModel, checkpoint: Path | None) -> TokenLogprobs | None:
        if not self.config.algorithm.needs_reference:
            return None
        if has_adapter(loaded.model):
            return ReferenceOfAdapter(loaded.model, self.config.sampling.temperature)
        model = copy.deepcopy(loaded.model) if checkpoint is None else self._load(self._base_model()).model
        return TokenLogprobs(model.requires_grad_(False), self.config.sampling.temperature)

    def _checkpoint_to_resume(self) -> Path | None:
        """The latest checkpoint; None where the run was cut short before it had one."""
        folder = self.run_dir / "checkpoints"
        clear_interrupted(folder)
        if checkpoints(folder) or not run_dirs.was_cut_short(self.run_dir):
            return latest_checkpoint(folder)
        self.reporter.say("the run was cut short before its first checkpoint, so it begins anew")
        return None

    def _warn_if_eval_tasks_are_trained_on(self) -> None:
        """Held-out tasks that are not held out make every pass@k a lie; lists are small enough to look."""
        env = self.config.eval_env
        held_out = make_vec(env.id, 1, **env.arguments).tasks
        trained = self.envs.tasks
        if max(len(trained), len(held_out)) > 100_000:
            return
        known = {task.prompt for task in trained}
        shared = sum(task.prompt in known for task in held_out)
        if shared:
            warnings.warn(
                f"{shared} of {len(held_out)} evaluation tasks are also trained on; give eval.env tasks of its own",
                stacklevel=2,
            )

    def _write_summary(self, results: dict[str, Evaluation]) -> None:
        summary: dict[str, Any] = {"steps": self.step}
        summary |= {name: asdict(evaluation) for name, evaluation in results.items()}
        best = best_checkpoints(self.run_dir / "checkpoints")
        if self.config.checkpoint.keep_best and best:
            place = str(best[0].relative_to(self.run_dir))
            summary["best"] = {
                "step": checkpoint_step(best[0]), "pass@1": checkpoint_score(best[0]), "checkpoint": place
            }  # fmt: skip
        # JSON has no NaN: a number that is none is written as null.
        standard = json.loads(json.dumps(summary), parse_constant=lambda _: None)
        write_text(self.run_dir / "summary.json", json.dumps(standard, indent=2) + "\n")


class EvaluationStopped(Exception):
    """An evaluation ended early because a stop was asked for; its samples so far are kept."""


class _NoEngine(Engine):
    """Stands for the policy before training in a resumed run, whose samples can be read but no longer drawn."""

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        raise UserError(
            "The section eval asks for samples of the policy before training that were not drawn when the run began; "
            "resume with its settings as they were."
        )

    def sync(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        raise NotImplementedError


def _accelerator(config: TrainConfig, run_dir: Path) -> Accelerator:
    for tracker in config.log.trackers:
        if importlib.util.find_spec(tracker) is None:  # accelerate would go on without it, silently
            raise UserError(
                f"The tracker {tracker!r} is not installed; pip install {tracker}, or take it out of log.trackers."
            )
    # The state is one a process and refuses another precision, which a second trainer may want.
    AcceleratorState._reset_state()
    accelerator = Accelerator(
        mixed_precision={"fp32": "no", "bf16": "bf16"}[config.train.precision],
        # Else ACCELERATE_GRADIENT_ACCUMULATION_STEPS, which `accelerate launch` sets, would divide every loss.
        gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
        log_with=list(config.log.trackers) or None,
        project_dir=run_dir,
    )
    if accelerator.num_processes > 1:
        raise UserError(
            f"This run was started with {accelerator.num_processes} processes, which is not supported yet; start one."
        )
    if config.log.trackers:
        accelerator.init_trackers(config.log.project)
    return accelerator
