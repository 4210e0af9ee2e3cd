"""The folder of a run: who may write in it, and what of it a resumed run goes on from."""

from __future__ import annotations

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


def claim(run_dir: Path, resume: bool) -> None:
    """Make the folder of a run, without what an earlier process left there half written.

    Raises:
        UserError: if it holds a run and is not to be gone on with, or cannot be made.
    """
    clear_interrupted(run_dir / "checkpoints")
    if not resume and ((run_dir / "metrics.jsonl").exists() or any((run_dir / "checkpoints").glob("step-*"))):
        raise UserError(
            f"The folder {run_dir} already holds a run; go on with it by --resume {run_dir}, "
            "or set run_dir to another folder."
        )
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {run_dir} cannot be made ({error.strerror}); set run_dir to another.") from None


def was_cut_short(run_dir: Path) -> bool:
    """Whether a run began here and did not come to an end, so that without a checkpoint it begins anew."""
    return (run_dir / CONFIG).exists() and not (run_dir / _FINAL).exists() and not (run_dir / _SUMMARY).exists()


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every setting of a run, defaults included, so that the file alone repeats it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def forget_after(run_dir: Path, step: int) -> None:
    """Remove what a run wrote after `step`, from which it is resumed: evaluations, samples, and its end.

    Rows of an evaluation at `step` itself stay, for an interrupted one goes on with them.
    """
    for folder, suffix in (("eval", ".jsonl"), ("eval", ".about.json"), ("samples", ".txt")):
        for path in (run_dir / folder).glob(f"step-*{suffix}"):
            if int(path.name.removesuffix(suffix).removeprefix("step-")) > step:
                path.unlink()
    for path in interrupted(run_dir, _FINAL):
        restore_published(path)
    if (run_dir / _FINAL).exists():
        remove(run_dir / _FINAL)
    (run_dir / _SUMMARY).unlink(missing_ok=True)
