"""Under torchrun: what is left of a sharded policy's weights after each use of it, as JSON to the folder named."""

import copy
import json
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rlvr.trainers import logprobs
from rlvr.trainers.devices import start_accelerator
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.lora import add_adapter
from rlvr.trainers.lora_settings import LoraSettings
from rlvr.trainers.parts import held, moved
from rlvr.trainers.ranks import ranks_of_this_run
from rlvr.trainers.settings import LogSettings
from rlvr.trainers.sharding import gathered, sharding_of_this_run
from rlvr.trainers.weights import named_weights

# Of each process, in so small chunks that they have different numbers of them.
ROWS = [torch.arange(3, 10)[None], torch.arange(20, 32)[None]]
logprobs._CHUNK_FLOATS = 3 * 51


def adapted_llama():
    sizes = {"vocab_size": 51, "hidden_size": 30, "intermediate_size": 47, "num_hidden_layers": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=3, num_key_value_heads=3)).eval()
        add_adapter(model, LoraSettings(r=3), 1, "random")
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter)
    return model.requires_grad_(True)


def logprobs_of(policy, ids):
    return policy(ids, torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool)).logprobs


def largest_difference(mine, theirs):
    assert mine.keys() == theirs.keys()
    return max(float((mine[name] - theirs[name]).abs().max()) for name in mine)


def here(model):
    """How many numbers this process holds of the weights."""
    parts = [held(parameter) for parameter in model.parameters()]
    return sum(getattr(part, "_local_tensor", part).numel() for part in parts) + sum(
        parameter.numel() for parameter in model.parameters() if held(parameter) is not parameter
    )


def main(folder):
    accelerator = start_accelerator(LogSettings(), "fp32", Path(folder))
    ranks = ranks_of_this_run()
    model = adapted_llama()
    plain = copy.deepcopy(model)
    count = here(model)
    policy = TokenLogprobs(model)
    sharding_of_this_run(ranks, accelerator.device).policy(policy)
    found = {"share": here(model) / count}
    said = logprobs_of(policy, ROWS[ranks.number])
    said.sum().backward()
    expected = TokenLogprobs(plain)
    for row in ROWS:
        logprobs_of(expected, row).sum().backward()
    found["share after a pass"] = here(model) / count
    found["gradients"] = max(
        float((part.grad.full_tensor().flatten()[: whole.numel()] - whole.grad.flatten()).abs().max())
        for part, whole in zip(moved(model.parameters()), moved(plain.parameters()), strict=True)
    )
    found["named weights"] = largest_difference(dict(named_weights(model)), dict(named_weights(plain)))
    with gathered(policy), torch.no_grad():
        # Alone: a process that needed the other one for it would wait for ever.
        if ranks.main:
            found["logits"] = float((model(ROWS[0]).logits - plain(ROWS[0]).logits).abs().max())
        ranks.gather(None)
    found["share after generating"] = here(model) / count
    with torch.no_grad():
        found["logprobs"] = float((logprobs_of(policy, ROWS[ranks.number]) - said).abs().max())
    Path(folder, f"{ranks.number}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
