"""The evaluations of a run, each kept in a file of its own, with which a resumed run goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ..verifiers import UserError
from .engines import Completion, Engine, Sampling
from .env_options import env_options
from .evaluate import Evaluation, check_rows, evaluate
from .ranks import Ranks
from .seeding import derive
from .settings import TrainConfig


class RunEvaluations:
    """What the section eval asks for, of the policy after some step.

    Args:
        config: the run.
        run_dir: its folder; the samples go into `eval` there, and what there is of an interrupted evaluation stays.
        ranks: the processes that share the work.
        tokenizer: of the policy.
        eos_ids: of the policy.
        on_progress: called with (step, samples done, samples in all); may raise to end the evaluation.
    """

    def __init__(
        self,
        config: TrainConfig,
        run_dir: Path,
        ranks: Ranks,
        tokenizer: Any,
        eos_ids: Collection[int],
        on_progress: Callable[[int, int, int], None],
    ) -> None:
        self._config = config
        self._run_dir = run_dir
        self._ranks = ranks
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._on_progress = on_progress

    def at(self, step: int, engine: Engine) -> Evaluation:
        """Draw what is missing of the samples after a step, and sum them up."""
        return evaluate(
            engine,
            self._tokenizer,
            self._eos_ids,
            ks=self._config.eval.k,
            batch_size=self._config.train.generation_batch_size,
            ranks=self._ranks,
            on_progress=lambda done, total: self._on_progress(step, done, total),
            **self._samples(step),
        )

    def kept(self, step: int) -> Evaluation:
        """Sum up the samples after a step whose policy is there no more.

        Raises:
            UserError: if some are missing.
        """
        return self.at(step, _NoEngine())

    def check_kept(self, step: int, unfinished: bool) -> None:
        """See that the samples that a resumed run goes on with are those that it asks for.

        Args:
            step: from which it is resumed.
            unfinished: whether that step was still being evaluated.

        Raises:
            UserError: if they are not.
        """
        check_rows(**self._samples(0), complete=step > 0)
        if unfinished or step >= self._config.train.steps:
            check_rows(**self._samples(step), complete=False)

    def _samples(self, step: int) -> dict[str, Any]:
        """Which they are, and where they are kept."""
        settings, env = self._config.eval, self._config.eval_env
        return {
            "env": env.id,
            "rows_path": self._run_dir / "eval" / f"step-{step:06d}.jsonl",
            "options": env_options(self._config, env),
            "n": settings.n,
            "tasks": settings.tasks,
            "sampling": self._config.sampling.sampling(settings.temperature),
            "seed": derive(self._config.seed, "eval"),
            "identity": {"model": self._config.model.model_dump(mode="json"), "step": step},
        }


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
