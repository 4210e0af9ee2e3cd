"""Verification while others are still being generated: the same trajectories, whatever the timing."""

from __future__ import annotations

import random
import threading
from itertools import pairwise

import pytest

from rlvr import Rubric, Task, Tasks, TextVectorEnv, UserError, score
from rlvr.envs import Reply
from rlvr.trainers.engines import Completion, Engine, Sampling
from rlvr.trainers.engines.hf import HFEngine
from rlvr.trainers.engines.scripted import ScriptedEngine
from rlvr.trainers.rollout import GRADED_TOGETHER, collect, episodes
from rlvr.trainers.tiny import build_tiny, build_tokenizer
from rlvr.trainers.trajectory import NOT_GENERATED

TASKS = Tasks.from_list([Task(f"t/{i}", f"ask {i}", str(i)) for i in range(40)])


def exact(completion: str, answer: str) -> float:
    return float(completion == answer)


def again(task, conversation, completion):
    """Whoever says "no" is asked again."""
    asked = sum(message["role"] == "assistant" for message in conversation)
    return Reply(f"sure{asked}?", 0.25) if completion == "no" else Reply(None)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


class Shuffled(Engine):
    """Says the script's lines in an order of its own, and takes further prompts in while it runs."""

    def __init__(self, tokenizer, script, order=0, grows=True):
        self.inner = ScriptedEngine(tokenizer, script, tokenizer.eos_token_id)
        self.random, self.grows = random.Random(order), grows
        self.streams = []

    def stream(self, prompts, sampling, seeds):
        waiting, taken = list(range(len(prompts))), len(prompts)
        self.streams.append([list(prompt) for prompt in prompts])
        while waiting:
            place = waiting.pop(self.random.randrange(len(waiting)))
            (completion,) = self.inner.generate([prompts[place]], sampling, [seeds[place]])
            yield place, completion
            if self.grows:
                waiting += range(taken, len(prompts))
                taken = len(prompts)

    def sync(self, weights, version):
        self.version = version


def play(tokenizer, engine, groups=3, size=4, rubric=None, turn=None, max_turns=1):
    envs = TextVectorEnv(
        groups * size, TASKS, rubric or Rubric(score(exact, passes=True)), think="none", turn=turn, max_turns=max_turns
    )
    tasks, seeds = list(range(groups)), list(range(groups * size))
    return collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, tasks, size, Sampling(30), seeds)


def sometimes_no(prompt, seed):
    return "no" if (seed + len(prompt)) % 3 else str(seed % 4)


def test_a_completion_is_verified_while_the_next_is_still_being_generated(tokenizer):
    verified = threading.Event()

    def noting(completion: str) -> float:
        verified.set()
        return 1.0

    class Waiting(ScriptedEngine):
        """Writes the second completion when the first has been verified."""

        def stream(self, prompts, sampling, seeds):
            for place, completion in super().stream(prompts, sampling, seeds):
                assert place == 0 or verified.wait(60), "the first completion was not verified meanwhile"
                yield place, completion

    engine = Waiting(tokenizer, lambda prompt, seed: "x", tokenizer.eos_token_id)
    rubric = Rubric(score(noting, passes=True))
    assert [trajectory.reward for trajectory in play(tokenizer, engine, 1, 2, rubric)] == [1.0, 1.0]


@pytest.mark.parametrize("max_turns", [1, 4])
@pytest.mark.parametrize("grows", [True, False])
def test_the_trajectories_do_not_depend_on_the_timing(tokenizer, max_turns, grows):
    reference = play(tokenizer, Shuffled(tokenizer, sometimes_no), turn=again, max_turns=max_turns)
    for order in range(5):
        slow = random.Random(order)

        def delayed(completion: str, answer: str, slow=slow) -> float:
            threading.Event().wait(slow.choice([0, 0.001, 0.02]))
            return exact(completion, answer)

        engine = Shuffled(tokenizer, sometimes_no, order, grows)
        rubric = Rubric(score(delayed, name="exact", passes=True))
        assert play(tokenizer, engine, rubric=rubric, turn=again, max_turns=max_turns) == reference
    if max_turns > 1:
        assert {trajectory.turns for trajectory in reference} >= {1, 2, 4}


class Attentive(TextVectorEnv):
    """Waits for a reply each time it is asked for those that there are."""

    def recv(self, min_rows=1):
        return super().recv(max(min_rows, min(1, self.in_flight)))


def test_an_episode_goes_on_while_others_are_still_in_their_first_turn(tokenizer):
    told = []

    class Talking(ScriptedEngine):
        def stream(self, prompts, sampling, seeds):
            for place, completion in super().stream(prompts, sampling, seeds):
                told.append(tokenizer.decode(prompts[place]))
                yield place, completion
                told.append(len(prompts))

    engine = Talking(tokenizer, lambda prompt, seed: "yes" if "sure0?" in prompt else "no", tokenizer.eos_token_id)
    envs = Attentive(2, TASKS, Rubric(score(exact, passes=True)), think="none", turn=again, max_turns=2)
    collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0, 1], 1, Sampling(9), [0, 1])
    first, second = (f"<|user|>ask {task}<|assistant|>" for task in (0, 1))
    later = "no<|end|><|user|>sure0?<|assistant|>"
    # Three prompts after the first completion: the reply to it was there.
    assert told == [first, 3, second, 4, first + later, 4, second + later, 4]


def test_an_engine_that_takes_no_further_prompts_is_given_a_round_in_the_order_of_the_rows(tokenizer):
    """What it generates together is then the same in every run."""
    rounds = []
    for order in range(4):
        slow = random.Random(order)

        def reply(task, conversation, completion, slow=slow):
            threading.Event().wait(slow.choice([0, 0.005]))
            return again(task, conversation, completion)

        engine = Shuffled(tokenizer, sometimes_no, order, grows=False)
        play(tokenizer, engine, turn=reply, max_turns=4)
        rounds.append(engine.streams)
    assert len(rounds[0]) == 4
    assert all(other == rounds[0] for other in rounds)


@pytest.mark.parametrize("size", [1, 4, 12, 40])
def test_a_batch_function_finds_whole_groups_and_always_the_same(tokenizer, size):
    groups, runs = -(-40 // size), []
    for order in range(3):
        calls = []

        def batch(completions: list[str], answer: list[str], calls=calls) -> list[float]:
            calls.append(list(zip(answer, completions, strict=True)))
            return [exact(*pair) for pair in zip(completions, answer, strict=True)]

        engine = Shuffled(tokenizer, lambda prompt, seed: f"{seed}", order)
        play(tokenizer, engine, groups, size, Rubric(score(batch, passes=True)))
        runs.append(sorted(calls, key=lambda call: int(call[0][1])))
    assert runs[0] == runs[1] == runs[2]
    assert [int(said) for call in runs[0] for _, said in call] == list(range(groups * size))
    assert all(len(call) >= GRADED_TOGETHER for call in runs[0][:-1])
    owners = [{answer for answer, _ in call} for call in runs[0]]
    assert all(one.isdisjoint(other) for one, other in pairwise(owners))


def test_a_batch_function_at_the_end_of_several_turns(tokenizer):
    def batch(completions: list[str], answer: list[str]) -> list[float]:
        return [exact(*pair) for pair in zip(completions, answer, strict=True)]

    one_by_one = play(tokenizer, Shuffled(tokenizer, sometimes_no), 9, 2, turn=again, max_turns=4)
    rubric = Rubric(score(batch, name="exact", passes=True))
    together = play(tokenizer, Shuffled(tokenizer, sometimes_no, 3), 9, 2, rubric, turn=again, max_turns=4)
    assert together == one_by_one


def test_an_episode_is_given_as_soon_as_it_is_over(tokenizer):
    envs = Attentive(3, TASKS, Rubric(score(exact, passes=True)), think="none")
    engine = ScriptedEngine(tokenizer, lambda prompt, seed: str(seed), tokenizer.eos_token_id)
    eos_ids = {tokenizer.eos_token_id}
    stream = episodes(envs, engine, tokenizer, eos_ids, [0, 1, 2], 1, Sampling(9), [0, 1, 2])
    row, trajectory = next(stream)
    assert (row, trajectory.task_id, trajectory.reward) == (0, "t/0", 1.0)
    assert envs.verdicts[1:] == [None, None]
    assert [row for row, _ in stream] == [1, 2]


def test_an_episode_is_given_while_the_verdict_on_another_is_still_awaited(tokenizer):
    given = threading.Event()

    def patient(completion: str, answer: str) -> float:
        return float(answer != "0" or given.wait(20))

    envs = TextVectorEnv(2, TASKS, Rubric(score(patient, passes=True)), system=None)
    engine = ScriptedEngine(tokenizer, lambda prompt, seed: "1", tokenizer.eos_token_id)
    rows = []
    for row, trajectory in episodes(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0, 1], 1, Sampling(9), [0, 1]):
        assert trajectory.reward == 1.0
        rows.append(row)
        given.set()
    assert rows == [1, 0]


def test_a_mistake_in_a_verifier_ends_the_rollout_and_the_next_one_is_whole(tokenizer):
    def picky(completion: str, answer: str) -> float:
        if completion == "?":
            raise UserError("Completions have no question marks; leave them out.")
        return exact(completion, answer)

    envs = TextVectorEnv(4, TASKS, Rubric(score(picky, passes=True)), think="none")
    closed = []

    class Closing(ScriptedEngine):
        def stream(self, prompts, sampling, seeds):
            try:
                yield from super().stream(prompts, sampling, seeds)
            finally:
                closed.append(True)

    def run(script):
        engine = Closing(tokenizer, script, tokenizer.eos_token_id)
        return collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [3], 4, Sampling(9), list(range(4)))

    with pytest.raises(UserError, match="no question marks"):
        run(lambda prompt, seed: "?" if seed == 1 else str(seed))
    assert closed == [True]
    assert [trajectory.reward for trajectory in run(lambda prompt, seed: str(seed))] == [0, 0, 0, 1]


@pytest.mark.parametrize(("places", "words"), [([0, 2], "without a completion for prompt 1"), ([0, 0], "second")])
def test_an_engine_that_drops_or_doubles_a_completion_is_found_out(tokenizer, places, words):
    class Careless(ScriptedEngine):
        def stream(self, prompts, sampling, seeds):
            for place in places:
                yield place, Completion([tokenizer.eos_token_id], [0.0], None, "stop")

    engine = Careless(tokenizer, lambda prompt, seed: "", tokenizer.eos_token_id)
    with pytest.raises(AssertionError, match=words):
        play(tokenizer, engine, 1, 3)


def test_every_token_knows_its_version(tokenizer):
    class Updated(ScriptedEngine):
        """Its weights change in the middle of the third completion."""

        def stream(self, prompts, sampling, seeds):
            for place, completion in super().stream(prompts, sampling, seeds):
                ids = completion.ids
                versions = [6] + [7] * (len(ids) - 1) if seeds[place] == 2 else None
                yield place, Completion(ids, completion.logprobs, None, "stop", versions)

    engine = Updated(tokenizer, lambda prompt, seed: "no" if "sure0?" not in prompt else "ab", tokenizer.eos_token_id)
    engine.sync([], 7)
    trajectories = play(tokenizer, engine, 1, 3, turn=again, max_turns=2)
    for row, trajectory in enumerate(trajectories):
        assert len(trajectory.versions) == len(trajectory.ids)
        places = [place for place, mask in enumerate(trajectory.loss_mask) if mask]
        assert [trajectory.versions[place] for place in places] == ([6] if row == 2 else [7]) + [7] * 5
        assert {v for v, mask in zip(trajectory.versions, trajectory.loss_mask, strict=True) if not mask} == {
            NOT_GENERATED
        }


def test_a_model_is_generated_with_to_the_bit_whatever_the_verifiers_take():
    model, tokenizer = build_tiny(0)
    runs = []
    for order in range(2):
        slow = random.Random(order)

        def delayed(completion: str, slow=slow) -> float:
            threading.Event().wait(slow.choice([0, 0.003]))
            return float(len(completion))

        def reply(task, conversation, completion):
            return Reply("And?") if len(completion) % 2 else Reply(None)

        envs = TextVectorEnv(
            12, TASKS, Rubric(score(delayed, name="d", passes=True)), think="none", turn=reply, max_turns=3
        )
        engine = HFEngine(model, {tokenizer.eos_token_id, 40, 41, 42}, tokenizer.pad_token_id, max_batch=5)
        runs.append(
            collect(envs, engine, tokenizer, {tokenizer.eos_token_id}, [0, 1, 2], 4, Sampling(20), list(range(12)))
        )
    assert runs[0] == runs[1]
    assert len({trajectory.turns for trajectory in runs[0]}) > 1
