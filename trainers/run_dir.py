"""The folder of a run: who may write in it, and what of it a resumed run goes on from."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ..verifiers import UserError
from .checkpoint import clear_interrupted
from .durable import interrupted, remove, restore_published, write_text

if TYPE_CHECKING:
    from .settings import TrainConfig

CONFIG = "config.yaml"
_FINAL = "final"
_SUMMARY = "summary.json"

# The folders that this process writes in, with the descriptors that lock them.
_held: dict[Path, int] = {}


def claim(run_dir: Path, resume: bool) -> None:
    """Make the folder of a run, and keep others out of it.

    What an earlier process left there half written is removed, but not where a run is gone on with, which may still be
    refused: there `forget_after` does it.

    Raises:
        UserError: if it holds a run and is not to be gone on with, if it is not there and is, if another process is
            writing in it, or if it cannot be made.
    """
    if run_dir.is_dir():
        _lock(run_dir)
    elif resume:
        raise UserError(f"There is no folder {run_dir} to resume a run in; name its directory.")
    if not resume and _holds_run(run_dir):
        raise UserError(
            f"The folder {run_dir} already holds a run; go on with it by --resume {run_dir}, "
            "or set run_dir to another folder."
        )
    if not resume:
        clear_interrupted(run_dir / "checkpoints")
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {run_dir} cannot be made ({error.strerror}); set run_dir to another.") from None
    _lock(run_dir)


def _holds_run(run_dir: Path) -> bool:
    folder = run_dir / "checkpoints"
    return (run_dir / "metrics.jsonl").exists() or any(folder.glob("step-*")) or any(folder.glob(".step-*.old"))


def release(run_dir: Path) -> None:
    """Let other processes write in a folder that was claimed."""
    descriptor = _held.pop(run_dir.resolve(), None)
    if descriptor is not None:
        os.close(descriptor)


def _lock(run_dir: Path) -> None:
    place = run_dir.resolve()
    if place in _held:
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"Another process is writing the run in {run_dir}; wait for its end, or set run_dir to another folder."
        ) from None
    except OSError:  # A file system without locks.
        os.close(descriptor)
    else:
        _held[place] = descriptor


def was_cut_short(run_dir: Path) -> bool:
    """Whether a run began here and did not come to an end, so that without a checkpoint it begins anew."""
    return (run_dir / CONFIG).exists() and not (run_dir / _FINAL).exists() and not (run_dir / _SUMMARY).exists()


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every setting of a run, defaults included, so that the file alone repeats it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def forget_after(run_dir: Path, step: int) -> None:
    """Remove what a run wrote after `step`, from which it is resumed: evaluations, samples, its end, half checkpoints.

    Rows of an evaluation at `step` itself stay, for an interrupted one goes on with them.
    """
    for folder, suffix in (("eval", ".jsonl"), ("eval", ".about.json"), ("samples", ".txt")):
        for path in (run_dir / folder).glob(f"step-*{suffix}"):
            if int(path.name.removesuffix(suffix).removeprefix("step-")) > step:
                path.unlink()
    clear_interrupted(run_dir / "checkpoints")
    for path in interrupted(run_dir, _FINAL):
        restore_published(path)
    if (run_dir / _FINAL).exists():
        remove(run_dir / _FINAL)
    (run_dir / _SUMMARY).unlink(missing_ok=True)
