from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from rlvr.envs.arithmetic import arithmetic_tasks
from rlvr.trainers.warmstart import (
    Demonstration,
    WarmStart,
    cache_root,
    demonstrations,
    tiny_base,
    warm_start,
)

torch = pytest.importorskip("torch")

SMALL = {"steps": 2, "batch_size": 4}


def asked(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


@pytest.fixture
def tiny():
    from rlvr.trainers.tiny import build_tiny

    return build_tiny(0)


def test_settings_are_validated_without_torch():
    code = (
        "import sys; from rlvr.trainers.warmstart import WarmStart; WarmStart(level=3); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "wrong", [{"levels": 2}, {"careless": 1.5}, {"uneven": -0.1}, {"slip": 0.1}, {"steps": 0}, {"level": 6}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValidationError):
        WarmStart(**wrong)


def test_demonstrations_ask_as_the_environment_does_and_never_held_out_problems():
    settings = WarmStart(level=2, template="Now {expression}!", system="Think.", uneven=0.0)
    made = demonstrations(settings, 500)
    assert made == demonstrations(settings, 500)
    held_out = {task.prompt for task in arithmetic_tasks("eval", 2, template="Now {expression}!")}
    assert not held_out & {demonstration.messages[-1]["content"] for demonstration in made}
    assert made[0].messages[0] == {"role": "system", "content": "Think."}
    assert made[0].completion.startswith("<think>")
    assert made != demonstrations(settings.model_copy(update={"seed": 1}), 500)


def is_careful(demonstration: Demonstration) -> bool:
    # Only careful solutions write out columns.
    return ":" in demonstration.completion


def test_careful_demonstrations_come_first_and_uneven_ones_follow():
    made = demonstrations(WarmStart(max_operand=39, careless=1.0, uneven=0.4), 100)
    assert [is_careful(demonstration) for demonstration in made] == [True] * 60 + [False] * 40
    for demonstration in made[:60]:
        # The text is our own, so Python may read it.
        value = eval(demonstration.messages[0]["content"].rstrip("="))
        assert demonstration.completion.endswith(f"{{{value}}}")


def test_the_uneven_ones_are_a_mixture():
    made = demonstrations(WarmStart(max_operand=39, careless=0.6, uneven=0.5), 2_000)
    assert all(map(is_careful, made[:1_000]))
    assert 0.55 < sum(not is_careful(demonstration) for demonstration in made[1_000:]) / 1_000 < 0.65
    assert all(map(is_careful, demonstrations(WarmStart(careless=0.0, uneven=1.0), 100)))
    assert not any(map(is_careful, demonstrations(WarmStart(careless=1.0, uneven=1.0), 100)))


def test_a_few_steps_learn_one_completion_and_its_end(tiny):
    model, tokenizer = tiny
    losses = []
    warm_start(
        model,
        tokenizer,
        [Demonstration(asked("1 + 2="), r"\boxed{3}")],
        steps=30,
        batch_size=2,
        lr=3e-3,
        on_step=lambda step, loss: losses.append((step, loss)),
    )
    assert [step for step, _ in losses] == list(range(1, 31))
    assert losses[0][1] > 3
    assert losses[-1][1] < 0.2
    text = tokenizer.apply_chat_template(asked("1 + 2="), tokenize=False, add_generation_prompt=True)
    prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    written = model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False
    )
    assert tokenizer.decode(written[0, prompt.shape[1] :]) == r"\boxed{3}<|end|>"


def test_only_the_completion_is_learned(tiny):
    """Before any update, the reported loss is the mean negative log-prob of the completion's tokens and its end."""
    model, tokenizer = tiny
    short, long = Demonstration(asked("1 + 2="), "3"), Demonstration(asked("11 + 12="), "2;3")
    nats = []
    for demonstration in (short, long):
        messages = [*demonstration.messages, {"role": "assistant", "content": demonstration.completion}]
        ids = tokenizer(tokenizer.apply_chat_template(messages, tokenize=False), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            log_probs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        picked = log_probs.gather(1, ids[0, 1:, None])[:, 0]
        nats += (-picked[-len(demonstration.completion) - 1 :]).tolist()
    losses = []
    warm_start(
        model,
        tokenizer,
        [short, long],
        steps=1,
        batch_size=2,
        lr=1e-3,
        on_step=lambda _, loss: losses.append(loss),
    )
    assert losses[0] == pytest.approx(sum(nats) / len(nats), abs=1e-4)


def test_a_seed_fixes_the_result_and_the_global_state_is_untouched(tmp_path):
    from rlvr.trainers.models import load_model

    before = torch.get_rng_state()
    folders = [tiny_base(WarmStart(**SMALL), tmp_path / name) for name in ("one", "two")]
    assert torch.equal(torch.get_rng_state(), before)
    one, two = (load_model(str(folder)).model.state_dict() for folder in folders)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_second_call_finds_the_model_and_other_settings_make_another(tmp_path):
    settings = WarmStart(**SMALL)
    seen = []
    folder = tiny_base(settings, tmp_path, lambda step, loss: seen.append(step))
    assert seen == [1, 2]
    assert tiny_base(settings, tmp_path, lambda step, loss: seen.append(step)) == folder
    assert seen == [1, 2]
    assert tiny_base(settings.model_copy(update={"careless": 0.1}), tmp_path) != folder
    assert sorted(path.name[:5] for path in tmp_path.iterdir()) == ["tiny-", "tiny-"]


def test_an_interrupted_warm_start_leaves_nothing_behind(tmp_path):
    def interrupt(step: int, loss: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny_base(WarmStart(**SMALL), tmp_path, interrupt)
    assert list(tmp_path.iterdir()) == []


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    assert tiny_base(WarmStart(**SMALL)).parent == tmp_path / "here"
    monkeypatch.delenv("RLVR_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "rlvr"
