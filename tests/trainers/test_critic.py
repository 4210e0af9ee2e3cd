import pytest
import torch
from transformers import LlamaForSequenceClassification

from rlvr import UserError
from rlvr.trainers.critic import build_critic, load_critic, restore_head, save_critic
from rlvr.trainers.models import save_policy
from rlvr.trainers.tiny import build_tokenizer

IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [5, 6, 7, 11, 12, 0], [13, 14, 15, 16, 0, 0]])
ATTENTION = (IDS != 0).long()
MASK = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0], [0, 1, 0, 1, 0, 0]], dtype=torch.bool)


@pytest.fixture
def policy(random_llama):
    return random_llama()


def with_random_head(critic):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        critic.head.weight.copy_(torch.randn(critic.head.weight.shape, generator=generator))
        critic.head.bias.fill_(0.5)
    return critic


def plain_value(critic, ids):
    """What is expected after `ids`, without padding or anything before it."""
    hidden = critic.body(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
    return float(critic.head.weight[0] @ hidden + critic.head.bias)


@pytest.mark.parametrize("shared", [False, True])
def test_a_new_critic_expects_nothing_but_can_learn(policy, shared):
    critic = build_critic(policy, shared)
    values = critic(IDS, ATTENTION, MASK)
    assert not values.any()
    (values - 1).square()[MASK].sum().backward()
    assert critic.head.weight.grad.abs().max() > 0
    assert critic.head.bias.grad.item() == pytest.approx(-2.0 * int(MASK.sum()))


def test_a_value_is_of_the_state_before_its_token(policy):
    critic = with_random_head(build_critic(policy, shared=False))
    with torch.no_grad():
        values = critic(IDS, ATTENTION, MASK)
        for row, column in MASK.nonzero().tolist():
            assert values[row, column] == pytest.approx(plain_value(critic, IDS[row, :column].tolist()), abs=1e-5)
    assert not values[~MASK].any()


def test_what_follows_the_last_token_is_looked_up_at_each_rows_own_end(policy):
    critic = with_random_head(build_critic(policy, shared=False))
    with torch.no_grad():
        values, ends = critic.with_end(IDS, ATTENTION, MASK)
        assert torch.allclose(values, critic(IDS, ATTENTION, MASK), atol=1e-5)
        for row, length in enumerate(ATTENTION.sum(dim=1).tolist()):
            assert ends[row] == pytest.approx(plain_value(critic, IDS[row, :length].tolist()), abs=1e-5)


def test_a_separate_critic_leaves_the_policy_alone_and_a_shared_one_does_not_unless_told(policy):
    for shared, head_only, moved in [(False, False, False), (True, False, True), (True, True, False)]:
        policy.zero_grad()
        critic = with_random_head(build_critic(policy, shared))
        critic(IDS, ATTENTION, MASK, head_only=head_only).sum().backward()
        assert any(p.grad is not None and p.grad.abs().max() > 0 for p in policy.parameters()) is moved
        assert critic.head.weight.grad.abs().max() > 0


def test_the_optimizer_of_a_critic_has_what_is_its_own(policy):
    body = sum(p.numel() for p in policy.base_model.parameters())
    assert sum(p.numel() for p in build_critic(policy, False).own_parameters()) == body + 33
    assert sum(p.numel() for p in build_critic(policy, True).own_parameters()) == 33


def test_a_half_precision_body_has_values_in_full(random_llama):
    critic = with_random_head(build_critic(random_llama().bfloat16(), shared=False))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = critic(IDS, ATTENTION, MASK)
    assert values.dtype == critic.head.weight.dtype == torch.float32
    assert not torch.equal(values, values.bfloat16().float())


def test_a_saved_critic_comes_back_bit_by_bit(policy, tmp_path):
    critic = with_random_head(build_critic(policy, shared=False))
    save_critic(critic, tmp_path)
    again = load_critic(str(tmp_path), "float32", "cpu", vocabulary=50)
    mine, theirs = critic.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert [p.shape for p in critic.own_parameters()] == [p.shape for p in again.own_parameters()]


def test_of_a_shared_critic_the_head_is_kept(policy, tmp_path):
    critic = with_random_head(build_critic(policy, shared=True))
    save_critic(critic, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["value_head.safetensors"]
    again = build_critic(policy, shared=True)
    restore_head(again, tmp_path)
    assert torch.equal(again.head.weight, critic.head.weight)
    assert torch.equal(again.head.bias, critic.head.bias)
    with pytest.raises(UserError, match="only its head is there"):
        load_critic(str(tmp_path), "float32", "cpu", vocabulary=50)


def test_a_reward_model_lends_its_head_too(policy, tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = LlamaForSequenceClassification(type(policy.config)(**{**policy.config.to_dict(), "num_labels": 1}))
    model.config.pad_token_id = 0
    model.save_pretrained(tmp_path)
    critic = load_critic(str(tmp_path), "float32", "cpu", vocabulary=50)
    with torch.no_grad():
        score = model.eval()(input_ids=IDS[:1]).logits.item()
        _, ends = critic.with_end(IDS[:1], ATTENTION[:1], MASK[:1])
    assert score != 0
    assert ends.item() == pytest.approx(score, rel=1e-5)


def test_a_classifier_of_several_labels_is_no_reward_model(policy, tmp_path):
    config = type(policy.config)(**{**policy.config.to_dict(), "num_labels": 3})
    LlamaForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="3 labels"):
        load_critic(str(tmp_path), "float32", "cpu", vocabulary=50)


def test_a_language_model_lends_its_backbone(random_llama, tmp_path):
    tokenizer = build_tokenizer()
    policy = random_llama(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    save_policy(policy, tokenizer, tmp_path)
    critic = load_critic(str(tmp_path), "float32", "cpu", vocabulary=len(tokenizer))
    assert not critic.head.weight.any()
    assert not critic.training
    theirs = critic.body.state_dict()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in policy.base_model.state_dict().items())
    with pytest.raises(UserError, match="token ids but the policy has 5000"):
        load_critic(str(tmp_path), "float32", "cpu", vocabulary=5000)


def test_a_critic_that_is_nowhere_is_said(tmp_path):
    with pytest.raises(UserError, match="There is no folder"):
        load_critic(str(tmp_path / "missing"), "float32", "cpu", vocabulary=50)
