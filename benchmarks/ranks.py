"""How much faster two processes update than one: tokens a second, and the efficiency T2 / (2 T1).

    python benchmarks/ranks.py [--processes 2] [--sharded [zero3]]

Starts itself twice, with one process and with several (torchrun, gloo), each on one thread, so that two processes have
two cores where one has one. Both do the same optimizer steps of GRPO on the same rollout: 64 completions of 48 to 128
tokens to 16 prompts, every row with an advantage, micro-batches of 8 rows, a random Llama of 11 million parameters. The
time is that of `Updater.step`: forward and backward passes, the sum of the gradients over the processes, clipping,
AdamW. The median of the steps after the first is shown. With `--sharded` the several processes hold a part of every
weight each (by FSDP2, or by DeepSpeed). On a machine that others use the numbers say little: run it when it is quiet.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

STEPS = 5
SHARDING = {
    "fsdp2": {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"},
    "zero3": {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sharded", nargs="?", const="fsdp2", choices=list(SHARDING))
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    alone, together = rate(1, {}), rate(arguments.processes, SHARDING.get(arguments.sharded, {}))
    print("| processes | update tokens/s | efficiency |\n|---|---|---|")
    print(f"| 1 | {alone:.0f} | 1.00 |")
    kind = f"{arguments.processes}{f', {arguments.sharded}' if arguments.sharded else ''}"
    print(f"| {kind} | {together:.0f} | {together / (arguments.processes * alone):.2f} |")


def rate(processes: int, variables: dict[str, str]) -> float:
    """Tokens a second, as the main process of a run of its own measures them."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rate.json"
        command = [sys.executable, *launcher, str(Path(__file__).resolve()), "--measure", str(out)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        subprocess.run(command, env=environment, check=True)
        return float(json.loads(out.read_text()))


def measure(out: Path) -> None:
    import torch

    from rlvr.trainers.algorithms import Algorithm
    from rlvr.trainers.devices import start_accelerator
    from rlvr.trainers.logprobs import TokenLogprobs
    from rlvr.trainers.parts import moved
    from rlvr.trainers.ranks import ranks_of_this_run
    from rlvr.trainers.settings import LogSettings, TrainSettings
    from rlvr.trainers.sharding import sharding_of_this_run
    from rlvr.trainers.trajectory import Batch
    from rlvr.trainers.update import Updater

    accelerator = start_accelerator(LogSettings(), "fp32", out.parent)
    ranks = ranks_of_this_run()
    policy = TokenLogprobs(random_llama())
    shards = sharding_of_this_run(ranks, accelerator.device)
    if shards is not None:
        shards.policy(policy)
    optimizer = torch.optim.AdamW(moved(policy.parameters()), lr=1e-5, fused=True)
    settings = TrainSettings(micro_batch_size=8)
    updater = Updater(
        accelerator, policy, None, optimizer, Algorithm.model_validate({"name": "grpo"}), settings, 128, 0, ranks
    )
    batch = Batch.from_trajectories(rollout(), 0)
    advantages = torch.linspace(-1.0, 1.0, len(batch))
    seconds = []
    for step in range(STEPS + 1):
        started = time.perf_counter()
        updater.step(batch, advantages, step)
        seconds.append(time.perf_counter() - started)
    if ranks.main:
        out.write_text(json.dumps(int(batch.attention_mask.sum()) / median(seconds[1:])))


def random_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 320, "intermediate_size": 864, "num_hidden_layers": 8, "num_attention_heads": 5}
    return LlamaForCausalLM(LlamaConfig(vocab_size=2000, **sizes, tie_word_embeddings=True)).eval()


def rollout():
    import torch

    from rlvr import Verdict
    from rlvr.trainers.trajectory import Trajectory

    generator, made = torch.Generator().manual_seed(1), []
    for row in range(64):
        prompt, completion = 32, 48 + (row * 37) % 81
        ids = torch.randint(2, 2000, (prompt + completion,), generator=generator).tolist()
        if row % 4:
            ids[:prompt] = made[-1].ids[:prompt]
        made.append(
            Trajectory(
                task_id=str(row // 4),
                group=row // 4,
                prompt="",
                completion="",
                ids=ids,
                loss_mask=[0] * prompt + [1] * completion,
                sampler_logprobs=[0.0] * len(ids),
                entropies=None,
                rewards=[1.0],
                verdict=Verdict(1.0, True),
                finish_reason="stop",
            )
        )
    return made


if __name__ == "__main__":
    main()
