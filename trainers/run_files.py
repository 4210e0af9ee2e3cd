"""What a run writes into its folder, and what of it a resumed run takes up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import run_dir as run_dirs
from .checkpoint import (
    best_checkpoints,
    checkpoint_score,
    checkpoint_step,
    checkpoints,
    is_among_best,
    latest_checkpoint,
    save_checkpoint,
    weights_written,
)
from .critic import Critic, save_critic
from .durable import published, sync, sync_tree, write_text
from .evaluate import Evaluation
from .metrics import MetricsLog
from .models import save_policy
from .run_state import Stateful
from .settings import TrainConfig


class RunFiles:
    """The folder of a run; of several processes, the main one alone is to call any of this.

    Args:
        config: the run.
        run_dir: the folder.
        say: is told what happens.
    """

    def __init__(self, config: TrainConfig, run_dir: Path, say: Callable[[str], None]) -> None:
        self._config = config
        self._run_dir = run_dir
        self._checkpoints = run_dir / "checkpoints"
        self._say = say

    def claim(self, resume: bool) -> Path | None:
        """Make the folder this run's; the checkpoint to go on from, if there is one.

        Raises:
            UserError: see `run_dir.claim`; or if the run is to be gone on with and has no whole checkpoint.
        """
        run_dirs.claim(self._run_dir, resume)
        if resume:
            return self._checkpoint_to_resume()
        # At once, so that what is killed before it has begun can be resumed.
        self.save_config()
        return None

    def _checkpoint_to_resume(self) -> Path | None:
        """The latest checkpoint; None where the run was cut short before it had one."""
        if checkpoints(self._checkpoints) or not run_dirs.was_cut_short(self._run_dir):
            return latest_checkpoint(self._checkpoints)
        self._say("the run was cut short before its first checkpoint, so it begins anew")
        return None

    def save_config(self) -> None:
        """Write the configuration, by which the run is gone on with or repeated."""
        config = self._config.model_copy(update={"run_dir": str(self._run_dir)})
        run_dirs.save_config(config, self._run_dir / run_dirs.CONFIG)

    def forget_after(self, step: int, log: MetricsLog, logged: int) -> None:
        """Remove what was written after the step that the run is resumed from.

        Args:
            step: that step.
            log: of the metrics.
            logged: up to which step the log should have lines.
        """
        left = log.forget_after(logged)
        if left < logged:
            self._say(
                f"warning: {log.path} holds {left} of the {logged} steps before, so curves drawn from it lack the "
                "others; the training itself goes on as if it held them all"
            )
        run_dirs.forget_after(self._run_dir, step)

    def is_among_best(self, score: float) -> bool:
        """Whether a policy of that score is one to keep a checkpoint of."""
        return is_among_best(self._checkpoints, score, self._config.checkpoint.keep_best)

    def write_checkpoint(
        self, step: int, model: Any, tokenizer: Any, state: Stateful, score: float | None, log: MetricsLog
    ) -> Path:
        """A checkpoint; see `save_checkpoint`."""
        # Whatever is not of later steps has to be there when the run is resumed, even after a power cut.
        if log.path.exists():
            sync(log.path)
        for name in ("eval", "samples"):
            sync_tree(self._run_dir / name)
        settings = self._config.checkpoint
        return save_checkpoint(
            self._checkpoints, step, model, tokenizer, state, settings.keep_last, settings.keep_best, score
        )

    def write_final(self, model: Any, tokenizer: Any, critic: Critic | None) -> None:
        """The policy that was trained, and its critic, in Hugging Face format."""
        with published(self._run_dir / "final") as final, weights_written(self._run_dir / "final"):
            save_policy(model, tokenizer, final)
            if critic is not None:
                save_critic(critic, final / "critic")

    def write_summary(self, step: int, results: Mapping[str, Evaluation]) -> None:
        """How many steps the policy has had, what the evaluations said, and which checkpoint is the best."""
        summary: dict[str, Any] = {"steps": step}
        summary |= {name: asdict(evaluation) for name, evaluation in results.items()}
        best = best_checkpoints(self._checkpoints)
        if self._config.checkpoint.keep_best and best:
            place = str(best[0].relative_to(self._run_dir))
            summary["best"] = {
                "step": checkpoint_step(best[0]), "pass@1": checkpoint_score(best[0]), "checkpoint": place
            }  # fmt: skip
        # JSON has no NaN: a number that is none is written as null.
        standard = json.loads(json.dumps(summary), parse_constant=lambda _: None)
        write_text(self._run_dir / "summary.json", json.dumps(standard, indent=2) + "\n")
