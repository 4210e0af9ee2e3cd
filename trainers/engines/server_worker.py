"""What the workers of a vLLM server do for us, in their own processes, when they are told to over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from .model_sizes import sizes_of
from .reload_recovery import give_up_reload
from .tied_weights import repack_tied_weights
from .weight_check import SentWeights, held_bit_sums, stale_weights


class CheckingWorker:
    """Loads weights and looks whether they are there; for vLLM's `--worker-extension-cls`."""

    model_runner: Any

    def model_sizes(self) -> dict[str, int]:
        """How large the model is, so that another one's weights are not even sent."""
        return sizes_of(self.model_runner.vllm_config.model_config.hf_config)

    def load_checked(self, folder: str) -> list[str]:
        """Load the safetensors of a folder in place.

        Returns:
            Names of weights that are not, or not all, what the folder holds; of a worker that holds a shard of the
            model nothing can be told.

        Raises:
            RuntimeError: if a weight does not fit; the worker can be given others.
        """
        model, config = self.model_runner.get_model(), self.model_runner.vllm_config
        sent = SentWeights(_tensors(Path(folder)), config.model_config.dtype)
        # vLLM's own reload in place; unlike the model's `load_weights` it goes through the kernels' layouts again.
        try:
            self.model_runner.reload_weights(weights_iterator=iter(sent))
        except Exception as error:
            give_up_reload(model)
            # vLLM passes on no more than the words of an error, and some of its own have none.
            raise RuntimeError(f"at the weight {sent.last}: {error or type(error).__name__}") from error
        repack_tied_weights(model)
        if config.parallel_config.world_size > 1:
            return []
        fused = getattr(model, "packed_modules_mapping", None) or {}
        stale = stale_weights(sent.bit_sums, held_bit_sums(model, config.model_config.dtype), fused)
        return stale if sent.all_taken else [*stale, "some"]


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"there are no weights in {folder}")
    for file in files:
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (no mapping)
                yield name, opened.get_tensor(name)
