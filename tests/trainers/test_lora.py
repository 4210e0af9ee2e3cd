"""Adapters: nothing changes until they are trained, the model without them stays the reference, and what is saved."""

import copy
import json
from itertools import count

import pytest
import torch
from accelerate import Accelerator
from peft import PeftModel
from transformers import AutoModelForCausalLM

import rlvr
from rlvr import UserError
from rlvr.config import load_config
from rlvr.trainers.critic import build_critic, load_critic, save_critic
from rlvr.trainers.engines import Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.logprobs import TokenLogprobs
from rlvr.trainers.loop import Trainer
from rlvr.trainers.lora import ReferenceOfAdapter, adapter_off, add_adapter, has_adapter, restore_adapter, save_adapter
from rlvr.trainers.lora_settings import LoraSettings
from rlvr.trainers.models import load_model, save_policy
from rlvr.trainers.progress import Silent
from rlvr.trainers.settings import TrainConfig
from rlvr.trainers.shared_prompts import can_share_prompts
from rlvr.trainers.tiny import build_tiny, build_tokenizer
from rlvr.trainers.weights import named_weights

IDS = torch.arange(20)[None] + 10
numbers = count()


def tiny(dtype=torch.float32):
    return build_tiny(0)[0].eval().to(dtype)


def adapted(r=4, seed=3, dtype=torch.float32, trained=True, **settings):
    model = tiny(dtype)
    add_adapter(model, LoraSettings(r=r, **settings), seed, "tiny")
    if trained:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS, use_cache=False).logits


def test_a_fresh_adapter_changes_no_bit_and_is_all_that_can_be_trained():
    model = adapted(trained=False)
    assert torch.equal(logits(model), logits(tiny()))
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trainable == {name for name, _ in model.named_parameters() if "lora_" in name}
    # Seven linear layers in each of three blocks; not the output layer.
    assert len(trainable) == 2 * 7 * 3
    assert not any(module.training for module in model.modules())
    assert can_share_prompts(model.base_model)
    assert has_adapter(model)
    assert not has_adapter(tiny())


def test_the_adapter_is_the_seeds_and_touches_no_random_state():
    before = torch.get_rng_state()
    first, again, other = (adapted(seed=seed, trained=False).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_layer_adds_alpha_over_r_times_b_a():
    model = adapted(r=4, alpha=6.0)
    layer = model.model.layers[0].mlp.up_proj
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    states = torch.randn(5, 160, generator=torch.Generator().manual_seed(0))
    expected = states @ layer.base_layer.weight.T + 1.5 * (states @ a.T) @ b.T
    torch.testing.assert_close(layer(states), expected)
    weights = dict(named_weights(model))
    torch.testing.assert_close(weights["model.layers.0.mlp.up_proj.weight"], layer.base_layer.weight + 1.5 * b @ a)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_with_the_adapter_off_it_is_the_model_it_was(dtype):
    model, before = adapted(dtype=dtype), logits(tiny(dtype))
    trained = logits(model)
    assert not torch.allclose(trained, before, atol=0.1)
    with adapter_off(model):
        assert torch.equal(logits(model), before)
    assert torch.equal(logits(model), trained)
    assert all(parameter.requires_grad for name, parameter in model.named_parameters() if "lora_" in name)
    assert {parameter.dtype for name, parameter in model.named_parameters() if "lora_" in name} == {torch.float32}
    assert {parameter.dtype for name, parameter in model.named_parameters() if "lora_" not in name} == {dtype}


def test_the_reference_is_the_base_without_a_gradient():
    model, mask = adapted(), torch.ones_like(IDS, dtype=torch.bool)
    found = ReferenceOfAdapter(TokenLogprobs(model, 0.7))(IDS, torch.ones_like(IDS), mask).logprobs
    expected = TokenLogprobs(tiny(), 0.7)(IDS, torch.ones_like(IDS), mask).logprobs
    assert torch.equal(found, expected)
    assert not found.requires_grad
    assert not torch.allclose(TokenLogprobs(model, 0.7)(IDS, torch.ones_like(IDS), mask).logprobs, expected, atol=0.1)


def test_what_is_saved_loads_without_peft_and_the_adapter_with_it(tmp_path):
    model = adapted()
    save_policy(model, build_tokenizer(), tmp_path)
    for plain in (load_model(str(tmp_path)).model, AutoModelForCausalLM.from_pretrained(tmp_path).eval()):
        assert not has_adapter(plain)
        torch.testing.assert_close(logits(plain), logits(model), atol=1e-4, rtol=1e-4)
        assert dict(plain.named_parameters()).keys() == dict(tiny().named_parameters()).keys()
        assert torch.equal(plain.lm_head.weight, plain.model.embed_tokens.weight)
    assert torch.equal(logits(PeftModel.from_pretrained(tiny(), tmp_path / "adapter")), logits(model))
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 4
    # Saving is no training: the policy goes on as it was.
    assert has_adapter(model)


def test_an_adapter_comes_back_bit_by_bit(tmp_path):
    model = adapted()
    save_adapter(model, tmp_path)
    again = adapted(seed=9, trained=False)
    restore_adapter(again, tmp_path)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad == ("lora_" in name) for name, parameter in again.named_parameters())


@pytest.mark.parametrize("settings", [{"r": 5}, {"target_modules": ["q_proj"]}])
def test_an_adapter_of_another_shape_is_refused(tmp_path, settings):
    save_adapter(adapted(), tmp_path)
    with pytest.raises(UserError, match="other layers or another rank"):
        restore_adapter(adapted(**{"r": 4, **settings}), tmp_path)


@pytest.mark.parametrize("name", ["nothing_proj", "lm_head", "embed_tokens"])
def test_layers_that_cannot_have_one_are_refused(name):
    with pytest.raises(UserError, match=r"model\.lora\.target_modules"):
        adapted(target_modules=[name])


def test_dropout_is_refused():
    with pytest.raises(ValueError, match="would not be the one that was sampled from"):
        LoraSettings(dropout=0.1)


def test_it_generates_as_the_merged_model_does(tmp_path):
    model = adapted()
    save_policy(model, build_tokenizer(), tmp_path)
    plain = load_model(str(tmp_path)).model
    prompts, seeds = [[10, 11, 12]] * 3 + [[13, 14]], [1, 2, 3, 4]
    written = [HFEngine(m, [1], 0).generate(prompts, Sampling(8), seeds) for m in (model, plain, tiny())]
    assert [c.ids for c in written[0]] == [c.ids for c in written[1]] != [c.ids for c in written[2]]
    for mine, theirs in zip(written[0], written[1], strict=True):
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_a_critic_of_an_adapted_policy_is_saved_as_a_plain_model(tmp_path):
    model = adapted()
    critic = build_critic(model, shared=False)
    with torch.no_grad():
        critic.head.weight.fill_(0.1)
        for name, parameter in critic.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.01)
    save_critic(critic, tmp_path)
    again = load_critic(str(tmp_path), "float32", "cpu", 1)
    attention, mask = torch.ones_like(IDS), torch.ones_like(IDS, dtype=torch.bool)
    torch.testing.assert_close(again(IDS, attention, mask), critic(IDS, attention, mask), atol=1e-3, rtol=1e-3)


@pytest.fixture(scope="module", autouse=True)
def _cached(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLVR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def digits_first(completion: str) -> float:
    """The share of 8 characters that are written before the first one that is no digit."""
    leading = len(completion) - len(completion.lstrip("0123456789"))
    return min(leading, 8) / 8


def finely(completion: str) -> float:
    return sum(ord(character) % 16 for character in completion) / 128


def configuration(rubric, **sections):
    name = f"test-lora/Digits{next(numbers)}-v0"
    tasks = {s: [{"prompt": c, "answer": c} for c in letters] for s, letters in (("train", "abcdefgh"), ("eval", "yz"))}
    rlvr.register(name, tasks=tasks, rubric=rubric)
    settings = {
        "seed": 5,
        "model": {"name": "tiny", "warm_start": {"steps": 2, "batch_size": 4}, "lora": {"r": 4}},
        "env": {"id": name},
        "sampling": {"max_tokens": 8},
        "algorithm": {"name": "grpo", "kl_coef": 0.05},
        "train": {"steps": 4, "prompts_per_step": 2, "group_size": 4, "learning_rate": 5e-3},
        "eval": {"every": 0, "n": 1, "k": [1]},
        "checkpoint": {"every": 1, "keep_last": 9},
        "log": {"samples_every": 0},
    }
    for section, cells in sections.items():
        settings[section] = {**settings[section], **cells}
    return TrainConfig.model_validate(settings)


def metrics_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class Stopping(Silent):
    def __init__(self, after):
        self.after, self.trainer = after, None

    def step(self, step, steps, metrics):
        self.trainer.stop_requested = step == self.after


def test_a_run_trains_the_adapter_alone_against_the_model_it_started_from(tmp_path):
    trainer = Trainer(configuration(finely, algorithm={"name": "grpo", "kl_coef": 0.05}), tmp_path / "run")
    base = copy.deepcopy({n: p for n, p in trainer.policy.model.state_dict().items() if "lora_" not in n})
    attention, mask = torch.ones_like(IDS), torch.ones_like(IDS, dtype=torch.bool)
    reference = trainer.updater.reference(IDS, attention, mask).logprobs
    trainer.run()
    kls = [row["kl"] for row in metrics_of(tmp_path / "run")]
    assert kls[0] == 0.0
    assert kls[-1] > 1e-4
    after = trainer.policy.model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in base.items())
    assert torch.equal(trainer.updater.reference(IDS, attention, mask).logprobs, reference)
    moved = trainer.policy(IDS, attention, mask).logprobs
    assert not torch.allclose(moved, reference, atol=1e-2)
    # No second copy: the reference is the very policy.
    assert trainer.updater.reference.policy is trainer.policy
    saved = tmp_path / "run" / "checkpoints" / "step-000004"
    assert {path.name for path in saved.iterdir()} == {"adapter", "checksums.json", "optimizer.pt", "state.json"}
    final = TokenLogprobs(load_model(str(tmp_path / "run" / "final")).model)
    torch.testing.assert_close(final(IDS, attention, mask).logprobs, moved, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["grpo", "ppo"])
def test_a_resumed_run_is_the_run_that_was_not_stopped(tmp_path, name):
    config = configuration(finely, algorithm={"name": name, "kl_coef": 0.05})
    Trainer(config, tmp_path / "whole").run()
    reporter = Stopping(after=2)
    reporter.trainer = Trainer(config, tmp_path / "parts", reporter)
    reporter.trainer.run()
    Trainer(config, tmp_path / "parts", resume=True).run()
    rows = [
        [{k: v for k, v in row.items() if "time" not in k} for row in metrics_of(tmp_path / part)]
        for part in ("whole", "parts")
    ]
    assert rows[0] == rows[1]
    for file in ("final/model.safetensors", "final/adapter/adapter_model.safetensors"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "parts" / file).read_bytes()


@pytest.mark.parametrize("lora", [{"r": 4}, None])
def test_a_run_goes_on_with_no_other_base_model_than_it_began_with(tmp_path, monkeypatch, lora):
    base = tmp_path / "base"
    save_policy(*build_tiny(0), base)
    config = configuration(finely, model={"name": "base", "warm_start": None, "lora": lora})
    monkeypatch.chdir(tmp_path)
    reporter = Stopping(after=2)
    reporter.trainer = Trainer(config, tmp_path / "run", reporter)
    reporter.trainer.run()
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    other, tokenizer = build_tiny(0)
    with torch.no_grad():
        # One weight in the middle of one tensor, as another fine-tune of the same name has.
        next(other.parameters()).view(-1)[777] += 1e-3
    save_policy(other, tokenizer, base)
    # It is found from any folder.
    monkeypatch.chdir("/")
    config = load_config(str(tmp_path / "run" / "config.yaml"))
    with pytest.raises(UserError, match=rf"model\.name '{base}' has other weights than when the run began"):
        Trainer(config, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    save_policy(*build_tiny(0), base)
    Trainer(config, tmp_path / "run", resume=True).run()
    assert len(metrics_of(tmp_path / "run")) == 4


def test_the_optimizer_holds_nothing_of_what_is_frozen(tmp_path):
    trainer = Trainer(configuration(finely), tmp_path)
    trainer.train_step()
    moved = [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]
    assert {id(p) for p in moved} == {id(p) for n, p in trainer.policy.named_parameters() if "lora_" in n}
    assert len(trainer.optimizer.state) == len(moved)


@pytest.mark.slow
def test_it_learns(tmp_path):
    train = {"steps": 16, "prompts_per_step": 8, "group_size": 8, "learning_rate": 1e-2}
    config = configuration(digits_first, train=train, algorithm={"name": "grpo"}, checkpoint={"every": 0})
    Trainer(config, tmp_path).run()
    rewards = [row["reward"] for row in metrics_of(tmp_path)]
    assert rewards[0] < 0.1
    assert sum(rewards[-3:]) / 3 > 0.6


def test_accelerate_leaves_the_adapter_in_float32():
    model = adapted(dtype=torch.bfloat16)
    prepared = Accelerator(cpu=True).prepare_model(model)
    assert {p.dtype for n, p in prepared.named_parameters() if "lora_" in n} == {torch.float32}
