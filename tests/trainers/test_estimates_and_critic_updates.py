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
from rlvr.trainers.critic_updates import CriticTally, CriticUpdates
from rlvr.trainers.estimates import estimate
from rlvr.trainers.trajectory import Batch, Trajectory

EOS, PAD = 1, 0
NAN = float("nan")

# The tokens of each turn, and the observation between two of them, of six rows; what each turn was worth.
ROWS = [
    ([4], [1.0]),
    ([1], [0.0]),
    ([3, -2, 2], [0.25, 1.0]),
    ([6], [0.5]),
    ([2, -3, 1, -1, 5], [0.0, -0.5, 1.0]),
    ([5], [0.0]),
]
CUT_OFF = {5}


def trajectories(rows=ROWS):
    generator = torch.Generator().manual_seed(7)
    made = []
    for row, (pieces, rewards) in enumerate(rows):
        mask = [0] * 3
        for piece in pieces:
            mask += [int(piece > 0)] * abs(piece)
        ids = torch.randint(2, 50, (len(mask),), generator=generator).tolist()
        cut_off = row in CUT_OFF
        ungraded = any(math.isnan(reward) for reward in rewards)
        made.append(
            Trajectory(
                task_id=str(row),
                group=row,
                prompt="",
                completion="",
                ids=ids if cut_off else [*ids[:-1], EOS],
                loss_mask=mask,
                sampler_logprobs=[0.0] * len(mask),
                entropies=None,
                rewards=rewards,
                verdict=Verdict(None, None, "error") if ungraded else Verdict(rewards[-1], rewards[-1] >= 1),
                finish_reason="length" if cut_off else "stop",
                truncated=cut_off,
            )
        )
    return made


def batch_of(rows=ROWS):
    return Batch.from_trajectories(trajectories(rows), PAD)


def ppo(**cells):
    return Algorithm.model_validate({"name": "ppo", **cells})


def by_hand(rewards, values, bootstrap, gamma, lam):
    advantages, last, following = [], 0.0, bootstrap
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        last = reward + gamma * following - value + gamma * lam * last
        following = value
        advantages.append(last)
    return advantages[::-1]


def draw(shape, seed=3):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_what_a_row_of_two_turns_was_worth_token_by_token():
    batch = batch_of()
    values, kl = draw(batch.input_ids.shape), draw(batch.input_ids.shape, seed=4)
    mine = estimate(batch, values, draw(len(batch)), kl, 0.1, ppo(gamma=0.9, lam=0.8, whiten=False))
    places = [3, 4, 5, 8, 9]  # of the row with three tokens, an observation of two, and two tokens
    cost = kl[2, places]
    rewards = [float(-0.1 * k) for k in cost]
    rewards[2] += 0.25
    rewards[4] += 1.0
    assert mine.rewards[2, places].tolist() == pytest.approx(rewards)
    advantages = by_hand(rewards, values[2, places].tolist(), 0.0, 0.9, 0.8)
    assert mine.advantages[2, places].tolist() == pytest.approx(advantages, abs=1e-5)
    assert torch.allclose(mine.returns[2, places], mine.advantages[2, places] + values[2, places], atol=1e-6)
    for tensor in (mine.rewards, mine.values, mine.returns, mine.advantages):
        assert not tensor[~batch.loss_mask].any()


def test_only_what_was_cut_off_goes_on_from_the_critic_and_only_if_told():
    batch = batch_of()
    values, ends = draw(batch.input_ids.shape), draw(len(batch)) + 5
    ending, going_on = (
        estimate(batch, values, ends, None, 0.0, ppo(whiten=False, lam=1.0, bootstrap_truncated=told))
        for told in (False, True)
    )
    assert torch.equal(ending.advantages[:5], going_on.advantages[:5])
    more = (going_on.advantages - ending.advantages)[5, 3:8]
    assert more.tolist() == pytest.approx([float(ends[5])] * 5, rel=1e-5)


def test_a_missing_eos_costs_on_the_last_token():
    batch = batch_of()
    zeros = torch.zeros(batch.input_ids.shape)
    mine = estimate(batch, zeros, torch.zeros(6), None, 0.0, ppo(missing_eos_penalty=0.75))
    assert mine.rewards[5, 3:8].tolist() == [0, 0, 0, 0, -0.75]
    assert mine.rewards[:5].sum(dim=1).tolist() == [1.0, 0.0, 1.25, 0.5, 0.5]


def test_the_critic_may_look_further_ahead_than_the_policy():
    batch = batch_of()
    values, mask = draw(batch.input_ids.shape), batch.loss_mask
    both = estimate(batch, values, torch.zeros(6), None, 0.0, ppo(whiten=False, lam=0.5))
    far = estimate(batch, values, torch.zeros(6), None, 0.0, ppo(whiten=False, lam=0.5, critic_lam=1.0))
    assert torch.equal(far.advantages, both.advantages)
    assert not torch.allclose(far.returns[mask], both.returns[mask], atol=1e-2)
    assert far.returns[4, mask[4]].tolist() == pytest.approx([0.5] * 3 + [1.0] * 5, abs=1e-5)


def test_lambda_may_grow_with_the_length():
    batch = batch_of()
    values = draw(batch.input_ids.shape)
    mine = estimate(batch, values, torch.zeros(6), None, 0.0, ppo(whiten=False, length_adaptive_alpha=0.5))
    # 1 - 1 / (0.5 * 6) for the row of six tokens
    expected = by_hand([0.0] * 5 + [0.5], values[3, 3:9].tolist(), 0.0, 1.0, 2 / 3)
    assert mine.advantages[3, 3:9].tolist() == pytest.approx(expected, abs=1e-5)


def test_advantages_are_whitened_over_the_tokens_of_graded_rows():
    rows = [*ROWS[:3], ([6], [NAN]), *ROWS[4:]]
    batch = batch_of(rows)
    values = draw(batch.input_ids.shape)
    mine = estimate(batch, values, torch.zeros(6), None, 0.0, ppo())
    plain = estimate(batch, values, torch.zeros(6), None, 0.0, ppo(whiten=False))
    mask = batch.loss_mask.clone()
    mask[3] = False
    tokens = plain.advantages[mask].double()
    assert torch.allclose(mine.advantages[mask].double(), (tokens - tokens.mean()) / tokens.std(), atol=1e-5)
    assert torch.equal(mine.returns, plain.returns)
    for tensor in (mine.rewards, mine.values, mine.returns, mine.advantages):
        assert not tensor[3].any()
        assert tensor.isfinite().all()


def test_the_numbers_of_a_rollout_by_name():
    batch = batch_of()
    values = draw(batch.input_ids.shape)
    mine = estimate(batch, values, torch.zeros(6), None, 0.0, ppo(whiten=False))
    metrics, mask = mine.metrics(), batch.loss_mask
    assert metrics["critic/values/mean"] == pytest.approx(float(values[mask].mean()), abs=1e-5)
    assert metrics["critic/returns/max"] == pytest.approx(float(mine.returns[mask].max()), abs=1e-5)
    assert metrics["critic/advantages/min"] == pytest.approx(float(mine.advantages[mask].min()), abs=1e-5)
    assert metrics["critic/rewards/mean"] == pytest.approx((1 + 0 + 1.25 + 0.5 + 0.5 + 0) / 6)
    residual = (mine.returns - values)[mask].double().var()
    explained = 1 - float(residual / mine.returns[mask].double().var())
    assert metrics["critic/vf_explained_var"] == pytest.approx(explained, abs=1e-5)


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


@pytest.fixture
def updater(accelerator, random_llama):
    """Makes an updater of a critic in double precision whose head is not zero, and gives its policy too."""

    def make(kind="separate", micro_batch_size=8, **settings):
        policy = random_llama(initializer_range=0.2).double()
        critic = build_critic(policy, shared=kind == "shared")
        with torch.no_grad():
            critic.head.weight.copy_(draw(critic.head.weight.shape, seed=5))
        return CriticUpdates(accelerator, critic, CriticSettings(kind=kind, **settings), micro_batch_size, 1e9), policy

    return make


def gradient(parameters):
    return torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten().double() for p in parameters])


def accumulated(made, batch, estimates, rows=None):
    updater, policy = made
    updater.accumulate(batch, estimates, torch.arange(len(batch)) if rows is None else rows)
    return gradient([*policy.parameters(), *updater.critic.own_parameters()])


def estimates_of(batch, seed=3):
    """Of values that depend on the row and not on where it stands."""
    values = torch.stack([draw(64, seed=int(ids.sum()) + seed)[: batch.input_ids.shape[1]] for ids in batch.input_ids])
    return estimate(batch, values, torch.zeros(len(batch)), None, 0.0, ppo())


def assert_same_gradient(mine, theirs):
    assert theirs.norm() > 1e-2
    assert (mine - theirs).norm() <= 1e-6 * theirs.norm()


def test_the_value_gradient_is_that_of_the_mean_over_all_tokens(updater):
    batch = batch_of()
    estimates = estimates_of(batch)
    mine = accumulated(updater(clip=None), batch, estimates)
    other, policy = updater(clip=None)
    total, tokens = 0.0, 0
    for trajectory, returns in zip(trajectories(), estimates.returns, strict=True):
        hidden = other.critic.body(input_ids=torch.tensor([trajectory.ids])).last_hidden_state[0].float()
        for t, generated in enumerate(trajectory.loss_mask):
            if generated:
                value = other.critic.head(hidden[t - 1])[0]
                total, tokens = total + 0.5 * (value - returns[t]) ** 2, tokens + 1
    (total / tokens).backward()
    assert_same_gradient(mine, gradient([*policy.parameters(), *other.critic.own_parameters()]))


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("micro_batch_size", [1, 2, 4])
def test_the_value_gradient_is_the_same_however_it_is_split(updater, kind, micro_batch_size):
    batch = batch_of([*ROWS[:3], ([6], [NAN]), *ROWS[4:]])
    whole = accumulated(updater(kind), batch, estimates_of(batch))
    assert_same_gradient(accumulated(updater(kind, micro_batch_size), batch, estimates_of(batch)), whole)


def test_the_value_gradient_knows_neither_padding_nor_the_order_of_rows(updater):
    batch = batch_of()
    whole = accumulated(updater(), batch, estimates_of(batch))
    fields = ("input_ids", "attention_mask", "loss_mask", "sampler_logprobs")
    wider = replace(batch, **{name: pad(getattr(batch, name), (0, 9)) for name in fields})
    assert_same_gradient(accumulated(updater(micro_batch_size=2), wider, estimates_of(wider)), whole)

    shifted = replace(
        batch,
        turn_ends=torch.where(batch.turn_ends >= 0, batch.turn_ends + 7, -1),
        **{name: pad(getattr(batch, name), (7, 0)) for name in fields},
    )
    values = pad(estimates_of(batch).values, (7, 0))
    other = estimate(shifted, values, torch.zeros(6), None, 0.0, ppo())
    assert torch.equal(other.returns[:, 7:], estimates_of(batch).returns)
    assert_same_gradient(accumulated(updater(micro_batch_size=2), shifted, other), whole)

    turned = [4, 0, 5, 2, 1, 3]
    made = trajectories()
    other = Batch.from_trajectories([made[row] for row in turned], PAD)
    assert_same_gradient(accumulated(updater(micro_batch_size=4), other, estimates_of(other)), whole)


def test_a_minibatch_is_a_mean_of_its_own(updater):
    batch = batch_of()
    estimates = estimates_of(batch)
    part = accumulated(updater(), batch, estimates, torch.tensor([4, 1]))
    alone = Batch.from_trajectories([trajectories()[row] for row in (4, 1)], PAD)
    width = alone.input_ids.shape[1]
    cut = replace(estimates, **{n: getattr(estimates, n)[[4, 1], :width] for n in vars(estimates)})
    assert_same_gradient(accumulated(updater(), alone, cut), part)


def test_the_backbone_of_a_policy_hears_a_shared_critic_as_loud_as_told_and_not_in_the_warm_up(updater):
    batch = batch_of()
    estimates = estimates_of(batch)
    loud, soft = (updater("shared", coef=coef) for coef in (1.0, 0.25))
    assert_same_gradient(accumulated(soft, batch, estimates), 0.25 * accumulated(loud, batch, estimates))

    warm, policy = updater("shared")
    warm.accumulate(batch, estimates, torch.arange(6), head_only=True)
    assert not gradient(policy.parameters()).any()
    assert gradient(warm.critic.own_parameters()).norm() > 1e-2


def test_a_minibatch_without_a_graded_row_moves_nothing(updater):
    batch = batch_of([*ROWS[:3], ([6], [NAN]), *ROWS[4:]])
    made, _ = updater()
    tally = CriticTally()
    assert not made.accumulate(batch, estimates_of(batch), torch.tensor([3]), tally)
    assert not gradient(made.critic.own_parameters()).any()
    assert tally.losses == []


def test_values_are_looked_up_as_the_critic_gives_them_whatever_the_split(updater):
    batch = batch_of()
    whole, _ = updater()
    values, ends = whole.look(batch)
    split, _ = updater(micro_batch_size=1)
    again, again_ends = split.look(batch)
    assert torch.allclose(values, again, atol=1e-5)
    assert torch.allclose(ends, again_ends, atol=1e-5)
    assert values[batch.loss_mask].abs().min() > 0
    assert not values[~batch.loss_mask].any()


def test_the_losses_that_are_told_of(updater):
    batch = batch_of()
    estimates = estimates_of(batch)
    made, _ = updater(clip=0.2)
    values, _ = made.look(batch)
    tally = CriticTally()
    made.accumulate(batch, estimates, torch.arange(6), tally)
    made.move(tally)
    mask = batch.loss_mask
    plain = (values - estimates.returns)[mask].square()
    clipped = (estimates.values + (values - estimates.values).clamp(-0.2, 0.2) - estimates.returns)[mask].square()
    metrics = tally.metrics()
    assert metrics["critic/vf_loss"] == pytest.approx(float(0.5 * torch.maximum(plain, clipped).mean()), rel=1e-4)
    assert metrics["critic/vf_clipfrac"] == pytest.approx(float((clipped > plain).float().mean()))
    assert 0 < metrics["critic/vf_clipfrac"] < 1
    assert metrics["critic/grad_norm"] > 0
