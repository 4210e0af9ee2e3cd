"""Making a vLLM worker fit for new weights after a reload that failed half-way."""

from __future__ import annotations

from torch import nn


def give_up_reload(model: nn.Module) -> None:
    """Put back the tensors of the layers that were not reloaded.

    A reload of vLLM 0.32 takes the tensors of all layers out first, and puts those of a layer back when it is through
    with it. Where it fails in the middle, the others stay without, and the weights that it has kept for them would be
    loaded once more next time. What the model has afterwards is of two versions, until it is given weights again.
    """
    from vllm.model_executor.model_loader.reload import layerwise

    for layer in model.modules():
        info = layerwise.get_layerwise_info(layer)
        if not info.can_load():
            continue
        if info.kernel_tensors is not None:
            layerwise._place_kernel_tensors(layer, info)
        info.reset()
    layerwise.LOADING_LAYERS.clear()
