import copy
import math
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from torch.nn.functional import pad

from rlvr import Verdict
from rlvr.trainers.advantages import group_advantages
from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.settings import TrainSettings
from rlvr.trainers.trajectory import Batch, Trajectory
from rlvr.trainers.update import Tally, Updater

EOS, PAD, MAX_TOKENS = 1, 0, 9
NAN = float("nan")
AGGREGATES = ["sequence_mean", "token_mean", "fixed_length", "sequence_sum"]

# (prompt tokens, completion tokens) of eight rows; no two rows are of one length throughout.
SHAPES = [(3, 8), (3, 1), (3, 5), (3, 2), (6, 4), (6, 7), (6, 1), (6, 9)]
SOME_SOLVED = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]


@pytest.fixture
def random_llama(random_llama):
    """In double precision, so that what differs is the formula."""
    return lambda seed=0: random_llama(seed, initializer_range=0.2).double()


def rollout(rewards=SOME_SOLVED, shared_prompts=True):
    """One trajectory a reward, two groups, ids drawn at random but for the EOS."""
    generator = torch.Generator().manual_seed(7)
    made = []
    for row, (reward, (prompt, completion)) in enumerate(zip(rewards, SHAPES, strict=True)):
        ids = torch.randint(2, 50, (prompt + completion - 1,), generator=generator).tolist()
        if shared_prompts and row % 4:
            ids[:prompt] = made[-1].ids[:prompt]
        verdict = Verdict(None, None, "error") if math.isnan(reward) else Verdict(reward, reward >= 1)
        made.append(
            Trajectory(
                task_id=str(row // 4),
                group=row // 4,
                prompt="",
                completion="",
                ids=[*ids, EOS],
                loss_mask=[0] * prompt + [1] * completion,
                sampler_logprobs=[0.0] * prompt + [-1.0] * completion,
                entropies=None,
                rewards=[reward],
                verdict=verdict,
                finish_reason="stop",
            )
        )
    return made


def batch_of(trajectories):
    return Batch.from_trajectories(trajectories, PAD)


def advantages_of(batch, algorithm):
    return group_advantages(batch.rewards, batch.groups, algorithm.advantage)


def algorithm(name="grpo", **cells):
    return Algorithm.model_validate({"name": name, **cells})


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


@pytest.fixture
def updater(accelerator):
    """Makes an updater of a model; with plain gradient descent unless told otherwise, and no clipping of its norm."""

    def make(model, algorithm, reference=None, optimizer=torch.optim.SGD, cls=Updater, tells_entropy=False, **settings):
        settings = {"max_grad_norm": 1e9, "learning_rate": 0.01, **settings}
        return cls(
            accelerator,
            TokenLogprobs(model),
            None if reference is None else TokenLogprobs(reference.requires_grad_(False)),
            optimizer(model.parameters(), lr=settings["learning_rate"]),
            algorithm,
            TrainSettings(**settings),
            MAX_TOKENS,
            seed=3,
            tells_entropy=tells_entropy,
        )

    return make


def accumulated(updater, batch, advantages, rows=None):
    """The gradient of one optimizer step."""
    rows = torch.arange(len(batch)) if rows is None else rows
    updater.optimizer.zero_grad()
    updater.accumulate(batch, advantages, updater.freeze(batch, advantages), rows)
    return gradient(updater.policy.model)


def gradient(model):
    return torch.cat([p.grad.flatten() if p.grad is not None else p.new_zeros(p.numel()) for p in model.parameters()])


def assert_same_gradient(mine, theirs):
    assert theirs.norm() > 1e-2
    assert (mine - theirs).norm() <= 2e-6 * theirs.norm()


def completion_logprobs(model, trajectory):
    """Row by row and without padding, straight from the definition."""
    ids = torch.tensor([trajectory.ids])
    logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1].double(), dim=-1)
    taken = logprobs.gather(-1, ids[0, 1:, None])[:, 0]
    return taken[torch.tensor(trajectory.loss_mask[1:], dtype=torch.bool)]


def logprobs_of(model, batch):
    with torch.no_grad():
        return TokenLogprobs(model)(batch.input_ids, batch.attention_mask, batch.loss_mask).logprobs.float()


def plain_advantages(rewards, divide):
    made = []
    for start in range(0, len(rewards), 4):
        group = rewards[start : start + 4]
        mean = sum(group) / 4
        deviation = math.sqrt(sum((reward - mean) ** 2 for reward in group) / 3)
        made += [(reward - mean) / (deviation + 1e-4) if divide else reward - mean for reward in group]
    return made


def plain_gradient(
    model, trajectories, advantages, aggregate, *, old=None, reference=None, kl_coef=0.0, clip=(0.2, 0.2)
):
    """The formula, term by term, for rows that are all graded; `old` is the model at the start of the batch."""
    model.zero_grad()
    total = 0.0
    tokens = sum(trajectory.length for trajectory in trajectories)
    for trajectory, advantage in zip(trajectories, advantages, strict=True):
        logprobs = completion_logprobs(model, trajectory)
        with torch.no_grad():
            start = completion_logprobs(old or model, trajectory)
            base = completion_logprobs(reference, trajectory) if reference is not None else None
        row_loss = 0.0
        for t in range(trajectory.length):
            ratio = torch.exp(logprobs[t] - start[t])
            clipped = torch.clamp(ratio, 1 - clip[0], 1 + clip[1])
            row_loss = row_loss - torch.min(ratio * advantage, clipped * advantage)
            if base is not None:
                difference = base[t] - logprobs[t]
                row_loss = row_loss + kl_coef * (torch.exp(difference) - difference - 1)
        divisor = {
            "sequence_mean": len(trajectories) * trajectory.length,
            "token_mean": tokens,
            "fixed_length": len(trajectories) * MAX_TOKENS,
            "sequence_sum": len(trajectories),
        }[aggregate]
        total = total + row_loss / divisor
    total.backward()
    result = gradient(model)
    model.zero_grad()
    return result


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("name", ["grpo", "dr_grpo"])
@pytest.mark.parametrize("micro_batch_size", [1, 2, 8])
@pytest.mark.parametrize("shared_prompts", [True, False])
def test_the_gradient_is_the_formulas_however_it_is_split(
    updater, name, aggregate, micro_batch_size, shared_prompts, random_llama
):
    trajectories = rollout(shared_prompts=shared_prompts)
    row, model = algorithm(name, aggregate=aggregate), random_llama()
    batch = batch_of(trajectories)
    mine = accumulated(updater(model, row, micro_batch_size=micro_batch_size), batch, advantages_of(batch, row))
    by_hand = plain_advantages(SOME_SOLVED, divide=name == "grpo")
    assert_same_gradient(mine, plain_gradient(model, trajectories, by_hand, aggregate))


def test_the_rows_of_the_table_aggregate_as_their_papers_say(updater, random_llama):
    trajectories, model = rollout(), random_llama()
    batch = batch_of(trajectories)
    for name, aggregate in [("grpo", "sequence_mean"), ("dr_grpo", "fixed_length")]:
        mine = accumulated(updater(model, algorithm(name)), batch, advantages_of(batch, algorithm(name)))
        by_hand = plain_advantages(SOME_SOLVED, divide=name == "grpo")
        assert_same_gradient(mine, plain_gradient(model, trajectories, by_hand, aggregate))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("order", [[7, 2, 5, 0, 1, 6, 3, 4], [4, 5, 6, 7, 0, 1, 2, 3]])
def test_the_order_of_rows_does_not_matter(updater, aggregate, order, random_llama):
    row, trajectories, model = algorithm(aggregate=aggregate), rollout(), random_llama()
    gradients = []
    for arranged in (trajectories, [trajectories[i] for i in order]):
        batch = batch_of(arranged)
        gradients.append(accumulated(updater(model, row, micro_batch_size=3), batch, advantages_of(batch, row)))
    assert_same_gradient(*gradients)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_more_padding_does_not_matter(updater, aggregate, random_llama):
    row, model, batch = algorithm(aggregate=aggregate), random_llama(), batch_of(rollout())
    wider = Batch(
        **{
            field.name: pad(value, (0, 5)) if (value := getattr(batch, field.name)).dim() == 2 else value
            for field in fields(Batch)
        }
    )
    assert wider.input_ids.shape[1] == batch.input_ids.shape[1] + 5
    mine = accumulated(updater(model, row), wider, advantages_of(batch, row))
    assert_same_gradient(mine, accumulated(updater(model, row), batch, advantages_of(batch, row)))


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_rows_without_advantage_are_skipped_yet_counted(updater, aggregate, random_llama):
    rewards = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5]
    row, trajectories, model = algorithm(aggregate=aggregate), rollout(rewards), random_llama()
    batch = batch_of(trajectories)
    made = updater(model, row)
    rows_seen = []
    made.policy.register_forward_pre_hook(lambda module, args: rows_seen.append(len(args[0])))
    mine = accumulated(made, batch, advantages_of(batch, row))
    assert sum(rows_seen) == 4
    # The formula has all eight rows in it.
    assert_same_gradient(mine, plain_gradient(model, trajectories, plain_advantages(rewards, True), aggregate))


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
def test_an_ungraded_row_is_in_nothing_not_even_a_denominator(updater, aggregate, kl_coef, random_llama):
    row, model = algorithm(aggregate=aggregate, kl_coef=kl_coef), random_llama()
    reference = random_llama(seed=1) if kl_coef else None
    trajectories = rollout([1.0, NAN, 0.0, 1.0, 0.0, 0.0, 1.0, NAN])
    with_ungraded = batch_of(trajectories)
    without = batch_of([trajectory for trajectory in trajectories if not math.isnan(trajectory.reward)])
    gradients = [
        accumulated(updater(model, row, reference), batch, advantages_of(batch, row))
        for batch in (with_ungraded, without)
    ]
    assert gradients[0].isfinite().all()
    assert_same_gradient(*gradients)


class Table(torch.nn.Module):
    """A policy of one free log-prob for every place of every row; a row begins with its own number."""

    shares_prompts = False

    def __init__(self, rows, width):
        super().__init__()
        self.logprobs = torch.nn.Parameter(torch.full((rows, width), -1.5))

    def forward(self, input_ids, attention_mask, loss_mask):
        return SimpleNamespace(logprobs=self.logprobs[input_ids[:, 0], : input_ids.shape[1]])


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_generated_token_pulls_by_hand_and_no_other_at_all(accelerator, aggregate):
    trajectories = [replace(t, ids=[row, *t.ids[1:]]) for row, t in enumerate(rollout())]
    # What stands after a completion without being generated is in the sequence, but not in the loss.
    trajectories[2] = followed_by(trajectories[2], [33, 34])
    batch = batch_of(trajectories)
    row, table = algorithm(aggregate=aggregate), Table(*batch.input_ids.shape)
    settings = TrainSettings(micro_batch_size=3)
    optimizer = torch.optim.SGD(table.parameters())
    made = Updater(accelerator, table, None, optimizer, row, settings, MAX_TOKENS, seed=0)
    advantages = advantages_of(batch, row)
    made.accumulate(batch, advantages, made.freeze(batch, advantages), torch.arange(8))

    lengths = [completion for _, completion in SHAPES]
    expected = torch.zeros(batch.input_ids.shape)
    for i, (prompt, completion) in enumerate(SHAPES):
        divisor = {
            "sequence_mean": 8 * completion,
            "token_mean": sum(lengths),
            "fixed_length": 8 * MAX_TOKENS,
            "sequence_sum": 8,
        }[aggregate]
        expected[i, prompt : prompt + completion] = -advantages[i] / divisor
    torch.testing.assert_close(table.logprobs.grad, expected, rtol=1e-6, atol=0)
    assert torch.equal(table.logprobs.grad != 0, batch.loss_mask)


def followed_by(trajectory, ids):
    return replace(
        trajectory,
        ids=[*trajectory.ids, *ids],
        loss_mask=[*trajectory.loss_mask, *[0] * len(ids)],
        sampler_logprobs=[*trajectory.sampler_logprobs, *[0.0] * len(ids)],
    )


def test_what_is_in_the_padding_or_after_the_completion_has_no_influence(updater, random_llama):
    row, model, trajectories = algorithm(), random_llama(), rollout()
    gradients = []
    for filling, tail in [(PAD, [33, 34]), (42, [5, EOS])]:
        batch = batch_of([*trajectories[:2], followed_by(trajectories[2], tail), *trajectories[3:]])
        batch.input_ids[batch.attention_mask == 0] = filling
        gradients.append(accumulated(updater(model, row), batch, advantages_of(batch, row)))
    assert torch.equal(*gradients)
    batch = batch_of(trajectories)
    assert_same_gradient(gradients[0], accumulated(updater(model, row), batch, advantages_of(batch, row)))


def weights(model):
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


@pytest.mark.parametrize("name", ["grpo", "dr_grpo"])
@pytest.mark.parametrize("rewards", [[0.95] * 8, [0.0] * 8, [NAN] * 8, [NAN, 1.0, NAN, NAN, *[0.3] * 4]])
def test_without_spread_no_weight_moves_not_even_by_momentum_or_decay(updater, name, rewards, random_llama):
    def adamw(parameters, lr):
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)

    row, model = algorithm(name), random_llama()
    made = updater(model, row, optimizer=adamw, epochs=2, minibatches=2)
    first = batch_of(rollout())
    start = weights(model)
    made.step(first, advantages_of(first, row), 0)
    moved = weights(model)
    assert not torch.equal(start, moved)

    flat = batch_of(rollout(rewards))
    metrics = made.step(flat, advantages_of(flat, row), 1)
    assert torch.equal(weights(model), moved)
    assert all(math.isfinite(value) for value in metrics.values())


def test_ungraded_rows_alone_move_nothing_and_are_in_no_kl(updater, random_llama):
    row, model, reference = algorithm(kl_coef=0.3), random_llama(), random_llama(seed=1)
    made = updater(model, row, reference, optimizer=torch.optim.AdamW)
    graded = batch_of(rollout())
    kl = made.step(graded, advantages_of(graded, row), 0)["kl"]
    moved = weights(model)
    ungraded = batch_of(rollout([NAN] * 8))
    assert "kl" not in made.step(ungraded, advantages_of(ungraded, row), 1)
    assert torch.equal(weights(model), moved)

    some = [*rollout(), *rollout([NAN] * 8, shared_prompts=False)]
    batch, again = batch_of(some), updater(random_llama(), row, reference)
    assert again.step(batch, advantages_of(batch, row), 0)["kl"] == pytest.approx(kl, rel=1e-5)


@pytest.mark.parametrize(("micro_batch_size", "watched"), [(3, slice(1, 4)), (32, slice(1, 8))])
def test_a_step_without_a_gradient_still_tells_sampler_and_trainer_apart(
    updater, random_llama, micro_batch_size, watched
):
    flat, row = rollout([NAN] + [0.3] * 7), algorithm()
    batch, made = batch_of(flat), updater(random_llama(), row, micro_batch_size=micro_batch_size, tells_entropy=True)
    metrics = made.step(batch, advantages_of(batch, row), 0)
    with torch.no_grad():
        logprobs = torch.cat([completion_logprobs(random_llama(), trajectory) for trajectory in flat[watched]])
    drift = (logprobs + 1).abs()
    assert metrics["sampling/logprob_diff_mean"] == pytest.approx(drift.mean().item(), abs=1e-5)
    assert metrics["sampling/logprob_diff_max"] == pytest.approx(drift.max().item(), abs=1e-5)
    assert 0 < metrics["entropy"] < math.log(50)
    assert "loss" not in metrics


def test_a_group_without_spread_beside_one_with(updater, random_llama):
    row, model = algorithm(), random_llama()
    batch = batch_of(rollout([1.0, 0.0, 0.0, 1.0, 0.95, 0.95, 0.95, 0.95]))
    metrics = updater(model, row).step(batch, advantages_of(batch, row), 0)
    assert weights(model).isfinite().all()
    assert all(math.isfinite(value) for value in metrics.values())


def test_the_ratio_is_exactly_one_in_a_single_pass(updater, random_llama):
    model, batch = random_llama(), batch_of(rollout())
    advantages = advantages_of(batch, algorithm())
    # A clip range of no width would take the gradient of every ratio that differs from 1 in the last bit.
    closed = accumulated(updater(model, algorithm(clip_low=0, clip_high=0)), batch, advantages)
    assert torch.equal(closed, accumulated(updater(model, algorithm()), batch, advantages))

    metrics = updater(model, algorithm(clip_low=0, clip_high=0)).step(batch, advantages, 0)
    assert metrics["clip_ratio/low_mean"] == metrics["clip_ratio/high_mean"] == 0.0
    # loss = -mean over rows of the advantage, which is 0 in every group
    assert metrics["loss"] == pytest.approx(0.0, abs=1e-6)
    # -1 is what the sampler is said to have thought of every token
    with torch.no_grad():
        logprobs = torch.cat([completion_logprobs(random_llama(), trajectory) for trajectory in rollout()])
    drift = (logprobs + 1).abs()
    assert metrics["sampling/logprob_diff_mean"] == pytest.approx(drift.mean().item(), abs=1e-5)
    assert metrics["sampling/logprob_diff_max"] == pytest.approx(drift.max().item(), abs=1e-5)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("rewards", [SOME_SOLVED, [1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5], [0.0] * 8])
def test_the_kl_to_a_reference_is_in_the_gradient_of_every_graded_row(updater, aggregate, rewards, random_llama):
    row = algorithm(aggregate=aggregate, kl_coef=0.3)
    trajectories, model, reference = rollout(rewards), random_llama(), random_llama(seed=1)
    batch = batch_of(trajectories)
    mine = accumulated(updater(model, row, reference, micro_batch_size=3), batch, advantages_of(batch, row))
    theirs = plain_gradient(
        model, trajectories, plain_advantages(rewards, True), aggregate, reference=reference, kl_coef=0.3
    )
    assert_same_gradient(mine, theirs)


def test_the_kl_metric_by_hand(updater, random_llama):
    row, trajectories = algorithm(kl_coef=0.3), rollout()
    batch = batch_of(trajectories)
    model, reference = random_llama(), random_llama(seed=1)
    with torch.no_grad():
        differences = torch.cat(
            [completion_logprobs(reference, t) - completion_logprobs(model, t) for t in trajectories]
        )
    expected = (differences.exp() - differences - 1).mean().item()
    metrics = updater(model, row, reference).step(batch, advantages_of(batch, row), 0)
    assert metrics["kl"] == pytest.approx(expected, rel=1e-5)
    assert metrics["kl_coef"] == 0.3


def test_the_kl_is_nothing_where_the_policy_is_the_reference(updater, random_llama):
    row, batch, model = algorithm(kl_coef=0.3), batch_of(rollout()), random_llama()
    advantages = advantages_of(batch, row)
    with_kl = updater(model, row, random_llama())
    assert_same_gradient(
        accumulated(with_kl, batch, advantages), accumulated(updater(model, algorithm()), batch, advantages)
    )
    metrics = with_kl.step(batch, advantages, 0)
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)
    assert with_kl.step(batch, advantages, 1)["kl"] > 1e-6


class Recording(Updater):
    """Keeps, for every optimizer step, its rows, the weights before it and its gradient."""

    def accumulate(self, batch, advantages, frozen, rows, tally=None):
        before = copy.deepcopy(self.policy.model)
        result = super().accumulate(batch, advantages, frozen, rows, tally)
        self.steps = [*getattr(self, "steps", []), (rows, before, gradient(self.policy.model))]
        return result


@pytest.mark.parametrize("minibatches", [1, 2])
@pytest.mark.parametrize("kl_coef", [0.0, 0.3])
def test_later_passes_measure_from_the_policy_at_the_start(updater, minibatches, kl_coef, random_llama):
    row, trajectories, model, start = algorithm(kl_coef=kl_coef), rollout(), random_llama(), random_llama()
    reference = random_llama(seed=1) if kl_coef else None
    batch = batch_of(trajectories)
    advantages = advantages_of(batch, row)
    made = updater(
        model, row, reference, cls=Recording, epochs=2, minibatches=minibatches, learning_rate=0.02, micro_batch_size=3
    )
    metrics = made.step(batch, advantages, 0)
    assert len(made.steps) == 2 * minibatches
    for epoch in range(2):
        passed = torch.cat([rows for rows, _, _ in made.steps[epoch * minibatches : (epoch + 1) * minibatches]])
        assert sorted(passed.tolist()) == list(range(8))

    clipped = 0
    for rows, before, mine in made.steps:
        chosen = [trajectories[i] for i in rows.tolist()]
        by_hand = advantages[rows].tolist()
        assert_same_gradient(
            mine,
            plain_gradient(before, chosen, by_hand, "sequence_mean", old=start, reference=reference, kl_coef=kl_coef),
        )
        with torch.no_grad():
            for trajectory, advantage in zip(chosen, by_hand, strict=True):
                ratio = (completion_logprobs(before, trajectory) - completion_logprobs(start, trajectory)).exp()
                clipped += int((ratio > 1.2).sum()) if advantage > 0 else int((ratio < 0.8).sum())
    assert clipped > 0
    tokens = 2 * sum(trajectory.length for trajectory in trajectories)
    total = metrics["clip_ratio/low_mean"] + metrics["clip_ratio/high_mean"]
    assert total == pytest.approx(clipped / tokens)


def test_a_minibatch_counts_its_own_rows(updater, random_llama):
    row, trajectories, model = algorithm(aggregate="token_mean"), rollout(), random_llama()
    batch = batch_of(trajectories)
    rows = torch.tensor([6, 0, 3])
    advantages = advantages_of(batch, row)
    mine = accumulated(updater(model, row), batch, advantages, rows)
    chosen = [trajectories[i] for i in rows.tolist()]
    assert_same_gradient(mine, plain_gradient(model, chosen, advantages[rows].tolist(), "token_mean"))


def test_the_learning_rate_warms_up_by_hand(updater, random_llama):
    row, model, batch = algorithm("dr_grpo"), random_llama(), batch_of(rollout())
    made = updater(model, row, learning_rate=0.01, warmup_steps=3)
    advantages = advantages_of(batch, row)
    for step, rate in enumerate([0.0025, 0.005, 0.0075, 0.01, 0.01]):
        expected = weights(model) - rate * accumulated(made, batch, advantages)
        assert made.step(batch, advantages, step)["learning_rate"] == pytest.approx(rate)
        torch.testing.assert_close(weights(model), expected, atol=1e-6, rtol=0)


def test_a_long_gradient_is_cut_to_its_norm(updater, random_llama):
    row, model, batch = algorithm("dr_grpo"), random_llama(), batch_of(rollout())
    made = updater(model, row, max_grad_norm=0.05, learning_rate=1.0)
    advantages = advantages_of(batch, row)
    norm = accumulated(made, batch, advantages).norm().item()
    assert norm > 0.1
    before = weights(model)
    assert made.step(batch, advantages, 0)["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert (weights(model) - before).norm().item() == pytest.approx(0.05, rel=1e-3)


def test_a_gradient_that_is_not_finite_ends_the_step_before_it_ruins_the_weights(updater, random_llama):
    row, model, batch = algorithm(), random_llama(), batch_of(rollout())
    made = updater(model, row, minibatches=2, epochs=2)
    with torch.no_grad():
        model.lm_head.weight[3, 2] = float("inf")
    before = weights(model)
    metrics = made.step(batch, advantages_of(batch, row), step=7)
    assert torch.equal(before, weights(model))
    assert math.isnan(metrics["grad_norm"])
    said = str(made.failure)
    assert said.startswith("The gradient of step 8 has norm nan")
    assert "lower train.learning_rate" in said

    with torch.no_grad():
        model.lm_head.weight[3, 2] = 0.0
    made.step(batch, advantages_of(batch, row), step=8)
    assert made.failure is None


def test_minibatches_are_the_seeds_and_random_states_are_left_alone(updater, random_llama):
    row, batch = algorithm(), batch_of(rollout())
    state = torch.random.get_rng_state()
    steps = []
    for _ in range(2):
        made = updater(random_llama(), row, cls=Recording, minibatches=4)
        for step in (0, 1):
            made.step(batch, advantages_of(batch, row), step)
        steps.append([rows.tolist() for rows, _, _ in made.steps])
    assert torch.equal(state, torch.random.get_rng_state())
    assert steps[0] == steps[1]
    assert steps[0][:4] != steps[0][4:]


def test_a_tally_of_nothing_says_nothing():
    assert Tally().metrics() == {}


def test_the_entropy_is_told_where_the_engine_cannot_and_moves_nothing(updater, random_llama):
    batch, row = batch_of(rollout()), algorithm()
    advantages = advantages_of(batch, row)
    silent, telling = random_llama(), random_llama()
    assert "entropy" not in updater(silent, row).step(batch, advantages, 0)
    with torch.no_grad():
        logits = telling(batch.input_ids, attention_mask=batch.attention_mask).logits[:, :-1]
    said = torch.distributions.Categorical(logits=logits).entropy()[batch.loss_mask[:, 1:]].mean()
    metrics = updater(telling, row, tells_entropy=True).step(batch, advantages, 0)
    assert metrics["entropy"] == pytest.approx(float(said), rel=1e-6)
    assert torch.equal(weights(silent), weights(telling))


@pytest.mark.parametrize("name", ["grpo", "reinforce", "cispo"])
def test_a_correction_multiplies_the_policy_term_alone(updater, random_llama, name):
    # The sampler is made to differ by the same factor everywhere: ratio 1/2, kept as it is by these bounds.
    model, plain = random_llama(), algorithm(name, **({"kl": "none"} if name == "reinforce" else {}))
    batch = batch_of(rollout())
    exact = logprobs_of(model, batch)
    batch = replace(batch, sampler_logprobs=torch.where(batch.loss_mask, exact + math.log(2), 0.0))
    advantages = torch.tensor([0.5, -1.0, 2.0, 1.0, -0.5, 1.5, 1.0, -2.0])
    half = plain.model_copy(update={"correction": "token_truncate"})
    whole = accumulated(updater(model, plain), batch, advantages)
    assert torch.allclose(accumulated(updater(model, half), batch, advantages), whole / 2, atol=1e-7)
    masked = plain.model_copy(update={"correction": "token_mask", "correction_low": 0.6})
    assert accumulated(updater(model, masked), batch, advantages).abs().max() == 0

    # With a KL in the loss, what the correction takes away is the policy term and nothing of the KL.
    if name == "grpo":
        reference = random_llama(1)
        with_kl, kl_alone = (
            accumulated(updater(model, row, reference=reference), batch, values)
            for row, values in (
                (algorithm(kl_coef=0.3, correction="token_mask", correction_low=0.6), advantages),
                (algorithm(kl_coef=0.3), torch.zeros(8)),
            )
        )
        assert torch.allclose(with_kl, kl_alone, atol=1e-7)


def test_old_logprobs_of_the_sampler_are_what_the_ratio_divides_by(updater, random_llama):
    model, row = random_llama(), algorithm(old_logprobs="sampler", clip_low=0.9, clip_high=9)
    batch = batch_of(rollout())
    exact = logprobs_of(model, batch)
    batch = replace(batch, sampler_logprobs=torch.where(batch.loss_mask, exact - math.log(3), 0.0))
    advantages = torch.tensor([0.5, -1.0, 2.0, 1.0, -0.5, 1.5, 1.0, -2.0])
    # d(rho A) = rho A d log pi with rho = 3 in every token
    tripled = accumulated(updater(model, row), batch, advantages)
    assert torch.allclose(tripled, 3 * accumulated(updater(model, algorithm()), batch, advantages), atol=1e-6)
    metrics = updater(model, row).step(batch, advantages, 0)
    assert metrics["sampling/logprob_diff_mean"] == pytest.approx(math.log(3), abs=1e-5)


def test_how_far_the_policy_moved_is_measured_from_the_trainers_own_log_probs(updater, random_llama):
    row = algorithm(old_logprobs="sampler", early_stop_kl=0.01)
    batch = batch_of(rollout())  # to which the sampler is far off
    model = random_llama()
    before = weights(model)
    metrics = updater(model, row, minibatches=2).step(batch, advantages_of(batch, row), 0)
    assert metrics["policy/approxkl_avg"] < 0.01
    assert not torch.equal(before, weights(model))
