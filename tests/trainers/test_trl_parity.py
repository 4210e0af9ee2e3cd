"""The whole path from rewards to gradient beside TRL's, on the same model and the same completions."""

import copy
import math

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from rlvr import Verdict
from rlvr.trainers.advantages import group_advantages
from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.settings import TrainSettings
from rlvr.trainers.tiny import build_tokenizer
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Updater

GROUP, MAX_TOKENS = 4, 12
PROMPTS = ["1+1=", "(12-7)*3="]
COMPLETIONS = [["2", "3", "", "21"], ["15", "<think>5*3</think>15", "9", "15 ?"]]
CUT_OFF = [(0, 3), (1, 2)]  # (group, member) without an EOS
REWARDS = [[1.0, 0.0, 0.25, 0.0], [1.0, 1.0, 0.0, 0.5]]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def random_llama(tokenizer, random_llama):
    """With the special tokens of the tokenizer, which the trainer of TRL looks for."""
    cells = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return lambda seed=0: random_llama(seed, vocab_size=len(tokenizer), initializer_range=0.2, **cells)


@pytest.fixture(scope="module")
def trajectories(tokenizer):
    made = []
    for group, prompt in enumerate(PROMPTS):
        prompt_ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
        )
        for member, text in enumerate(COMPLETIONS[group]):
            ids = tokenizer.encode(text, add_special_tokens=False)
            cut_off = (group, member) in CUT_OFF
            ids = ids if cut_off else [*ids, tokenizer.eos_token_id]
            reward = REWARDS[group][member]
            made.append(
                Trajectory(
                    task_id=str(group),
                    group=group,
                    prompt=prompt,
                    completion=text,
                    ids=[*prompt_ids, *ids],
                    loss_mask=[0] * len(prompt_ids) + [1] * len(ids),
                    sampler_logprobs=[0.0] * (len(prompt_ids) + len(ids)),
                    entropies=None,
                    rewards=[reward],
                    verdict=Verdict(reward, reward >= 1),
                    finish_reason="length" if cut_off else "stop",
                )
            )
    return made


def trls(tokenizer, trajectories, model, reference, folder, rewards=None, **options):
    """TRL's trainer, about to train on these trajectories, and its inputs for them."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    wanted = [t.reward for t in trajectories] if rewards is None else rewards
    arguments = trl.GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        per_device_train_batch_size=len(trajectories),
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=MAX_TOKENS,
        temperature=1.0,
        **options,
    )
    rows = [{"prompt": [{"role": "user", "content": t.prompt}]} for t in trajectories]
    if reference is not None:
        # TRL loads the reference from where the policy says that it came from.
        reference.save_pretrained(folder / "reference")
        model.config._name_or_path = str(folder / "reference")
    # TRL's trainer seeds torch.
    with torch.random.fork_rng(devices=[]):
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: wanted,
            args=arguments,
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
        )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    prompts = [[i for i, m in zip(t.ids, t.loss_mask, strict=True) if not m] for t in trajectories]
    completions = [[i for i, m in zip(t.ids, t.loss_mask, strict=True) if m] for t in trajectories]
    texts = [t.completion for t in trajectories]
    trainer._generate = lambda *_: (prompts, completions, None, texts, None, {}, None, None)
    return trainer, trainer._generate_and_score_completions(rows)


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def ours(trajectories, model, reference, row):
    AcceleratorState._reset_state()
    batch = Batch.from_trajectories(trajectories, pad_id=0)
    updater = Updater(
        Accelerator(cpu=True),
        TokenLogprobs(model),
        None if reference is None else TokenLogprobs(reference.requires_grad_(False)),
        torch.optim.SGD(model.parameters()),
        row,
        TrainSettings(micro_batch_size=3),
        MAX_TOKENS,
        seed=0,
    )
    advantages = group_advantages(batch.rewards, batch.groups, row.advantage, row.std_ddof, row.std_eps)
    updater.accumulate(batch, advantages, updater.freeze(batch, advantages), torch.arange(len(batch)))
    return advantages, gradient(model)


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        ({"name": "grpo"}, {"loss_type": "grpo"}),
        ({"name": "dr_grpo"}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
        ({"name": "grpo", "aggregate": "token_mean"}, {"loss_type": "dapo"}),
        # TRL multiplies k3 by the ratio unless told not to.
        (
            {"name": "grpo", "kl_coef": 0.2},
            {"loss_type": "grpo", "beta": 0.2, "use_bias_correction_kl": False},
        ),
    ],
    ids=["grpo", "dr_grpo", "token_mean", "grpo with kl"],
)
def test_one_steps_gradient_is_trls(tokenizer, trajectories, tmp_path, cells, options, random_llama):
    row = Algorithm.model_validate(cells)
    model = random_llama()
    reference = random_llama(seed=1) if row.needs_reference else None
    advantages, mine = ours(trajectories, copy.deepcopy(model), reference, row)

    trainer, inputs = trls(
        tokenizer, trajectories, model, reference, tmp_path, beta=options.pop("beta", 0.0), **options
    )
    torch.testing.assert_close(advantages, inputs["advantages"], atol=1e-6, rtol=1e-6)
    assert (inputs["completion_mask"].sum(dim=1) == torch.tensor([t.length for t in trajectories])).all()
    trainer.compute_loss(trainer.model, inputs).backward()
    theirs = gradient(trainer.model)
    assert theirs.norm() > 0.1
    assert (mine - theirs).norm() <= 1e-5 * theirs.norm()


def test_ungraded_rows_and_groups_without_spread_have_trls_advantages(tokenizer, trajectories, tmp_path, random_llama):
    rewards = [1.0, None, 0.0, 0.0, 0.95, 0.95, 0.95, None]
    for name, scale in [("grpo", "group"), ("dr_grpo", "none")]:
        _, inputs = trls(tokenizer, trajectories, random_llama(), None, tmp_path, rewards, scale_rewards=scale)
        row = Algorithm.model_validate({"name": name})
        mine = group_advantages(
            torch.tensor([math.nan if reward is None else reward for reward in rewards]),
            torch.tensor([t.group for t in trajectories]),
            row.advantage,
            row.std_ddof,
            row.std_eps,
        )
        # TRL's mean of equal rewards is off by a rounding, which its epsilon keeps small; ours is exactly 0.
        torch.testing.assert_close(mine, inputs["advantages"], atol=1e-3, rtol=1e-6)
        assert mine[[1, 4, 5, 6, 7]].tolist() == [0.0] * 5
