"""Rollouts of several turns: tokens, masks, rewards, seeds, and who is generated for."""

from __future__ import annotations

import pytest

import rlvr
from rlvr import Rubric, Task, Tasks, TextVectorEnv, UserError, score
from rlvr.envs import Reply
from rlvr.trainers.engines import Completion, Engine, Sampling
from rlvr.trainers.engines.scripted import ScriptedEngine
from rlvr.trainers.evaluate import evaluate
from rlvr.trainers.rollout import collect
from rlvr.trainers.seeding import derive
from rlvr.trainers.tiny import build_tokenizer
from rlvr.trainers.trajectory import Batch

TASKS = Tasks.from_list([Task("one", "ask", "yes"), Task("two", "beg", "yes")])


def reply(task, conversation, completion):
    """ "no" is asked again, for a quarter; anything else ends the episode."""
    asked = sum(message["role"] == "assistant" for message in conversation)
    return Reply(f"sure{asked}?", 0.25) if completion == "no" else Reply(None)


def is_yes(completion: str, answer: str) -> float:
    return float(completion == answer)


RUBRIC = Rubric(score(is_yes, passes=True))


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


class Recorded(Engine):
    """An engine that hands out completions made beforehand, a list a round, and notes what it was asked."""

    def __init__(self, *rounds, max_length=None):
        self.rounds, self.asked, self.seeds = list(rounds), [], []
        self.max_length = max_length

    def stream(self, prompts, sampling, seeds):
        self.asked.append([list(prompt) for prompt in prompts])
        self.seeds.append(list(seeds))
        yield from enumerate(self.rounds.pop(0))

    def sync(self, weights, version):
        self.version = version


def written(tokenizer, text, reason="stop", ids=None):
    ids = [*tokenizer.encode(text), tokenizer.eos_token_id] if ids is None else ids
    return Completion(ids, [-0.5] * len(ids), [1.0] * len(ids), reason)


def play(tokenizer, engine, count=1, max_turns=3, max_tokens=10, rubric=RUBRIC, think="none", turn=reply):
    envs = TextVectorEnv(count, TASKS, rubric, think=think, turn=turn, max_turns=max_turns)
    eos_ids = {tokenizer.eos_token_id}
    return collect(envs, engine, tokenizer, eos_ids, [0], count, Sampling(max_tokens), list(range(count)))


def test_three_turns_token_for_token(tokenizer):
    engine = Recorded([written(tokenizer, "no")], [written(tokenizer, "no")], [written(tokenizer, "yes")])
    (trajectory,) = play(tokenizer, engine)
    encode = tokenizer.encode
    spoken = [
        (0, encode("<|user|>ask<|assistant|>")),
        (1, [*encode("no"), tokenizer.eos_token_id]),
        (0, encode("<|user|>sure0?<|assistant|>")),
        (1, [*encode("no"), tokenizer.eos_token_id]),
        (0, encode("<|user|>sure1?<|assistant|>")),
        (1, [*encode("yes"), tokenizer.eos_token_id]),
    ]
    assert trajectory.ids == [token for _, ids in spoken for token in ids]
    assert trajectory.loss_mask == [mask for mask, ids in spoken for _ in ids]
    assert trajectory.sampler_logprobs == [-0.5 * mask for mask in trajectory.loss_mask]
    assert trajectory.entropies == [1.0 * mask for mask in trajectory.loss_mask]
    assert trajectory.rewards == [0.25, 0.25, 1.0]
    assert (trajectory.reward, trajectory.turns, trajectory.length) == (1.5, 3, 3 + 3 + 4)
    # The last generated token of each turn is its EOS.
    assert [trajectory.ids[end] for end in trajectory.turn_ends] == [tokenizer.eos_token_id] * 3
    assert [trajectory.loss_mask[end + 1 : end + 2] for end in trajectory.turn_ends] == [[0], [0], []]
    assert (trajectory.finish_reason, trajectory.truncated, trajectory.verdict.passed) == ("stop", False, True)
    assert (trajectory.prompt, trajectory.completion) == ("ask", "yes")
    assert trajectory.transcript == "no\n[user] sure0?\nno\n[user] sure1?\nyes"
    # Each prompt is what was read and written before, to the token.
    for asked in engine.asked:
        assert trajectory.ids[: len(asked[0])] == asked[0]
    assert [len(asked[0]) for asked in engine.asked] == [
        sum(len(ids) for _, ids in spoken[:first]) for first in (1, 3, 5)
    ]


class Merging:
    """A tokenizer that spells "ab" as one token, though the model sampled it as two."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self.merged = tokenizer.convert_tokens_to_ids("#")

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, text, **options):
        ids, out = self._tokenizer(text, **options)["input_ids"], []
        pair = self._tokenizer.encode("ab")
        for token in ids:
            out = [*out[:-1], self.merged] if [*out[-1:], token] == pair else [*out, token]
        return {"input_ids": out}


def test_sampled_tokens_are_never_spelt_anew(tokenizer):
    sampled = [*tokenizer.encode("ab"), tokenizer.eos_token_id]
    ask_again = lambda task, conversation, completion: Reply("ab?")  # noqa: E731
    engine = Recorded(*[[written(tokenizer, "", ids=sampled)] for _ in range(2)])
    merging = Merging(tokenizer)
    (trajectory,) = play(merging, engine, max_turns=2, turn=ask_again)
    generated = [token for token, mask in zip(trajectory.ids, trajectory.loss_mask, strict=True) if mask]
    assert generated == sampled * 2
    # The environment's own message is spelt by the tokenizer.
    assert merging.merged in trajectory.ids


def test_only_unfinished_episodes_are_generated_for_with_seeds_of_their_own(tokenizer):
    yes, no = written(tokenizer, "yes"), written(tokenizer, "no")
    engine = Recorded([no, yes, no, no], [no, yes, no], [yes, no])
    trajectories = play(tokenizer, engine, count=4)
    assert [len(asked) for asked in engine.asked] == [4, 3, 2]
    assert engine.seeds == [
        [0, 1, 2, 3],
        [derive(seed, "turn", 1) for seed in (0, 2, 3)],
        [derive(seed, "turn", 2) for seed in (0, 3)],
    ]
    assert [trajectory.rewards for trajectory in trajectories] == [
        [0.25, 0.25, 1.0],
        [1.0],
        [0.25, 1.0],
        [0.25, 0.25, 0.25],
    ]
    # The last one ran out of turns.
    assert [trajectory.truncated for trajectory in trajectories] == [False, False, False, True]
    assert [trajectory.finish_reason for trajectory in trajectories] == ["stop"] * 4
    assert [trajectory.verdict.passed for trajectory in trajectories] == [True, True, True, False]

    batch = Batch.from_trajectories(trajectories, tokenizer.pad_token_id)
    assert batch.turn_rewards.tolist()[1] == [1.0, 0.0, 0.0]
    assert batch.turn_ends[1, 1:].tolist() == [-1, -1]
    assert batch.rewards.tolist() == [1.5, 1.0, 1.25, 0.75]
    assert batch.truncated.tolist() == [False, False, False, True]
    shorter = batch.rows(batch.groups.new_tensor([1, 2]))
    assert shorter.turn_rewards.shape == shorter.turn_ends.shape == (2, 3)
    assert shorter.loss_mask.shape[1] == len(trajectories[2].ids)


def test_a_completion_that_is_cut_off_ends_its_episode(tokenizer):
    engine = Recorded([written(tokenizer, "", "length", tokenizer.encode("no"))])
    (trajectory,) = play(tokenizer, engine)
    assert (trajectory.finish_reason, trajectory.truncated) == ("length", True)
    assert trajectory.rewards == [0.25]
    assert trajectory.verdict.passed is False


@pytest.mark.parametrize("room", [0, 1])
def test_a_conversation_that_outgrows_the_model_ends(tokenizer, room):
    asked, again = len(tokenizer.encode("<|user|>ask<|assistant|>no<|end|>")), len("sure0?") + 2
    engine = Recorded([written(tokenizer, "no")], [written(tokenizer, "yes")], max_length=asked + again + 9 + room)
    (trajectory,) = play(tokenizer, engine, max_tokens=10)
    if room:
        assert (trajectory.rewards, trajectory.truncated) == ([0.25, 1.0], False)
        return
    # The second turn had no room: the model says nothing, and the message it could not read is not in the ids.
    assert len(engine.asked) == 1
    assert len(trajectory.ids) == asked
    assert (trajectory.rewards, trajectory.finish_reason, trajectory.truncated) == ([0.25, 0.0], "length", True)
    assert trajectory.turn_ends == [asked - 1] * 2
    assert (trajectory.completion, trajectory.length) == ("", 3)


def test_a_turn_without_tokens_ends_where_the_one_before_did(tokenizer):
    nothing = Completion([], [], [], "stop")
    again = lambda task, conversation, completion: Reply("?" if len(conversation) < 5 else None, 0.5)  # noqa: E731
    engine = Recorded([nothing], [written(tokenizer, "x")], [nothing])
    (trajectory,) = play(tokenizer, engine, turn=again)
    assert trajectory.turn_ends[0] == -1
    assert (
        trajectory.turn_ends[1]
        == trajectory.turn_ends[2]
        == max(place for place, mask in enumerate(trajectory.loss_mask) if mask)
    )
    # Each turn was closed by the template, as the model had not.
    assert tokenizer.decode(trajectory.ids).startswith("<|user|>ask<|assistant|><|end|><|user|>?<|assistant|>x<|end|>")


def test_no_turn_of_a_group_sees_another(tokenizer):
    """The script answers with what it was shown, so prompts that were mixed up would show."""
    seen = {}

    def script(prompt, seed):
        seen.setdefault(prompt, []).append(seed)
        return "no" if "sure1?" not in prompt else "yes"

    engine = ScriptedEngine(tokenizer, script, tokenizer.eos_token_id)
    envs = TextVectorEnv(4, TASKS, RUBRIC, think="none", turn=reply, max_turns=3)
    trajectories = collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0, 1], 2, Sampling(10), list(range(4)))
    assert [trajectory.group for trajectory in trajectories] == [0, 0, 1, 1]
    assert all(trajectory.verdict.passed for trajectory in trajectories)
    assert len(seen) == 6
    assert all(len(set(seeds)) == 2 for seeds in seen.values())


STRIPPING = (
    "{% for m in messages %}{{ '<|' + m.role + '|>' }}"
    "{{ m.content.split('</think>')[-1] if m.role == 'assistant' else m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}<|assistant|>"
)


def test_a_template_that_strips_old_reasoning_is_refused_before_anything_is_generated():
    tokenizer = build_tokenizer()
    tokenizer.chat_template = STRIPPING
    engine = Recorded()
    with pytest.raises(UserError, match=r"strips old reasoning.*set model\.chat_template"):
        play(tokenizer, engine, think="generated")
    assert engine.asked == []
    # A single turn has no earlier ones.
    engine = Recorded([written(tokenizer, "yes")])
    assert play(tokenizer, engine, think="generated", max_turns=1)[0].reward == 1.0


def test_reasoning_that_nobody_expected_is_warned_of_and_kept(tokenizer):
    stripping = build_tokenizer()
    stripping.chat_template = STRIPPING
    again = lambda task, conversation, completion: Reply("?")  # noqa: E731
    thought = written(tokenizer, "<think>hm</think>no")
    engine = Recorded([thought], [thought])
    with pytest.warns(UserWarning, match="rewrites earlier turns"):
        (trajectory,) = play(stripping, engine, max_turns=2, turn=again)
    generated = [token for token, mask in zip(trajectory.ids, trajectory.loss_mask, strict=True) if mask]
    assert generated == thought.ids * 2


def test_a_turn_function_that_breaks_leaves_an_ungraded_trajectory(tokenizer):
    def broken(task, conversation, completion):
        raise OSError("no disk")

    (trajectory,) = play(tokenizer, Recorded([written(tokenizer, "no")]), turn=broken)
    assert trajectory.reward != trajectory.reward
    assert trajectory.verdict.status == "error"


def test_a_game_is_evaluated_over_its_turns(tokenizer, tmp_path):
    def halve(prompt, seed):
        low, high = (int(number) for number in prompt.removeprefix("<|user|>").split("<|")[0].split("-"))
        for part in prompt.split("<|assistant|>")[1:-1]:
            guess, said = int(part.split("{")[1].split("}")[0]), part.split("<|user|>")[1]
            low, high = (guess + 1, high) if said == "Higher." else (low, guess - 1)
        return rf"\boxed{{{(low + high) // 2}}}"

    engine = ScriptedEngine(tokenizer, halve, tokenizer.eos_token_id)
    options = {"span": 8, "highest": 40, "template": "{low}-{high}", "system": None, "think": "none"}
    results = {}
    for max_turns in (4, 1):
        results[max_turns] = evaluate(
            engine,
            tokenizer,
            {tokenizer.eos_token_id},
            "rlvr/GuessNumber-v0",
            rows_path=tmp_path / f"{max_turns}.jsonl",
            options={**options, "max_turns": max_turns},
            n=1,
            ks=(1,),
            sampling=Sampling(10),
        )
    assert results[4].pass_at[1].value == 1.0
    assert results[4].tasks == len(rlvr.envs.make_vec("rlvr/GuessNumber-v0", 1, split="eval", **options).tasks)
    assert results[1].pass_at[1].value < 0.5
