"""Packed copies of tied weights, which vLLM's reload in place leaves behind on a CPU."""

from __future__ import annotations

from typing import Any


def repack_tied_weights(model: Any) -> list[str]:
    """Pack anew every weight of which a CPU kernel holds a copy beside the weight itself.

    A head that is tied to the embeddings has its own packed copy of them. vLLM (0.32) renews the packed copy of a
    layer when a weight with the layer's name is loaded, and a tied head's never is: its copy would stay that of the
    weights that vLLM started with. Kernels of GPUs keep no such copies, and there is nothing to do.

    Args:
        model: vLLM's model, after its weights were reloaded.

    Returns:
        The names of the layers that were packed.
    """
    packed = []
    for name, layer in model.named_modules():
        if hasattr(layer, "cpu_linear") and layer.weight.numel():
            layer.quant_method.process_weights_after_loading(layer)
            packed.append(name)
    return packed
