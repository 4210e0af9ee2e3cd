from __future__ import annotations

import math

import pytest

from rlvr import Rubric, Task, Tasks, TextVectorEnv, UserError, metric, score
from rlvr.trainers.engines import Completion, Engine, Sampling
from rlvr.trainers.engines.scripted import ScriptedEngine
from rlvr.trainers.play import decode_completion
from rlvr.trainers.rollout import collect, encode_prompt
from rlvr.trainers.tiny import build_tokenizer
from rlvr.trainers.trajectory import Batch

TASKS = Tasks.from_list([Task("one", "1+1=", 2), Task("two", "2+2=", 4), Task("three", "3+3=", 6)])
RUBRIC = Rubric(score("rlvr/number-v1", passes=True), metric("rlvr/think-v1"))


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


class Recorded(Engine):
    """An engine that hands out completions made beforehand, whatever it is asked."""

    def __init__(self, completions):
        self.completions = completions
        self.prompts = None
        self.seeds = None

    def stream(self, prompts, sampling, seeds):
        self.prompts, self.seeds = prompts, seeds
        yield from enumerate(self.completions)

    def sync(self, weights, version):
        self.version = version


def written(tokenizer, text, reason="stop", eos=True, entropies=True):
    ids = [*tokenizer.encode(text), *([tokenizer.eos_token_id] if eos else [])]
    logprobs = [-0.1 * (place + 1) for place in range(len(ids))]
    return Completion(ids, logprobs, [1.0] * len(ids) if entropies else None, reason)


def one_episode(tokenizer, completion, eos_ids=None, rubric=RUBRIC):
    envs = TextVectorEnv(1, TASKS, rubric)
    eos_ids = {tokenizer.eos_token_id} if eos_ids is None else eos_ids
    return collect(envs, Recorded([completion]), tokenizer, eos_ids, [0], 1, Sampling(50), [0])[0]


def test_a_trajectory_holds_the_episode_token_for_token(tokenizer):
    text = r"<think>1</think>\boxed{2}"
    trajectory = one_episode(tokenizer, written(tokenizer, text))
    prompt = tokenizer.encode("<|user|>1+1=<|assistant|>")
    count = len(tokenizer.encode(text)) + 1
    assert trajectory.task_id == "one"
    assert (trajectory.prompt, trajectory.completion) == ("1+1=", text)
    assert trajectory.ids == [*prompt, *tokenizer.encode(text), tokenizer.eos_token_id]
    assert trajectory.loss_mask == [0] * len(prompt) + [1] * count
    assert trajectory.sampler_logprobs == [0.0] * len(prompt) + [-0.1 * (place + 1) for place in range(count)]
    assert trajectory.entropies == [0.0] * len(prompt) + [1.0] * count
    assert trajectory.length == count
    assert (trajectory.rewards, trajectory.reward) == ([1.0], 1.0)
    assert trajectory.verdict.passed
    assert trajectory.verdict.answer == "2"
    assert trajectory.verdict.parts == {"number": 1.0, "think": 1.0}
    assert trajectory.finish_reason == "stop"


def test_an_engine_without_entropies_leaves_them_out(tokenizer):
    assert one_episode(tokenizer, written(tokenizer, "2", entropies=False)).entropies is None


def test_think_tags_reach_the_verifier_and_the_eos_does_not(tokenizer):
    trajectory = one_episode(tokenizer, written(tokenizer, r"<think>1</think>\boxed{2}"))
    assert "<think>" in trajectory.completion
    assert tokenizer.eos_token not in trajectory.completion
    assert trajectory.verdict.parts["think"] == 1.0


def test_special_tokens_stay_in_the_text_even_where_a_tokenizer_would_skip_them(tokenizer):
    completion = written(tokenizer, "a<|user|>b<|pad|>")
    assert decode_completion(tokenizer, completion, {tokenizer.eos_token_id}) == "a<|user|>b<|pad|>"


def test_the_text_is_not_cleaned_up(tokenizer):
    completion = written(tokenizer, "a .  b , 's ")
    assert decode_completion(tokenizer, completion, {tokenizer.eos_token_id}) == "a .  b , 's "


def test_an_eos_that_ended_nothing_stays_in_text_and_loss(tokenizer):
    """The engine says what was cut off: a last token that happens to be an EOS id proves nothing."""
    trajectory = one_episode(tokenizer, written(tokenizer, "2", reason="length"))
    assert trajectory.finish_reason == "length"
    assert trajectory.completion == "2<|end|>"
    assert trajectory.length == 2


def test_a_completion_that_stopped_without_an_eos_is_no_cut_and_keeps_its_last_token(tokenizer):
    trajectory = one_episode(tokenizer, written(tokenizer, "12", eos=False))
    assert (trajectory.finish_reason, trajectory.completion, trajectory.length) == ("stop", "12", 2)


def test_every_eos_of_the_model_counts_and_only_the_last_token_is_taken_off(tokenizer):
    other = tokenizer.convert_tokens_to_ids("<|user|>")
    ids = [*tokenizer.encode("2"), tokenizer.eos_token_id, other]
    trajectory = one_episode(tokenizer, Completion(ids, [0.0] * 3, None, "stop"), {tokenizer.eos_token_id, other})
    assert trajectory.completion == "2<|end|>"
    assert trajectory.length == 3


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_an_empty_completion_is_an_episode_too(tokenizer, reason):
    trajectory = one_episode(tokenizer, Completion([], [], [], reason))
    assert (trajectory.completion, trajectory.length, trajectory.verdict.status) == ("", 0, "unparseable")


def test_a_group_is_one_task_side_by_side_and_seeds_go_to_their_rows(tokenizer):
    envs = TextVectorEnv(6, TASKS, RUBRIC)
    engine = ScriptedEngine(tokenizer, lambda prompt, seed: rf"\boxed{{{seed}}}", tokenizer.eos_token_id)
    trajectories = collect(
        envs, engine, tokenizer, {tokenizer.eos_token_id}, [2, 0], 3, Sampling(50), [6, 1, 6, 0, 2, 2]
    )
    assert [trajectory.task_id for trajectory in trajectories] == ["three"] * 3 + ["one"] * 3
    assert [trajectory.group for trajectory in trajectories] == [0, 0, 0, 1, 1, 1]
    assert [trajectory.reward for trajectory in trajectories] == [1, 0, 1, 0, 1, 1]
    batch = Batch.from_trajectories(trajectories, tokenizer.pad_token_id)
    assert batch.groups.tolist() == [0, 0, 0, 1, 1, 1]
    assert batch.lengths.tolist() == [trajectory.length for trajectory in trajectories]


def test_the_system_prompt_is_part_of_the_prompt(tokenizer):
    envs = TextVectorEnv(1, TASKS, RUBRIC, system="Add.")
    engine = Recorded([written(tokenizer, "2")])
    collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0], 1, Sampling(50), [3])
    assert tokenizer.decode(engine.prompts[0]) == "<|system|>Add.<|user|>1+1=<|assistant|>"
    assert engine.prompts[0] == encode_prompt(tokenizer, envs.messages(["1+1="])[0])
    assert engine.seeds == [3]


class Forgetful(TextVectorEnv):
    """Draws tasks of its own, whatever it is told."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=0, options={"task": [0, 1, 2, 0]})


def test_a_group_of_several_tasks_is_refused_before_anything_is_generated(tokenizer):
    engine = Recorded(None)
    with pytest.raises(AssertionError, match="group 0 was to hold one task but got 'one' and 'two'"):
        collect(Forgetful(4, TASKS, RUBRIC), engine, tokenizer, set(), [0, 1], 2, Sampling(5), [0] * 4)
    assert engine.prompts is None


def test_two_prompts_under_one_task_id_are_no_group(tokenizer):
    tasks = Tasks.from_list([Task("same", "1+1=", 2), Task("other", "5+5=", 10)])

    class Renamed(TextVectorEnv):
        def reset(self, *, seed=None, options=None):
            observations, info = super().reset(options={"task": [0, 1]})
            info["task_id"][:] = "same"
            return observations, info

    with pytest.raises(AssertionError, match="one task"):
        collect(Renamed(2, tasks, RUBRIC), Recorded(None), tokenizer, set(), [0], 2, Sampling(5), [0, 0])


def test_each_completion_is_scored_once_by_the_environment_alone(tokenizer):
    calls = []

    def counted(completion: str, answer: int) -> float:
        calls.append(completion)
        return 0.25

    rubric = Rubric(score(counted, passes=True, name="counted"))
    envs = TextVectorEnv(4, TASKS, rubric)
    engine = ScriptedEngine(tokenizer, lambda prompt, seed: f"no {seed}", tokenizer.eos_token_id)
    trajectories = collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0, 1], 2, Sampling(50), range(4))
    assert sorted(calls) == ["no 0", "no 1", "no 2", "no 3"]
    assert [trajectory.reward for trajectory in trajectories] == [0.25] * 4


def test_the_reward_is_what_the_environment_gave(tokenizer):
    class Halved(TextVectorEnv):
        def recv(self, min_rows=1):
            rows, observations, rewards, *rest = super().recv(min_rows)
            return rows, observations, rewards / 2, *rest

    envs = Halved(1, TASKS, RUBRIC)
    completion = written(tokenizer, r"\boxed{2}")
    (trajectory,) = collect(
        envs, Recorded([completion]), tokenizer, {tokenizer.eos_token_id}, [0], 1, Sampling(50), [0]
    )
    assert (trajectory.reward, trajectory.verdict.score) == (0.5, 1.0)


def test_a_grader_that_fails_gives_no_reward_and_no_zero(tokenizer):
    def broken(completion: str) -> float:
        raise OSError("no disk")

    trajectory = one_episode(tokenizer, written(tokenizer, "2"), rubric=Rubric(score(broken, passes=True)))
    assert math.isnan(trajectory.reward)
    assert trajectory.verdict.status == "error"
    assert "no disk" in trajectory.verdict.detail


def test_a_template_that_refuses_the_system_prompt_is_said_in_one_sentence():
    tokenizer = build_tokenizer()
    tokenizer.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    with pytest.raises(UserError, match=r"refuses a conversation of system and user \(no system\); set .* system"):
        encode_prompt(tokenizer, [{"role": "system", "content": "Think."}, {"role": "user", "content": "1+1="}])
