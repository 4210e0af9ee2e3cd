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
from rlvr.trainers.credit import BanditCredit
from rlvr.trainers.entropy import EntropyLogprobs
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.settings import TrainSettings
from rlvr.trainers.tiny import build_tokenizer
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Frozen, Updater

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
                    truncated=cut_off,
                )
            )
    return made


def trls(tokenizer, trajectories, model, reference, folder, rewards=None, kind="GRPO", **options):
    """TRL's trainer, about to train on these trajectories, and its inputs for them."""
    datasets, trl = pytest.importorskip("datasets"), pytest.importorskip("trl")
    wanted = [t.reward for t in trajectories] if rewards is None else rewards
    arguments = getattr(trl, f"{kind}Config")(
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
        trainer = getattr(trl, f"{kind}Trainer")(
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
    generated = (prompts, completions, None, texts, None, {}, None, None)
    trainer._generate = lambda *_: generated if kind == "GRPO" else (prompts, completions, texts)
    return trainer, trainer._generate_and_score_completions(rows)


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def ours(trajectories, model, reference, row, drift):
    """Our advantages and gradient; the old log-probs are `drift` a token away from the policy's, if given."""
    AcceleratorState._reset_state()
    batch = Batch.from_trajectories(trajectories, pad_id=0)
    policy = (EntropyLogprobs if row.entropy_bonus else TokenLogprobs)(model)
    updater = Updater(
        Accelerator(cpu=True),
        policy,
        None if reference is None else TokenLogprobs(reference.requires_grad_(False)),
        torch.optim.SGD(model.parameters()),
        row,
        TrainSettings(micro_batch_size=3),
        MAX_TOKENS,
        seed=0,
    )
    before = updater.freeze(batch)
    advantages, _ = BanditCredit(row)(batch, before)
    old = None
    if drift is not None:
        with torch.no_grad():
            old = policy(batch.input_ids, batch.attention_mask, batch.loss_mask).logprobs
        old[batch.loss_mask] += drift
    updater.accumulate(batch, advantages, Frozen(old, before.reference_logprobs), torch.arange(len(batch)))
    return advantages.gather(1, batch.loss_mask.int().argmax(dim=1, keepdim=True))[:, 0], gradient(model)


GSPO = {"loss_type": "grpo", "importance_sampling_level": "sequence"}


@pytest.mark.slow
@pytest.mark.parametrize("drifted", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize(
    ("cells", "options"),
    [
        ({"name": "grpo"}, {"loss_type": "grpo"}),
        ({"name": "dr_grpo"}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
        ({"name": "dapo"}, {"loss_type": "dapo", "epsilon_high": 0.28}),
        ({"name": "gspo"}, {**GSPO, "epsilon": 3e-4, "epsilon_high": 4e-4}),
        ({"name": "gspo", "clip_low": 0.05, "clip_high": 0.05}, {**GSPO, "epsilon": 0.05}),
        # The upper bound of TRL's CISPO is the ratio itself, and it has no lower one.
        ({"name": "cispo", "clip_low": 1.0, "clip_high": 0.2}, {"loss_type": "cispo", "epsilon_high": 1.2}),
        # TRL multiplies k3 by the ratio unless told not to.
        (
            {"name": "grpo", "kl_coef": 0.2},
            {"loss_type": "grpo", "beta": 0.2, "use_bias_correction_kl": False},
        ),
        ({"name": "grpo", "entropy_coef": 0.3}, {"loss_type": "grpo", "entropy_coef": 0.3}),
        ({"name": "dr_grpo", "truncated": "mask"}, {"loss_type": "dr_grpo", "scale_rewards": "none", "mask": True}),
    ],
    ids=["grpo", "dr_grpo", "dapo", "gspo", "gspo, wide", "cispo", "grpo with kl", "grpo with entropy", "mask"],
)
def test_one_steps_gradient_is_trls(tokenizer, trajectories, tmp_path, cells, options, drifted, random_llama):
    row = Algorithm.model_validate(cells)
    model = random_llama()
    reference = random_llama(seed=1) if row.needs_reference else None
    tokens = sum(trajectory.length for trajectory in trajectories)
    drift = torch.linspace(-0.4, 0.35, tokens) if drifted else None
    advantages, mine = ours(trajectories, copy.deepcopy(model), reference, row, drift)

    options = dict(options)
    mask_truncated = options.pop("mask", False)
    options = {"beta": 0.0, "mask_truncated_completions": mask_truncated, **options}
    trainer, inputs = trls(tokenizer, trajectories, model, reference, tmp_path, **options)
    torch.testing.assert_close(advantages, inputs["advantages"], atol=1e-6, rtol=1e-6)
    if drift is not None:
        assert not mask_truncated or (inputs["completion_mask"].sum() < tokens)
        inputs["old_per_token_logps"] = old_of_trls(trainer, inputs, trajectories, drift)
    trainer.compute_loss(trainer.model, inputs).backward()
    theirs = gradient(trainer.model)
    assert theirs.norm() > 0.01
    assert (mine - theirs).norm() <= 1e-5 * theirs.norm()


def old_of_trls(trainer, inputs, trajectories, drift):
    """Log-probs of the policy, `drift` a loss token away, where TRL has them: (rows, completion width)."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    lengths = torch.tensor([t.length for t in trajectories])
    generated = torch.arange(inputs["completion_ids"].shape[1]) < lengths[:, None]
    attended = torch.cat([inputs["prompt_mask"], generated.long()], dim=1)
    with torch.no_grad():
        old = trainer._get_per_token_logps_and_entropies(trainer.model, ids, attended, generated.shape[1])[0]
    old[generated] += drift
    return old


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_one_steps_gradient_of_rloo_is_trls(tokenizer, trajectories, tmp_path, beta, random_llama):
    """TRL has the ratio of a sequence where there is none here; in a first pass it is 1 and its gradient the same."""
    row = Algorithm.model_validate({"name": "rloo", "kl_coef": beta})
    model = random_llama()
    reference = random_llama(seed=1) if row.needs_reference else None
    advantages, mine = ours(trajectories, copy.deepcopy(model), reference, row, None)
    trainer, inputs = trls(tokenizer, trajectories, model, reference, tmp_path, kind="RLOO", beta=beta)
    torch.testing.assert_close(advantages, inputs["advantages"], atol=1e-5, rtol=1e-5)
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
