"""The training loop: rollout, advantages, update, sync; evaluation, metrics and checkpoints around it."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..envs import make_vec
from ..verifiers import UserError
from . import run_dir as run_dirs
from .absolute_paths import with_absolute_paths
from .checkpoint import checkpoint_step, restore_state
from .critic import Critic
from .critic_settings import CriticSettings
from .devices import finish, open_trackers, start_accelerator
from .dynamic_sampling import Sampled, sample_with_spread
from .engines import Engine
from .env_options import env_options
from .evaluate import Evaluation
from .formula import formula
from .generation import check_engine, generating, needs_check, open_engine, open_rollouts
from .learner import Learner, LearnerBuilder
from .logprobs import TokenLogprobs
from .metrics import MetricsLog, rollout_metrics
from .monitor import Alarm, Monitor
from .part_gains import part_weights
from .ppo import CriticCredit
from .progress import Reporter, Silent
from .ranks import ranks_of_this_run
from .rollouts import Player
from .run_evaluations import RunEvaluations
from .run_files import RunFiles
from .run_state import RunState, Taken, UnfinishedStep
from .samples import write_samples
from .seeding import derive
from .settings import TrainConfig
from .sharding import WholeOptimizer, saved_whole
from .task_queue import TaskQueue
from .trajectory import Batch, Trajectory
from .truncation import worth, worth_of_truncated
from .weights import named_weights


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

    Attributes:
        stop_requested: to be set by whoever wants it to stop after the step.
        stop_signal: the number of the signal that asked for it, to be set before that; of several processes, all come
            to know it.

    Raises:
        UserError: if the configuration does not fit what it names, if `run_dir` holds a run and `resume` is
            false, or if there is nothing to resume.
    """

    def __init__(
        self, config: TrainConfig, run_dir: Path, reporter: Reporter | None = None, resume: bool = False
    ) -> None:
        # The saved one is gone on with as it is: what samples were drawn with is compared with it.
        self.config = config = config if resume else with_absolute_paths(config)
        self.stop_requested = False
        self.stop_signal: int | None = None
        train = config.train
        self.accelerator = start_accelerator(config.log, train.precision, run_dir)
        self.ranks = ranks_of_this_run()
        # Its name may have the time in it, which each process reads for itself.
        self.run_dir = run_dir = self.ranks.broadcast(run_dir)
        self.reporter = (reporter or Silent()) if self.ranks.main else Silent()
        self.envs = make_vec(config.env.id, self._my_prompts * train.group_size, **env_options(config, config.env))
        self._warn_if_eval_tasks_are_trained_on()
        self.files = RunFiles(config, run_dir, self.reporter.say)
        checkpoint = self.ranks.alone(partial(self.files.claim, resume))

        self.step = 0 if checkpoint is None else checkpoint_step(checkpoint)
        self._saved = None if checkpoint is None else self.step
        builder = LearnerBuilder(config, self.accelerator, self.ranks, self.reporter)
        learner = builder.build(config.sampling.max_tokens * self.envs.max_turns, checkpoint)
        if config.model.dtype == "bfloat16" and config.model.lora is None:
            self.reporter.say(
                "warning: weights in bfloat16 lose updates smaller than a 500th of them, so most stay as they are at "
                "a small learning rate; for bf16 training set model.dtype: float32 and train.precision: bf16"
            )
        self.tokenizer, self.eos_ids = learner.loaded.tokenizer, learner.loaded.eos_ids
        self.policy, self.optimizer = learner.policy, learner.optimizer
        self.updater, self.credit = learner.updater, learner.credit
        self.queue = TaskQueue(
            derive(config.seed, "tasks"), len(self.envs.tasks), taken=self.step * train.prompts_per_step
        )
        # All that the steps to come depend on, besides weights and seeds; every part of it is in a checkpoint.
        self.monitor = self._monitor()
        self.unfinished = UnfinishedStep()
        self.state = RunState(
            WholeOptimizer(self.optimizer),
            base=learner.base,
            credit=self.credit,
            entropy=self.updater.entropy,
            tasks=self.queue,
            monitor=self.monitor,
            unfinished=self.unfinished,
        )
        if checkpoint is not None:
            self.ranks.each(partial(restore_state, checkpoint, self.state))
        self.evaluations = RunEvaluations(
            config, run_dir, self.ranks, self.tokenizer, self.eos_ids, on_progress=self._evaluated
        )
        if resume:
            unfinished = self.unfinished.metrics is not None
            self.ranks.alone(partial(self.evaluations.check_kept, self.step, unfinished))
        self._taken = self.queue.taken
        self.engine = self._open_engine(learner)
        self._generating = generating(self.engine, learner)
        self.rollouts = open_rollouts(
            config, self._player(), learner, self.envs, self.queue, self.ranks, self.reporter.say
        )
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            renewed = self._renew_engine()
            if self.unfinished.metrics is not None:
                # Of a step whose hand-over failed, these are what its line in the log lacks.
                self.unfinished.metrics = {**renewed, **self.unfinished.metrics}
            open_trackers(self.accelerator, config.log)
            self.log = MetricsLog(run_dir / "metrics.jsonl", self.accelerator)
            # Until here nothing of an earlier run was changed, so that settings that are refused cost nothing.
            self.ranks.alone(self.files.save_config)
            # The line of a step comes after its evaluation.
            logged = self.step - (self.unfinished.metrics is not None)
            self.ranks.alone(partial(self.files.forget_after, self.step, self.log, logged))
            failed.pop_all()

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
            self._save_if_new()
            self.reporter.say(f"stopped after step {self.step}; go on with: rlvr train --resume {self.run_dir}")
        with saved_whole(*self._models):
            self.ranks.alone(partial(self.files.write_final, self.policy.model, self.tokenizer, self._critic))
        self.ranks.alone(partial(self.files.write_summary, self.step, results))
        # A signal that came too late to stop anything is known to all of them, too.
        self._stops()
        finish(self.accelerator)
        run_dirs.release(self.run_dir)
        return results

    def _train(self, results: dict[str, Evaluation]) -> None:
        """All steps that are left, with the evaluations before, between and after; the first and last go to results."""
        results["before"] = self._evaluate_at(0) if self.step == 0 else self.evaluations.kept(0)
        if self.step == 0:
            self._heed(self.monitor.observe_evaluation(0, results["before"].metrics()))
        if self.unfinished.metrics is not None:
            self._finish_step(self.unfinished.metrics, results)
        while self.step < self.config.train.steps and not self._stops():
            self._finish_step(self.train_step(), results)
            if self.updater.failure is not None:
                # The weights are those of before the gradient that failed.
                self._save_if_new()
                raise self.ranks.agreed(self.updater.failure)
        if self.step >= self.config.train.steps and "after" not in results:
            results["after"] = self._evaluate_at(self.step)

    def _finish_step(self, metrics: dict[str, float], results: dict[str, Evaluation]) -> None:
        """What comes after the updates of a step: its evaluation, its line in the log, its checkpoint."""
        every, last = self.config.eval.every, self.step == self.config.train.steps
        score = None
        if last or (every and self.step % every == 0):
            self.unfinished.metrics, self._saved = dict(metrics), None
            evaluation = self._evaluate_at(self.step)
            metrics |= evaluation.metrics()
            score = None if math.isnan(evaluation.avg.value) else evaluation.avg.value
            if last:
                results["after"] = evaluation
        self.unfinished.metrics = None
        self._heed(self.monitor.observe(self.step, metrics))
        self._heed(self.monitor.observe_evaluation(self.step, metrics))
        if self.ranks.main:
            self.log.write(self.step, metrics)
        self.reporter.step(self.step, self.config.train.steps, metrics)
        settings = self.config.checkpoint
        best = score is not None and self.ranks.alone(partial(self.files.is_among_best, score))
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
        self._taken = self.queue.taken
        sampled = self._sample()
        self.engine.sleep()
        collected = time.perf_counter()
        algorithm = self.config.algorithm
        batch = Batch.from_trajectories(sampled.kept, self.tokenizer.pad_token_id)
        batch = worth_of_truncated(batch, algorithm.truncated)
        frozen = self.updater.freeze(batch) if algorithm.kl_in_reward else None
        advantages, told = self.credit(batch, frozen)
        metrics = rollout_metrics(sampled.everything, algorithm.truncated)
        metrics |= sampled.metrics | self.rollouts.metrics() | told
        metrics |= self.updater.step(batch, advantages, self.step, frozen)
        self.step += 1
        log = self.config.log
        if self.ranks.main and log.samples_every and self.step % log.samples_every == 0:
            write_samples(self.run_dir / "samples" / f"step-{self.step:06d}.txt", sampled.kept, log.samples)
        updated = time.perf_counter()
        metrics |= {
            "completions/num_tokens": float(sum(trajectory.length for trajectory in sampled.everything)),
            "time/rollout": collected - started,
            "time/update": updated - collected,
        }
        metrics |= self._hand_over(metrics)
        finished = time.perf_counter()
        metrics |= {"time/sync": finished - updated, "step_time": finished - started}
        # What is decided by them is decided alike in all processes, whose clocks and last bits differ.
        return self.ranks.broadcast(metrics)

    def save(self, score: float | None = None) -> Path:
        """A checkpoint of this step; `score` is the policy's pass@1 on held-out tasks, if it was evaluated."""
        # Whatever is sharded is gathered by all processes, and written by one.
        state = Taken(self.state.state_dict())
        with saved_whole(*self._models):
            saved = self.ranks.alone(
                partial(
                    self.files.write_checkpoint, self.step, self.policy.model, self.tokenizer, state, score, self.log
                )
            )
        self._saved = self.step
        return saved

    def close(self) -> None:
        """End what is being generated, and let go of the engine, with its processes, memory and folders."""
        self.rollouts.close()
        run_dirs.release(self.run_dir)

    def _open_engine(self, learner: Learner) -> Engine:
        train = self.config.train
        return open_engine(
            self.config.engine,
            learner.loaded,
            learner.policy,
            self.ranks,
            self.run_dir,
            self.step,
            self.reporter.say,
            dtype="bfloat16" if train.precision == "bf16" else self.config.model.dtype,
            batch_size=train.generation_batch_size,
            autocast=self.accelerator.autocast,
        )

    def _player(self) -> Player:
        config = self.config
        return Player(
            self.engine,
            self.tokenizer,
            self.eos_ids,
            config.sampling.sampling(),
            config.train.group_size,
            config.train.prompts_per_step,
            config.seed,
        )

    def _renew_engine(self) -> dict[str, float]:
        """Give the engine the policy's weights, and see on a few prompts that it generates with them."""
        self.rollouts.sync(named_weights(self.policy.model), self.step)
        settings = self.config.engine
        if not needs_check(settings):
            return {}
        autocast = self.accelerator.autocast
        found = self.ranks.together(
            lambda: check_engine(settings, self.engine, self.policy, self.envs, self.tokenizer, autocast)
        )
        return found[0]

    def _hand_over(self, metrics: dict[str, float]) -> dict[str, float]:
        """Renew the engine after a step; where it cannot be, the step is saved, with the metrics that it has by now."""
        try:
            return self._renew_engine()
        except UserError:
            # Every process meets it, and a resumed run finishes the step.
            self.unfinished.metrics = self.ranks.broadcast(metrics)
            self.save()
            raise

    def _sample(self) -> Sampled:
        """What the step learns from: a rollout, or as many as give every group spread."""
        algorithm, train = self.config.algorithm, self.config.train
        if not algorithm.dynamic_sampling:
            trajectories = self._rollout()
            return Sampled(trajectories, trajectories, {})

        paid = partial(worth, rule=algorithm.truncated)
        sampled = sample_with_spread(self._rollout, train.prompts_per_step, algorithm.dynamic_sampling_rollouts, paid)
        flat = int(sampled.metrics["dynamic_sampling/groups_without_spread"])
        if flat:
            self.reporter.say(
                f"warning: step {self.step + 1}: {flat} of {train.prompts_per_step} groups have no spread after "
                f"{algorithm.dynamic_sampling_rollouts} rollouts; the tasks are too easy or too hard for the policy"
            )
        return sampled

    def _rollout(self, number: int = 0) -> list[Trajectory]:
        """A rollout of the step, with tasks and seeds of its own whatever its number."""
        try:
            trajectories = self.rollouts.take(self.step)
            self._speak_of_grader_failures(trajectories)
        except UserError:
            # Every process meets it, and the weights are those of the last whole step.
            self.queue.taken = self._taken
            if self.step > 0:
                self._save_if_new()
            raise
        return trajectories

    def _speak_of_grader_failures(self, trajectories: Sequence[Trajectory]) -> None:
        failed = [trajectory for trajectory in trajectories if math.isnan(trajectory.reward)]
        if not failed:
            return
        first = f"task {failed[0].task_id}: {failed[0].verdict.detail}"
        if len(failed) == len(trajectories):
            raise self.ranks.agreed(
                UserError(f"The grader failed on every completion of step {self.step + 1}, so mend it first ({first}).")
            )
        self.reporter.say(
            f"warning: step {self.step + 1}: the grader failed on {len(failed)} of {len(trajectories)} completions, "
            f"which are left out of the update ({first})"
        )

    def _evaluate_at(self, step: int) -> Evaluation:
        with self._generating():
            return self.evaluations.at(step, self.engine)

    def _evaluated(self, step: int, done: int, total: int) -> None:
        self.reporter.work(f"evaluate at step {step}", done, total)
        if self._stops() and done < total:
            raise EvaluationStopped

    def _stops(self) -> bool:
        """Whether any process was asked to stop; then all of them do, and know by which signal."""
        told = self.ranks.gather((self.stop_requested, self.stop_signal))
        # What a signal sets meanwhile stays, for the next time.
        if stops := any(requested for requested, _ in told):
            self.stop_requested = True
            self.stop_signal = next((number for _, number in told if number is not None), self.stop_signal)
        return stops

    @property
    def _my_prompts(self) -> int:
        """How many groups of a rollout this process draws."""
        prompts = self.config.train.prompts_per_step
        if prompts < self.ranks.count:
            raise self.ranks.agreed(
                UserError(
                    f"train.prompts_per_step is {prompts} but the run has {self.ranks.count} processes, each of which "
                    f"draws groups of its own; set it to {self.ranks.count} or more, or start fewer processes."
                )
            )
        return len(self.ranks.share(prompts))

    @property
    def _critic(self) -> Critic | None:
        return self.credit.critic.critic if isinstance(self.credit, CriticCredit) else None

    @property
    def _models(self) -> list[TokenLogprobs | Critic]:
        """What is saved."""
        return [self.policy, *([] if self._critic is None else [self._critic])]

    def _save_if_new(self) -> None:
        if self._saved != self.step:
            self.save()

    def _warn_if_eval_tasks_are_trained_on(self) -> None:
        """Held-out tasks that are not held out make every pass@k a lie; lists are small enough to look."""
        if not self.ranks.main:
            return
        env = self.config.eval_env
        held_out = make_vec(env.id, 1, **env_options(self.config, env)).tasks
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


class EvaluationStopped(Exception):
    """An evaluation ended early because a stop was asked for; its samples so far are kept."""
