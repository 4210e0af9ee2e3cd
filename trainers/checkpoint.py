"""Checkpoints: everything that affects the rest of a run, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from ..verifiers import UserError
from .durable import interrupted, moved_aside, published, remove, restore_published
from .lora import has_adapter, save_adapter
from .models import save_policy
from .run_state import Stateful

_OPTIMIZER = "optimizer.pt"
_STATE = "state.json"
_NAMES = "step-*"
ADAPTER = "adapter"


def save_checkpoint(
    folder: Path,
    step: int,
    model: Any,
    tokenizer: Any,
    state: Stateful,
    keep_last: int,
    keep_best: int = 0,
    score: float | None = None,
) -> Path:
    """Save the policy after `step` steps under `folder`/step-NNNNNN; delete what is neither recent nor good.

    The seeds of every draw are functions of the run's seed and the step, so weights, step and `state` (of the
    optimizer, and of what else is carried from step to step) are the whole.

    Args:
        folder: of the run's checkpoints.
        step: how many steps the policy has had.
        model: the policy; of one with an adapter, the adapter alone is saved.
        tokenizer: its tokenizer.
        state: the rest of the run.
        keep_last: how many of the latest are kept.
        keep_best: how many of those with the highest scores are kept besides.
        score: the policy's pass@1 on held-out tasks, if it was evaluated.
    """
    final = folder / f"step-{step:06d}"
    with published(final) as partial:
        if has_adapter(model):
            save_adapter(model, partial / ADAPTER)
        else:
            save_policy(model, tokenizer, partial)
        torch.save(state.state_dict(), partial / _OPTIMIZER)
        # Last, since it is what makes the folder a checkpoint.
        (partial / _STATE).write_text(json.dumps({"step": step, "pass@1": score}), encoding="utf-8")
    found = checkpoints(folder)
    kept = {*found[-keep_last:], *best_checkpoints(folder)[:keep_best]}
    for path in found:
        if path not in kept:
            remove(path)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints under `folder`, oldest first."""
    named = [*folder.glob(_NAMES), *moved_aside(folder, _NAMES)]
    return sorted((path for path in named if (path / _STATE).is_file()), key=checkpoint_step)


def best_checkpoints(folder: Path) -> list[Path]:
    """Those whose policy was evaluated, the best first; of equals, the older one."""
    scored = [path for path in checkpoints(folder) if checkpoint_score(path) is not None]
    return sorted(scored, key=lambda path: -(checkpoint_score(path) or 0.0))


def is_among_best(folder: Path, score: float, keep_best: int) -> bool:
    """Whether a checkpoint of that score is one of the `keep_best` best so far."""
    scores = [checkpoint_score(path) for path in best_checkpoints(folder)[:keep_best]]
    return sum(other is not None and other >= score for other in scores) < keep_best


def latest_checkpoint(folder: Path) -> Path:
    """The checkpoint to resume from.

    Raises:
        UserError: if there is none.
    """
    found = checkpoints(folder)
    if not found:
        raise UserError(f"The folder {folder} holds no checkpoint to resume from; start the run afresh.")
    return found[-1]


def clear_interrupted(folder: Path) -> None:
    """Remove what a run that was killed left half written or half deleted."""
    for path in interrupted(folder, _NAMES):
        restore_published(path)


def checkpoint_step(checkpoint: Path) -> int:
    """How many steps the policy in `checkpoint` has had."""
    return int(_about(checkpoint)["step"])


def checkpoint_score(checkpoint: Path) -> float | None:
    """The pass@1 on held-out tasks of the policy in `checkpoint`, if it was evaluated."""
    score = _about(checkpoint).get("pass@1")
    return None if score is None else float(score)


def restore_state(checkpoint: Path, state: Stateful) -> None:
    """Load the saved state in place, onto the device of the weights, wherever it was saved."""
    state.load_state_dict(torch.load(checkpoint / _OPTIMIZER, map_location="cpu", weights_only=True))


def _about(checkpoint: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    return about
