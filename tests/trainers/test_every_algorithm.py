"""Every row of the table: its gradient is that of its formula, however the rows are split, padded and ordered."""

import math
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator

from rlvr import Verdict
from rlvr.trainers.algorithms import ALGORITHMS, Algorithm
from rlvr.trainers.credit import BanditCredit
from rlvr.trainers.entropy import EntropyLogprobs
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.settings import TrainSettings
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Frozen, Tally, Updater

NAN, EOS, MAX_TOKENS, TEMPERATURE = float("nan"), 1, 9, 0.8
SHAPES = [(3, 8), (3, 1), (3, 5), (3, 2), (6, 4), (6, 7), (6, 1), (6, 9)]
REWARDS = [1.0, 0.0, 0.25, 1.0, 0.0, NAN, 1.0, 0.0]
CUT_OFF = [0, 4, 7]

# The rows whose advantages are a trajectory's own; one with a critic has tests of its own.
BANDITS = [name for name, cells in ALGORITHMS.items() if cells["advantage"] != "gae"]
CELLS = [{"name": name} for name in BANDITS] + [
    {"name": "reinforce", "advantage": "moving_average"},
    {"name": "rloo", "kl_coef": 0.1},
    {"name": "reinforce_pp", "kl_coef": 0.1, "kl_estimator": "k3"},
    {"name": "grpo", "kl_coef": 0.3},
    {"name": "dapo", "kl": "loss", "kl_coef": 0.3, "kl_estimator": "k2"},
    {"name": "gspo", "clip_low": 0.1, "clip_high": 0.05, "aggregate": "token_mean"},
    {"name": "cispo", "ratio": "sequence", "truncated": "mask"},
    {"name": "dr_grpo", "entropy_coef": 0.2},
    {"name": "grpo", "truncated": "mask", "kl_coef": 0.3, "entropy_coef": 0.2},
    {"name": "reinforce", "entropy_coef": 0.2, "truncated": "mask"},
]
each_row = pytest.mark.parametrize("cells", CELLS, ids=lambda cells: " ".join(str(value) for value in cells.values()))


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


@pytest.fixture
def random_llama(random_llama):
    """In double precision, so that what differs is the formula."""
    return lambda seed=0: random_llama(seed, initializer_range=0.2).double()


@pytest.fixture(scope="module")
def trajectories():
    generator, made = torch.Generator().manual_seed(7), []
    for row, (reward, (prompt, completion)) in enumerate(zip(REWARDS, SHAPES, strict=True)):
        ids = torch.randint(2, 50, (prompt + completion - 1,), generator=generator).tolist()
        if row % 4:
            ids[:prompt] = made[-1].ids[:prompt]
        failed, cut_off = math.isnan(reward), row in CUT_OFF
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
                verdict=Verdict(None, None, "error") if failed else Verdict(reward, reward >= 1),
                finish_reason="length" if cut_off else "stop",
                truncated=cut_off,
            )
        )
    return made


def updater_of(accelerator, model, row, reference=None, **settings):
    policy = EntropyLogprobs if row.entropy_bonus else TokenLogprobs
    return Updater(
        accelerator,
        policy(model, TEMPERATURE),
        None if reference is None else TokenLogprobs(reference.requires_grad_(False), TEMPERATURE),
        torch.optim.SGD(model.parameters(), lr=0.01),
        row,
        TrainSettings(**{"max_grad_norm": 1e9, "learning_rate": 0.01, **settings}),
        MAX_TOKENS,
        seed=3,
    )


def gradient(model):
    return torch.cat([p.grad.flatten() if p.grad is not None else p.new_zeros(p.numel()) for p in model.parameters()])


def moved_off(frozen, batch):
    """Old log-probs of a policy that the present one has moved away from, far enough that some tokens are clipped."""
    noise = torch.linspace(-0.5, 0.5, 37)[(batch.input_ids * 17) % 37]
    return Frozen(frozen.old_logprobs + noise.masked_fill(~batch.loss_mask, 0.0), frozen.reference_logprobs)


def accumulated(updater, batch, advantages, rows=None):
    rows = torch.arange(len(batch)) if rows is None else rows
    updater.optimizer.zero_grad()
    updater.accumulate(batch, advantages, moved_off(updater.freeze(batch), batch), rows)
    return gradient(updater.policy.model)


def advantages_of(updater, batch):
    frozen = updater.freeze(batch) if updater.algorithm.kl_in_reward else None
    return BanditCredit(updater.algorithm)(batch, frozen)[0]


def made(accelerator, random_llama, cells, **settings):
    """An updater with old log-probs of its own, since there are two epochs."""
    row = Algorithm.model_validate(cells)
    reference = random_llama(seed=1) if row.needs_reference else None
    return updater_of(accelerator, random_llama(), row, reference, epochs=2, **settings)


def assert_same(mine, theirs):
    assert theirs.norm() > 1e-2
    assert (mine - theirs).norm() <= 1e-6 * theirs.norm()


@each_row
def test_the_gradient_is_that_of_the_formula(accelerator, random_llama, trajectories, cells):
    made_up, batch = (
        made(accelerator, random_llama, cells, micro_batch_size=3),
        Batch.from_trajectories(trajectories, 0),
    )
    mine = accumulated(made_up, batch, advantages_of(made_up, batch))
    theirs = by_hand(made_up.policy.model, getattr(made_up.reference, "model", None), trajectories, made_up.algorithm)
    assert_same(mine, theirs)


@each_row
@pytest.mark.parametrize("micro_batch_size", [1, 2, 8])
def test_the_split_does_not_matter(accelerator, random_llama, trajectories, cells, micro_batch_size):
    batch, gradients = Batch.from_trajectories(trajectories, 0), []
    for size in (micro_batch_size, 5):
        made_up = made(accelerator, random_llama, cells, micro_batch_size=size)
        gradients.append(accumulated(made_up, batch, advantages_of(made_up, batch)))
    assert_same(*gradients)


def padded(batch, left, right, filling):
    def wider(values, value):
        return torch.nn.functional.pad(values, (left, right), value=value)

    return replace(
        batch,
        input_ids=wider(batch.input_ids, filling),
        attention_mask=wider(batch.attention_mask, 0),
        loss_mask=wider(batch.loss_mask, False),
        sampler_logprobs=wider(batch.sampler_logprobs, 0.0),
        turn_ends=batch.turn_ends + left,
    )


def padded_on_the_left(batch):
    """Every row moved to end where the widest does."""
    shift = batch.attention_mask.shape[1] - batch.attention_mask.sum(dim=1)
    places = (torch.arange(batch.input_ids.shape[1]) - shift[:, None]) % batch.input_ids.shape[1]
    moved = {
        name: getattr(batch, name).gather(1, places)
        for name in ("input_ids", "attention_mask", "loss_mask", "sampler_logprobs")
    }
    return replace(batch, **moved, turn_ends=batch.turn_ends + shift[:, None])


@each_row
def test_the_side_and_amount_of_padding_do_not_matter(accelerator, random_llama, trajectories, cells):
    batch, gradients = Batch.from_trajectories(trajectories, 0), []
    for arranged in (batch, padded(batch, 0, 5, 42), padded(batch, 4, 1, 3), padded_on_the_left(batch)):
        made_up = made(accelerator, random_llama, cells, micro_batch_size=3)
        gradients.append(accumulated(made_up, arranged, advantages_of(made_up, arranged)))
    for other in gradients[1:]:
        assert_same(other, gradients[0])


@each_row
def test_the_order_of_rows_does_not_matter(accelerator, random_llama, trajectories, cells):
    gradients = []
    for order in ([0, 1, 2, 3, 4, 5, 6, 7], [7, 2, 5, 0, 1, 6, 3, 4]):
        made_up = made(accelerator, random_llama, cells, micro_batch_size=3)
        batch = Batch.from_trajectories([trajectories[row] for row in order], 0)
        gradients.append(accumulated(made_up, batch, advantages_of(made_up, batch)))
    assert_same(*gradients)


class Unskipping(Updater):
    """Takes every row through the model that the formula has in its loss."""

    def _contributing(self, batch, advantages, rows):
        kept = ~batch.rewards.isnan()
        if self.algorithm.truncated == "mask":
            kept &= ~batch.truncated
        return rows[kept[rows]]


@each_row
def test_rows_that_cannot_change_the_gradient_are_skipped_exactly(accelerator, random_llama, trajectories, cells):
    """The second group has no spread."""
    flat = [replace(trajectory, rewards=[0.5]) if trajectory.group else trajectory for trajectory in trajectories]
    batch, gradients, rows = Batch.from_trajectories(flat, 0), [], []
    for cls in (Updater, Unskipping):
        made_up = made(accelerator, random_llama, cells, micro_batch_size=3)
        made_up.__class__ = cls
        advantages, frozen = advantages_of(made_up, batch), moved_off(made_up.freeze(batch), batch)
        seen = []
        made_up.policy.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(len(args[0])))
        made_up.accumulate(batch, advantages, frozen, torch.arange(8))
        gradients.append(gradient(made_up.policy.model))
        rows.append(sum(seen))
    assert_same(*gradients)
    row = made_up.algorithm
    others_need_them = row.kl_in_loss or row.kl_in_reward or row.entropy_bonus
    assert rows[0] == rows[1] if others_need_them or not row.compares_groups else rows[0] < rows[1]


class Telling(Updater):
    """Keeps the metrics of every optimizer step."""

    def accumulate(self, batch, advantages, frozen, rows, tally=None):
        alone = Tally()
        result = super().accumulate(batch, advantages, frozen, rows, alone)
        self.told = [*getattr(self, "told", []), alone.metrics()]
        tally.merge(alone)
        return result


@pytest.mark.parametrize("cells", [cells for cells in CELLS if Algorithm.model_validate(cells).ratio != "none"])
def test_the_first_minibatch_has_a_ratio_of_exactly_one(accelerator, random_llama, trajectories, cells):
    """With bounds of no width, any ratio that is off in its last bit would be clipped."""
    closed = {**cells, "clip_low": 0.0, "clip_high": 0.0}
    made_up = made(accelerator, random_llama, closed, micro_batch_size=3, minibatches=2)
    made_up.__class__ = Telling
    batch = Batch.from_trajectories(trajectories, 0)
    made_up.step(batch, advantages_of(made_up, batch), 0)
    first, second, *_ = made_up.told
    assert len(made_up.told) == 4
    assert [first[f"clip_ratio/{which}_mean"] for which in ("low", "high", "region")] == [0.0, 0.0, 0.0]
    assert second["clip_ratio/region_mean"] > 0


@each_row
@pytest.mark.parametrize("rewards", [[0.95] * 8, [NAN] * 8])
def test_no_spread_gives_no_advantage_and_nothing_that_is_not_finite(
    accelerator, random_llama, trajectories, cells, rewards
):
    made_up = made(accelerator, random_llama, {**cells, "kl_coef": 0.0}, micro_batch_size=3)
    given = [replace(trajectory, rewards=[reward]) for trajectory, reward in zip(trajectories, rewards, strict=True)]
    batch = Batch.from_trajectories(given, 0)
    advantages = advantages_of(made_up, batch)
    assert advantages.abs().max() == 0.0
    metrics = made_up.step(batch, advantages, 0)
    assert all(math.isfinite(value) for value in metrics.values())


def by_hand(model, reference, trajectories, row):
    """The formula of a row, trajectory by trajectory and token by token."""
    model.zero_grad()
    graded = [t for t in trajectories if not math.isnan(t.reward)]
    said = {id(t): distributions(model, t) for t in graded}
    with torch.no_grad():
        base = {id(t): distributions(reference, t)[0] for t in graded} if reference else None
    tokens = sum(t.length for t in graded)

    def estimate(kind, policy, other):
        d = other - policy
        return {"k1": -d, "k2": d * d / 2, "k3": torch.exp(d) - d - 1}[kind]

    worth = {}
    for t in graded:
        worth[id(t)] = t.reward
        if row.kl_in_reward:
            kl = estimate(row.kl_estimator, said[id(t)][0].detach(), base[id(t)]).sum().item()
            worth[id(t)] -= row.kl_coef * kl
    total = 0.0
    for t in graded:
        if row.truncated == "mask" and t.truncated:
            continue
        logprobs, entropies = said[id(t)]
        ids = torch.tensor(t.ids)[torch.tensor(t.loss_mask, dtype=torch.bool)]
        old = logprobs.detach().float() + torch.linspace(-0.5, 0.5, 37)[(ids * 17) % 37]
        advantage = advantage_by_hand(row, t, graded, worth)
        token_losses = []
        for i in range(t.length):
            log_ratio = logprobs - old
            rho = torch.exp(log_ratio.mean() if row.ratio == "sequence" else log_ratio[i])
            low, high = 1 - row.clip_low, 1 + row.clip_high
            if row.surrogate == "logprob":
                loss = -advantage * logprobs[i]
            elif row.surrogate == "cispo":
                loss = -min(max(rho.item(), low), high) * advantage * logprobs[i]
            else:
                loss = -torch.minimum(rho * advantage, rho.clamp(low, high) * advantage)
            if row.kl_in_loss:
                loss = loss + row.kl_coef * estimate(row.kl_estimator, logprobs[i], base[id(t)][i])
            token_losses.append(loss)
        divisor = {
            "sequence_mean": len(graded) * t.length,
            "token_mean": tokens,
            "fixed_length": len(graded) * MAX_TOKENS,
            "sequence_sum": len(graded),
        }[row.aggregate]
        total = total + sum(token_losses) / divisor - row.entropy_coef * entropies.sum() / tokens
    total.backward()
    result = gradient(model)
    model.zero_grad()
    return result


def advantage_by_hand(row, t, graded, worth):
    mine = worth[id(t)]
    group = [worth[id(other)] for other in graded if other.group == t.group]
    whole = list(worth.values())
    others = [worth[id(other)] for other in graded if other.group == t.group and other is not t]

    def mean(values):
        return sum(values) / len(values)

    def deviation(values):
        return math.sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1))

    return {
        "group_mean_std": lambda: (mine - mean(group)) / (deviation(group) + 1e-4),
        "group_mean": lambda: mine - mean(group),
        "leave_one_out": lambda: mine - mean(others),
        "batch_mean": lambda: mine - mean(whole),
        "moving_average": lambda: mine - mean(whole),  # of the first batch
        "batch_mean_std": lambda: (mine - mean(whole)) / (deviation(whole) + 1e-4),
    }[row.advantage]()


def distributions(model, trajectory):
    """Log-probs of the loss tokens and the entropies they were drawn at, straight from the definition."""
    ids = torch.tensor([trajectory.ids])
    logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1] / TEMPERATURE, dim=-1)
    mask = torch.tensor(trajectory.loss_mask[1:], dtype=torch.bool)
    taken = logprobs.gather(-1, ids[0, 1:, None])[:, 0]
    return taken[mask], torch.distributions.Categorical(logits=logprobs).entropy()[mask]
