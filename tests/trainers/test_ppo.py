import copy
import math
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from torch.nn.functional import pad

from rlvr import Verdict
from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.critic import build_critic
from rlvr.trainers.critic_settings import CriticSettings
from rlvr.trainers.critic_updates import CriticUpdates
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.ppo import ActorCriticUpdater, CriticCredit
from rlvr.trainers.settings import TrainConfig, TrainSettings
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Tally

EOS, PAD = 1, 0

# Completions of each turn and the observation between two, in tokens; rewards a turn. No two rows are of one length.
ROWS = [
    ([4], [1.0]),
    ([1], [0.0]),
    ([3, -2, 2], [0.25, 1.0]),
    ([6], [0.5]),
    ([2, -3, 1, -1, 5], [0.0, -0.5, 1.0]),
    ([5], [0.0]),
    ([8], [0.0]),
    ([2], [1.0]),
]


def trajectories():
    generator = torch.Generator().manual_seed(7)
    made = []
    for row, (pieces, rewards) in enumerate(ROWS):
        mask = [0] * 3
        for piece in pieces:
            mask += [int(piece > 0)] * abs(piece)
        ids = torch.randint(2, 50, (len(mask) - 1,), generator=generator).tolist()
        made.append(
            Trajectory(
                task_id=str(row // 4),
                group=row // 4,
                prompt="",
                completion="",
                ids=[*ids, EOS],
                loss_mask=mask,
                sampler_logprobs=[0.0] * len(mask),
                entropies=None,
                rewards=rewards,
                verdict=Verdict(rewards[-1], rewards[-1] >= 1),
                finish_reason="stop",
            )
        )
    return made


@pytest.fixture
def batch():
    return Batch.from_trajectories(trajectories(), PAD)


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


@pytest.fixture
def learner(accelerator, random_llama):
    """Makes what learns, of a policy and a critic whose head is not zero, in double precision."""

    def make(kind="separate", critic=None, algorithm=None, cls=ActorCriticUpdater, reference_seed=None, **settings):
        settings = {"max_grad_norm": 1e9, "learning_rate": 0.01, **settings}
        model = random_llama(initializer_range=0.2).double()
        of_critic = CriticSettings(kind=kind, learning_rate=0.01, **(critic or {}))
        made = build_critic(model, shared=kind == "shared")
        with torch.no_grad():
            made.head.weight.copy_(torch.randn(1, 32, generator=torch.Generator().manual_seed(5)))
        row = Algorithm.model_validate({"name": "ppo", **(algorithm or {})})
        train = TrainSettings(**settings)
        credit = CriticCredit(CriticUpdates(accelerator, made, of_critic, train.micro_batch_size, 1e9), row)
        reference = None
        if reference_seed is not None:
            reference = random_llama(reference_seed, initializer_range=0.2).double().requires_grad_(False)
        return cls(
            credit,
            accelerator=accelerator,
            policy=TokenLogprobs(model),
            reference=None if reference is None else TokenLogprobs(reference),
            optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
            algorithm=row,
            settings=train,
            max_tokens=20,
            seed=3,
        )

    return make


class Watching(ActorCriticUpdater):
    """Keeps what each minibatch was told."""

    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.seen, self.estimates = [], []

    def push(self, batch, advantages, frozen, rows, tally):
        pushed = super().push(batch, advantages, frozen, rows, tally)
        self.seen.append(copy.deepcopy(tally))
        self.estimates.append((self.credit.estimates, advantages.clone(), rows))
        return pushed


def learn(made, batch, step=0):
    frozen = made.freeze(batch) if made.algorithm.kl_in_reward else None
    advantages, told = made.credit(batch, frozen)
    return told | made.step(batch, advantages, step, frozen)


def weights(module):
    return torch.cat([p.detach().flatten().double() for p in module.parameters()])


def gradients(made, batch):
    """Of one optimizer step over all rows, policy's first."""
    made.optimizer.zero_grad()
    made.credit.critic.optimizer.zero_grad()
    advantages, _ = made.credit(batch, None)
    rows, own = torch.arange(len(batch)), made.credit.critic.critic.own_parameters()
    made.accumulate(batch, advantages, made.freeze(batch, advantages), rows)
    made.credit.critic.accumulate(batch, made.credit.estimates, rows)
    parameters = [*made.policy.parameters(), *own]
    return torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten().double() for p in parameters])


def assert_same_gradient(mine, theirs):
    assert theirs.norm() > 1e-2
    assert (mine - theirs).norm() <= 1e-6 * theirs.norm()


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_gradients_know_neither_the_split_nor_the_padding_nor_the_order(learner, batch, kind):
    whole = gradients(learner(kind, micro_batch_size=8), batch)
    for size in (1, 2, 4):
        assert_same_gradient(gradients(learner(kind, micro_batch_size=size), batch), whole)

    fields = ("input_ids", "attention_mask", "loss_mask", "sampler_logprobs")
    for left, right in ((0, 6), (6, 0), (2, 3)):
        padded = replace(
            batch,
            turn_ends=torch.where(batch.turn_ends >= 0, batch.turn_ends + left, -1),
            **{name: pad(getattr(batch, name), (left, right)) for name in fields},
        )
        assert_same_gradient(gradients(learner(kind, micro_batch_size=2), padded), whole)

    made = trajectories()
    turned = Batch.from_trajectories([made[row] for row in (5, 2, 7, 0, 1, 6, 3, 4)], PAD)
    assert_same_gradient(gradients(learner(kind, micro_batch_size=4), turned), whole)


def test_the_policy_gradient_is_the_formulas(learner, batch):
    made = learner()
    mine = gradients(made, batch)
    model, estimates = made.policy.model, made.credit.estimates
    model.zero_grad()
    total, tokens = 0.0, 0
    for row, trajectory in enumerate(trajectories()):
        logprobs = torch.log_softmax(model(input_ids=torch.tensor([trajectory.ids])).logits[0].double(), dim=-1)
        for t, generated in enumerate(trajectory.loss_mask):
            if generated:
                taken = logprobs[t - 1, trajectory.ids[t]]
                total = total - torch.exp(taken - taken.detach()) * estimates.advantages[row, t]
                tokens += 1
    (total / tokens).backward()
    plain = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert_same_gradient(mine[: len(plain)], plain)


def test_on_the_first_minibatch_the_ratio_is_exactly_1_and_not_after(learner, batch):
    made = learner(cls=Watching, epochs=2, minibatches=2, algorithm={"early_stop_kl": 100.0, "clip_low": 1e-9})
    learn(made, batch)
    first, *later = made.seen
    assert len(later) == 3
    assert first.sums["policy/approxkl_avg"] == 0.0
    assert first.sums["clip_ratio/region_mean"] == 0.0
    # At a ratio of 1 the loss is minus the mean advantage.
    estimates, advantages, rows = made.estimates[0]
    mean = float(advantages[rows].sum() / estimates.mask[rows].sum())
    assert first.losses == [pytest.approx(-mean, abs=1e-6)]
    assert all(tally.sums["policy/approxkl_avg"] > 0 for tally in later)
    assert all(tally.sums["clip_ratio/region_mean"] > 0 for tally in later)


def test_all_epochs_are_on_one_frozen_batch(learner, batch):
    made = learner(cls=Watching, epochs=3, minibatches=2)
    values, _ = made.credit.critic.look(batch)
    learn(made, batch)
    assert len(made.estimates) == 6
    first, advantages, _ = made.estimates[0]
    assert torch.equal(first.values, values.masked_fill(~batch.loss_mask, 0.0))
    for estimates, pushed_by, _ in made.estimates:
        assert estimates is first
        assert torch.equal(pushed_by, advantages)
    for epoch in range(3):
        rows = torch.cat([rows for _, _, rows in made.estimates[2 * epoch : 2 * epoch + 2]])
        assert sorted(rows.tolist()) == list(range(8))
    assert not torch.equal(made.credit.critic.look(batch)[0], values)


def test_the_epochs_end_where_the_policy_has_gone_too_far(learner, batch):
    full = learner(cls=Watching, epochs=4, minibatches=2, learning_rate=0.05, algorithm={"early_stop_kl": 1e6})
    learn(full, batch)
    assert len(full.seen) == 8
    kls = [tally.sums["policy/approxkl_avg"] / tally.tokens for tally in full.seen]
    assert kls[4] > kls[1] > 0

    # 1.5 times the limit lies right below what the third minibatch sees, and above all before.
    limit = kls[2] / 1.5 * 0.999
    assert max(kls[:2]) < 1.5 * limit
    short = learner(cls=Watching, epochs=4, minibatches=2, learning_rate=0.05, algorithm={"early_stop_kl": limit})
    metrics = learn(short, batch)
    assert len(short.seen) == 3

    # The minibatch that saw it moves neither policy nor critic.
    two = learner(cls=Watching, epochs=1, minibatches=2, learning_rate=0.05)
    learn(two, batch)
    assert torch.equal(weights(short.policy), weights(two.policy))
    assert torch.equal(weights(short.credit.critic.critic), weights(two.credit.critic.critic))
    assert metrics["policy/approxkl_avg"] > 0


def test_too_far_is_beyond_one_and_a_half_times_the_target(learner):
    made = learner(algorithm={"early_stop_kl": 0.02})
    assert not made.goes_too_far(Tally())
    assert not made.goes_too_far(Tally(tokens=100, sums={"policy/approxkl_avg": 2.99}))
    assert made.goes_too_far(Tally(tokens=100, sums={"policy/approxkl_avg": 3.01}))
    assert not learner().goes_too_far(Tally(tokens=100, sums={"policy/approxkl_avg": 1e9}))


@pytest.mark.parametrize("kind", ["separate", "shared"])
def test_the_critic_learns_alone_before_the_policy_moves(learner, batch, kind):
    made = learner(kind, critic={"warmup_steps": 2}, warmup_steps=3, epochs=2, minibatches=2)
    critic = made.credit.critic.critic
    for step in range(2):
        policy, head, body = weights(made.policy), weights(critic.head), weights(critic.body)
        metrics = learn(made, batch, step)
        assert torch.equal(weights(made.policy), policy)
        assert not torch.equal(weights(critic.head), head)
        assert torch.equal(weights(critic.body), body) == (kind == "shared")
        assert metrics["critic/vf_loss"] > 0
        assert "loss" not in metrics
    policy = weights(made.policy)
    metrics = learn(made, batch, 2)
    assert not torch.equal(weights(made.policy), policy)
    assert metrics["learning_rate"] == pytest.approx(0.01 / 4)  # the first of the warm-up of the rate
    assert metrics["critic/learning_rate"] == 0.01


def test_a_kl_to_the_reference_costs_token_by_token_and_its_weight_is_steered(learner, batch):
    cells = {"kl_coef": 0.3, "kl_controller": "proportional", "kl_target": 1e-6, "kl_horizon": 80, "whiten": False}
    made = learner(algorithm=cells, reference_seed=1)
    frozen = made.freeze(batch)
    _, told = made.credit(batch, frozen)
    kl = frozen.old_logprobs - frozen.reference_logprobs
    mask = batch.loss_mask
    expected = -0.3 * kl[mask]
    scored = made.credit.estimates.rewards[mask] - expected
    assert scored.abs().gt(1e-5).sum() == sum(reward != 0 for _, rewards in ROWS for reward in rewards)
    assert scored.sum().item() == pytest.approx(sum(sum(rewards) for _, rewards in ROWS), abs=1e-4)
    assert told["kl"] == pytest.approx(float(kl[mask].mean()), rel=1e-5)
    assert told["kl_coef"] == 0.3
    # 8 of 80 episodes: a tenth of the fifth that any error this large counts as, up or down.
    sign = 1 if kl[mask].sum() > 0 else -1
    assert made.credit.kl.coef == pytest.approx(0.3 * (1 + sign * 0.02))


def test_the_state_of_what_learns_comes_back(learner, batch):
    for kind in ("separate", "shared"):
        made, again = learner(kind), learner(kind)
        learn(made, batch)
        again.credit.load_state_dict(copy.deepcopy(made.credit.state_dict()))
        mine, theirs = made.credit.critic, again.credit.critic
        for p, q in zip(mine.critic.own_parameters(), theirs.critic.own_parameters(), strict=True):
            assert torch.equal(p, q)
        for index, state in mine.optimizer.state_dict()["state"].items():
            assert torch.equal(state["exp_avg_sq"], theirs.optimizer.state_dict()["state"][index]["exp_avg_sq"])


def test_a_gradient_that_is_no_number_moves_no_critic(learner, batch):
    made = learner()
    with torch.no_grad():
        made.credit.critic.critic.head.bias.fill_(math.inf)
    before, policy = weights(made.credit.critic.critic.body), weights(made.policy)
    metrics = learn(made, batch)
    assert "gradient of the critic" in str(made.failure)
    assert not math.isfinite(metrics["critic/grad_norm"])
    assert torch.equal(weights(made.credit.critic.critic.body), before)
    assert torch.equal(weights(made.policy), policy)


def configuration(**sections):
    return TrainConfig.model_validate({"model": {"name": "x"}, "env": {"id": "rlvr/Arithmetic-v0"}, **sections})


def test_the_row_is_as_the_paper_says():
    row = Algorithm.model_validate({"name": "ppo"})
    assert (row.advantage, row.ratio, row.surrogate, row.aggregate, row.kl) == (
        "gae", "token", "clip", "token_mean", "reward",
    )  # fmt: skip
    assert (row.gamma, row.lam, row.critic_lam, row.length_adaptive_alpha) == (1.0, 0.95, None, None)
    assert configuration(algorithm={"name": "ppo"}, train={"group_size": 1}).train.group_size == 1


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"critic": {}}, "has advantage 'group_mean_std', which asks none"),
        ({"algorithm": {"name": "grpo", "lam": 0.5}}, "lam is 0.5 but advantage is 'group_mean_std'"),
        ({"algorithm": {"name": "grpo", "missing_eos_penalty": 1.0}}, "set advantage: gae"),
        ({"algorithm": {"name": "ppo"}, "critic": {"kind": "shared", "model": "m"}}, "on the policy's own backbone"),
        ({"algorithm": {"name": "ppo", "kl_controller": "proportional"}}, "kl_coef above 0 to start from"),
        ({"algorithm": {"name": "ppo"}, "critic": {"knid": "shared"}}, "knid"),
    ],
)
def test_what_does_not_fit_is_said(sections, said):
    with pytest.raises(ValueError, match=said):
        configuration(**sections)
