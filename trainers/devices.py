"""The devices and processes of a run, as accelerate found them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import GradientAccumulationPlugin

from ..verifiers import UserError
from .settings import LogSettings
from .sharding import asked_for, check_sharding_settings

# What `accelerate launch` sets for ways to share a model that the loop does not know.
_UNSUPPORTED = {
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism_config",
}


def start_accelerator(log: LogSettings, precision: str, run_dir: Path) -> Accelerator:
    """Join the processes of this run, and find this one's device.

    Raises:
        UserError: if a tracker is not installed, or the run was started in a way that is not supported.
    """
    for tracker in log.trackers:
        if importlib.util.find_spec(tracker) is None:  # accelerate would go on without it, silently
            raise UserError(
                f"The tracker {tracker!r} is not installed; pip install {tracker}, or take it out of log.trackers."
            )
    for variable, name in _UNSUPPORTED.items():
        if asked_for(variable):
            raise UserError(
                f"This run was started with {name}, which the training loop does not work with; start it with FSDP2, "
                "which shards the same (configs/accelerate/fsdp2.yaml)."
            )
    check_sharding_settings()
    _import_deepspeed()
    # The state is one a process and refuses another precision, which a second trainer may want.
    AcceleratorState._reset_state()
    with _without("ACCELERATE_USE_DEEPSPEED"):
        return Accelerator(
            mixed_precision={"fp32": "no", "bf16": "bf16"}[precision],
            # Else ACCELERATE_GRADIENT_ACCUMULATION_STEPS, which `accelerate launch` sets, would divide every loss.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
            log_with=list(log.trackers) or None,
            project_dir=run_dir,
        )


def _import_deepspeed() -> None:
    """Import DeepSpeed, if it is there, before the processes join; accelerate does it when it saves a model.

    Imported later it keeps their group for good, as a default argument, and the group its threads.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1" or importlib.util.find_spec("deepspeed") is None:
        return
    if asked_for("ACCELERATE_USE_CPU"):
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    importlib.import_module("deepspeed")


@contextmanager
def _without(variable: str) -> Iterator[None]:
    """What accelerate does where it is told of DeepSpeed (loss, precision, loading) is for DeepSpeed's own engine."""
    kept = os.environ.pop(variable, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[variable] = kept


def open_trackers(accelerator: Accelerator, log: LogSettings) -> None:
    """Begin a run with every tracker that was asked for."""
    if log.trackers:
        accelerator.init_trackers(log.project)


def finish(accelerator: Accelerator) -> None:
    """Close the trackers; the processes stay joined, for whatever else they do."""
    for tracker in accelerator.trackers:
        tracker.finish()
