"""Checkpoints: everything that affects the rest of a run, written whole or not at all."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ..verifiers import UserError
from .checksums import changed_file, write_checksums
from .durable import interrupted, moved_aside, published, remove, restore_published
from .lora import has_adapter, save_adapter
from .models import save_policy
from .run_state import Stateful

_OPTIMIZER = "optimizer.pt"
_STATE = "state.json"
_NAMES = "step-*"
ADAPTER = "adapter"
_NUMBERED = re.compile(r"step-\d+|\.step-\d+\.old")
_UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
    SafetensorError,
    pickle.UnpicklingError,
)


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

    Raises:
        UserError: if it cannot be written, as on a full disk; then the older ones are as they were.
    """
    final = folder / f"step-{step:06d}"
    with published(final) as partial:
        with weights_written(final):
            if has_adapter(model):
                save_adapter(model, partial / ADAPTER)
            else:
                save_policy(model, tokenizer, partial)
        carried = state.state_dict()
        with weights_written(final, RuntimeError):
            torch.save(carried, partial / _OPTIMIZER)
        (partial / _STATE).write_text(json.dumps({"step": step, "pass@1": score}), encoding="utf-8")
        write_checksums(partial)
    found = checkpoints(folder)
    kept = {*found[-keep_last:], *best_checkpoints(folder)[:keep_best]}
    for path in found:
        if path not in kept:
            remove(path)
    return final


@contextmanager
def weights_written(folder: Path, *others: type[Exception]) -> Iterator[None]:
    """Says in a sentence that `folder` could not be written, which safetensors tells by an exception of its own.

    Args:
        folder: where the weights were to be.
        others: by which whatever else writes tells of a full disk.
    """
    failures: tuple[type[Exception], ...] = (SafetensorError, *others)
    try:
        yield
    except failures as error:
        raise UserError(
            f"{folder} cannot be written, perhaps because the disk is full ({_first_line(error)}); make room there and "
            "go on with --resume."
        ) from None


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints under `folder`, oldest first."""
    named = [*folder.glob(_NAMES), *moved_aside(folder, _NAMES)]
    # Copies with other names are the user's.
    return sorted((p for p in named if _NUMBERED.fullmatch(p.name) and (p / _STATE).is_file()), key=_step_in_name)


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
        UserError: if there is none, or if it is damaged.
    """
    found = checkpoints(folder)
    if not found:
        raise UserError(f"The folder {folder} holds no checkpoint to resume from; start the run afresh.")
    damage = _damage(found[-1])
    if damage is None:
        return found[-1]
    whole = next((path for path in reversed(found[:-1]) if _damage(path) is None), None)
    advice = (
        "there is no older one to go on from, so start the run afresh"
        if whole is None
        else f"delete that folder to go on from the one before it, {whole.name}"
        if whole == found[-2]
        else f"delete all that are newer than {whole.name}, which is whole, to go on from that"
    )
    raise UserError(f"The checkpoint {found[-1]} is damaged ({damage}); {advice}.")


def clear_interrupted(folder: Path) -> None:
    """Remove what a run that was killed left half written or half deleted."""
    for path in interrupted(folder, _NAMES):
        restore_published(path)


def checkpoint_step(checkpoint: Path) -> int:
    """How many steps the policy in `checkpoint` has had."""
    return int(_about(checkpoint)["step"])


def checkpoint_score(checkpoint: Path) -> float | None:
    """The pass@1 on held-out tasks of the policy in `checkpoint`, if it was evaluated."""
    try:
        score = _about(checkpoint).get("pass@1")
    except ValueError:  # damaged, and so not worth keeping
        return None
    return None if score is None else float(score)


def restore_state(checkpoint: Path, state: Stateful) -> None:
    """Load the saved state in place, onto the device of the weights, wherever it was saved."""
    state.load_state_dict(torch.load(checkpoint / _OPTIMIZER, map_location="cpu", weights_only=True))


def _about(checkpoint: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    return about


def _step_in_name(checkpoint: Path) -> int:
    return int(checkpoint.stem.rpartition("-")[2])


def _damage(checkpoint: Path) -> str | None:
    """What of a checkpoint cannot be read or is not what was written, if anything."""
    return _unreadable(checkpoint) or changed_file(checkpoint)


def _unreadable(checkpoint: Path) -> str | None:
    """What of a checkpoint cannot be read, as far as that can be told without reading all of it."""
    for path in (checkpoint / _STATE, checkpoint / _OPTIMIZER, *sorted(checkpoint.rglob("*.safetensors"))):
        try:
            if path.name == _STATE:
                int(_about(checkpoint)["step"])
            elif path.name == _OPTIMIZER:
                torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            else:
                with safe_open(path, framework="pt"):
                    pass
        except FileNotFoundError:
            return f"{path.name} is missing"
        except _UNREADABLE as error:
            return f"{path.relative_to(checkpoint)} cannot be read: {_first_line(error)}"
    return None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
