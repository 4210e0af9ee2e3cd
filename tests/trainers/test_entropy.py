import math

import pytest
import torch

from rlvr.trainers import logprobs as module
from rlvr.trainers.algorithms import Algorithm
from rlvr.trainers.entropy import EntropyBonus, EntropyLogprobs, exact_entropy
from rlvr.trainers.logprobs import TokenLogprobs


def test_the_exact_entropy_by_hand_with_its_gradient():
    assert exact_entropy(torch.tensor([0.5, 0.25, 0.25]).log()).item() == pytest.approx(1.5 * math.log(2))
    assert exact_entropy(torch.tensor([1.0, 0.0]).log()).item() == 0.0
    logits = torch.tensor([1.0, -0.5, 0.3], requires_grad=True)
    exact_entropy(torch.log_softmax(logits, dim=0)).backward()
    p = torch.softmax(logits.detach(), dim=0)
    # d H / d z_v = -p_v (log p_v + H)
    expected = -p * (p.log() - (p * p.log()).sum())
    torch.testing.assert_close(logits.grad, expected)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("chunk_floats", [50, 150, 2**24])
def test_entropies_of_the_tempered_distribution_carry_their_gradient(
    temperature, chunk_floats, monkeypatch, random_llama
):
    monkeypatch.setattr(module, "_CHUNK_FLOATS", chunk_floats)
    ids = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[0, 3:], mask[1, 5:] = True, True
    attention = torch.ones_like(ids)
    mine, theirs = random_llama(), random_llama()
    said = EntropyLogprobs(mine, temperature)(ids, attention, mask, entropies=True)
    plain = TokenLogprobs(theirs, temperature)(ids, attention, mask, entropies=True)
    torch.testing.assert_close(said.entropies, plain.entropies)
    torch.testing.assert_close(said.logprobs, plain.logprobs)

    logits = theirs(input_ids=ids, attention_mask=attention).logits[:, :-1] / temperature
    torch.distributions.Categorical(logits=logits).entropy()[mask[:, 1:]].sum().backward()
    said.entropies.sum().backward()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def bonus(**cells):
    return EntropyBonus(Algorithm.model_validate({"name": "grpo", **cells}))


def test_a_fixed_weight_stays():
    made = bonus(entropy_coef=0.3)
    for entropy in (0.0, 5.0):
        made.observe(entropy)
        assert (made.applied, made.coef) == (0.3, 0.3)


def test_a_weight_is_steered_to_its_target_by_hand():
    made = bonus(entropy_coef=0.0, entropy_target=0.2, entropy_coef_delta=0.25, entropy_coef_max=0.5)
    told = []
    for entropy in (0.1, 0.2, 0.1, 0.3, 0.4, 0.4, 0.1):
        made.observe(entropy)
        told.append((made.coef, made.applied))
    assert told == [(0.25, 0.25), (0.5, 0.5), (0.5, 0.5), (0.25, 0.0), (0.0, 0.0), (0.0, 0.0), (0.25, 0.25)]


def test_the_state_comes_back():
    cells = {"entropy_target": 0.2, "entropy_coef": 0.1}
    made, again = bonus(**cells), bonus(**cells)
    made.observe(0.5)
    again.load_state_dict(made.state_dict())
    assert (again.coef, again.last, again.applied) == (made.coef, made.last, 0.0)
    # A constant one is the configuration's, which a user may have changed before resuming.
    fixed = bonus(entropy_coef=0.7)
    fixed.load_state_dict({"coef": 0.1, "last": 0.5})
    assert fixed.applied == 0.7
    changed = bonus(**{**cells, "entropy_coef": 0.3})
    changed.load_state_dict(made.state_dict())
    assert (changed.coef, changed.last) == (0.3, 0.5)
    older = bonus(**cells)
    older.load_state_dict({"coef": 0.15, "last": 0.5})
    assert older.coef == 0.15
