"""Under torchrun: the gradient of every algorithm by one process and by all of them, as JSON to the file named."""

import json
import math
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

from rlvr import Verdict
from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.credit import BanditCredit
from rlvr.trainers.critic import build_critic
from rlvr.trainers.critic_settings import CriticSettings
from rlvr.trainers.critic_updates import CriticTally, CriticUpdates
from rlvr.trainers.entropy import EntropyLogprobs
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.ppo import ActorCriticUpdater, CriticCredit
from rlvr.trainers.ranks import Ranks, ranks_of_this_run
from rlvr.trainers.settings import TrainSettings
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Frozen, Tally, Updater

NAN, EOS = float("nan"), 1
SHAPES = [(3, 8), (3, 1), (3, 5), (3, 2), (6, 4), (6, 7), (6, 1), (6, 9)]
REWARDS = [1.0, 0.0, 0.25, 1.0, 0.0, NAN, 1.0, 0.0]
CUT_OFF = [0, 4, 7]

CELLS = [{"name": name} for name in ALGORITHMS] + [
    {"name": "reinforce", "advantage": "moving_average"},
    {"name": "rloo", "kl_coef": 0.1},
    {"name": "reinforce_pp", "kl_coef": 0.1},
    {"name": "grpo", "kl_coef": 0.3, "truncated": "mask", "entropy_coef": 0.2},
    {"name": "cispo", "ratio": "sequence"},
    {"name": "ppo", "kl_coef": 0.1, "bootstrap_truncated": True, "entropy_coef": 0.1},
]
MICRO_BATCH_SIZES = [1, 3]


def random_llama(seed):
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = LlamaConfig(**sizes, num_attention_heads=2, max_position_embeddings=64, initializer_range=0.2)
        return LlamaForCausalLM(config).eval().double()


def trajectories():
    generator, made = torch.Generator().manual_seed(7), []
    for row, (reward, (prompt, completion)) in enumerate(zip(REWARDS, SHAPES, strict=True)):
        ids = torch.randint(2, 50, (prompt + completion - 1,), generator=generator).tolist()
        if row % 4:
            ids[:prompt] = made[-1].ids[:prompt]
        cut_off = row in CUT_OFF
        made.append(
            Trajectory(
                task_id=str(row // 4),
                group=row // 4,
                prompt="",
                completion="",
                ids=[*ids, 7 if cut_off else EOS],
                loss_mask=[0] * prompt + [1] * completion,
                sampler_logprobs=[0.0] * prompt + [-1.0] * completion,
                entropies=None,
                rewards=[reward],
                verdict=Verdict(None, None, "error") if math.isnan(reward) else Verdict(reward, reward >= 1),
                finish_reason="length" if cut_off else "stop",
                truncated=cut_off,
            )
        )
    return made


def learner(accelerator, ranks, cells, kind, size):
    row = Algorithm.model_validate(cells)
    model = random_llama(0)
    policy = EntropyLogprobs if row.entropy_bonus else TokenLogprobs
    given = {
        "accelerator": accelerator,
        "policy": policy(model, 0.8),
        "reference": TokenLogprobs(random_llama(1).requires_grad_(False), 0.8) if row.needs_reference else None,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "algorithm": row,
        "settings": TrainSettings(epochs=2, micro_batch_size=size),
        "max_tokens": 9,
        "seed": 3,
        "ranks": ranks,
    }
    if not row.needs_critic:
        return Updater(**given), BanditCredit(row)
    critic = build_critic(model, shared=kind == "shared")
    with torch.no_grad():
        critic.head.weight.copy_(torch.randn(1, 32, generator=torch.Generator().manual_seed(5)))
    credit = CriticCredit(CriticUpdates(accelerator, critic, CriticSettings(kind=kind), size, 1e9, ranks), row)
    return ActorCriticUpdater(credit, **given), credit


def gradient(accelerator, ranks, cells, kind, size):
    """Of one optimizer step over all rows, and what is told of it."""
    updater, credit = learner(accelerator, ranks, cells, kind, size)
    batch, rows, tally = Batch.from_trajectories(trajectories(), 0), torch.arange(len(REWARDS)), Tally()
    frozen = updater.freeze(batch)
    advantages, _ = credit(batch, frozen if updater.algorithm.kl_in_reward else None)
    noise = torch.linspace(-0.5, 0.5, 37)[(batch.input_ids * 17) % 37].masked_fill(~batch.loss_mask, 0.0)
    frozen = Frozen(frozen.old_logprobs + noise, frozen.reference_logprobs)
    updater.accumulate(batch, advantages, frozen, rows, tally)
    parameters, told = list(updater.policy.parameters()), tally.metrics()
    if isinstance(credit, CriticCredit):
        of_critic = CriticTally()
        credit.critic.accumulate(batch, credit.estimates, rows, of_critic)
        told |= of_critic.metrics()
        parameters = [*updater.policy.parameters(), *credit.critic.critic.own_parameters()]
    ranks.sum_gradients(parameters)
    return torch.cat([p.grad.flatten().double() for p in parameters]), told


def main(path):
    accelerator = Accelerator(cpu=True)
    ranks, found = ranks_of_this_run(), []
    for cells in CELLS:
        for kind in ("separate", "shared") if Algorithm.model_validate(cells).needs_critic else ("",):
            for size in MICRO_BATCH_SIZES:
                alone, told_alone = gradient(accelerator, Ranks(), cells, kind, size)
                shared, told = gradient(accelerator, ranks, cells, kind, size)
                assert told.keys() == told_alone.keys()
                found.append(
                    {
                        "case": f"{cells} {kind} {size}",
                        "norm": float(alone.norm()),
                        "difference": float((shared - alone).norm() / alone.norm()),
                        "told": max(abs(told[name] - told_alone[name]) for name in told),
                        "processes": ranks.count,
                    }
                )
    if ranks.main:
        Path(path).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
