"""Checkpoints: everything that affects the rest of a run, written whole or not at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from ..verifiers import UserError
from .models import save_policy
from .run_state import Stateful

_OPTIMIZER = "optimizer.pt"
_STATE = "state.json"


def save_checkpoint(folder: Path, step: int, model: Any, tokenizer: Any, state: Stateful, keep: int) -> Path:
    """Save the policy after `step` steps under `folder`/step-NNNNNN and delete all but the `keep` latest.

    The seeds of every draw are functions of the run's seed and the step, so weights, step and `state` (of the
    optimizer, and of what else is carried from step to step) are the whole.
    """
    final = folder / f"step-{step:06d}"
    partial = folder / f".{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    save_policy(model, tokenizer, partial)
    torch.save(state.state_dict(), partial / _OPTIMIZER)
    (partial / _STATE).write_text(json.dumps({"step": step}), encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints under `folder`, oldest first."""
    return sorted((path.parent for path in folder.glob(f"step-*/{_STATE}")), key=checkpoint_step)


def latest_checkpoint(folder: Path) -> Path:
    """The checkpoint to resume from.

    Raises:
        UserError: if there is none.
    """
    found = checkpoints(folder)
    if not found:
        raise UserError(f"The folder {folder} holds no checkpoint to resume from; start the run afresh.")
    return found[-1]


def checkpoint_step(checkpoint: Path) -> int:
    """How many steps the policy in `checkpoint` has had."""
    return int(json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))["step"])


def restore_state(checkpoint: Path, state: Stateful) -> None:
    """Load the saved state in place, onto the device of the weights, wherever it was saved."""
    state.load_state_dict(torch.load(checkpoint / _OPTIMIZER, map_location="cpu", weights_only=True))
