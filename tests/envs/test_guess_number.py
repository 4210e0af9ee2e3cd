"""Games by hand, and splits that never meet."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest

from rlvr.envs import guess_number, make_vec
from rlvr.envs.guess_number import Game, demonstrated, draw, guess_number_tasks, split_of
from rlvr.verifiers import UserError

SMALL = {"span": 8, "lowest": 1, "highest": 30}


def game(**options):
    env = gymnasium.make("rlvr/GuessNumber-v0", **options).unwrapped
    env.reset(options={"task": 3})
    task = env.tasks[3]
    return env, task.info["low"], task.info["high"], task.answer


def boxed(number) -> str:
    return rf"\boxed{{{number}}}"


def test_higher_lower_and_the_right_one():
    env, low, high, number = game()
    assert env.step(boxed(low - 1))[:4] == ("Higher.", 0.0, False, False)
    assert env.step(f"<think>{number}</think>" + boxed(high + 1))[:4] == ("Lower.", 0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(f"So {boxed(number)}")
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info["passed"] == 1.0


def test_seven_wrong_guesses_lose():
    env, low, _, _ = game()
    turns = [env.step(boxed(low - 1)) for _ in range(7)]
    assert [turn[3] for turn in turns] == [False] * 6 + [True]
    assert [turn[1] for turn in turns] == [0.0] * 7
    assert turns[-1][4]["passed"] == 0.0


@pytest.mark.parametrize("completion", ["", "37", boxed("x"), boxed(1.5), boxed("9" * 5000), "<think>" + boxed(7)])
def test_what_is_no_guess_costs_a_turn_and_tells_nothing(completion):
    env, low, high, _ = game()
    assert env.step(completion)[:4] == (f"Guess a whole number from {low} to {high}.", 0.0, False, False)


def test_seven_halvings_find_any_number_of_a_hundred():
    env = make_vec("rlvr/GuessNumber-v0", 60)
    env.reset(options={"task": list(range(60))})
    left = [(env.tasks[i].info["low"], env.tasks[i].info["high"]) for i in range(60)]
    over = np.zeros(60, dtype=bool)
    while not over.all():
        guesses = [(low + high) // 2 for low, high in left]
        said = [None if done else boxed(guess) for guess, done in zip(guesses, over, strict=True)]
        observations, _, terminated, truncated, _ = env.step(said)
        over = terminated | truncated
        for i, (low, high) in enumerate(left):
            if observations[i] == "Higher.":
                left[i] = (guesses[i] + 1, high)
            elif observations[i] == "Lower.":
                left[i] = (low, guesses[i] - 1)
    assert all(verdict.passed for verdict in env.verdicts)


def test_the_reward_for_narrowing_adds_up_to_its_weight_however_the_game_goes():
    env, low, high, number = game(narrowing=0.5, max_turns=20)
    middle = low + 49
    first = env.step(boxed(middle))
    size = 1 if number == middle else middle - low if number < middle else high - middle
    assert first[1] == pytest.approx(0.5 * math.log(100 / size) / math.log(100))
    # The same guess again tells nothing.
    again = env.step(boxed(middle))
    assert again[1] == 0.0
    last = env.step(boxed(number))
    assert first[1] + again[1] + last[1] == pytest.approx(1.5)


def test_the_prompt_names_the_range_and_not_the_number():
    for index in range(50):
        task = guess_number_tasks()[index]
        low, high = task.info["low"], task.info["high"]
        assert (high - low, low >= 1, high <= 500, low <= task.answer <= high) == (99, True, True, True)
        assert task.prompt == guess_number.TEMPLATE.replace("{low}", str(low)).replace("{high}", str(high))
        assert str(task.answer) not in task.id.rpartition("/")[0]


def test_splits_and_seeds():
    def games(**options):
        tasks = guess_number_tasks(**SMALL, **options)
        return [(task.info["low"], task.answer) for task in tasks[: min(len(tasks), 500)]]

    held_out = games(split="eval")
    assert len(set(held_out)) == len(held_out) > 20
    assert not set(games()) & set(held_out)
    assert not set(games(seed=1)) & set(held_out)
    assert set(games(split="eval", seed=1)) == set(held_out)
    assert games() == games()
    assert games() != games(seed=1)
    # A default eval split is drawn, and still apart.
    assert all(split_of(Game(t.info["low"], t.info["high"], t.answer)) == "eval" for t in guess_number_tasks("eval"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "test"}, "'test'"),
        ({"span": 1}, "span=1"),
        ({"span": 40, "highest": 30}, "span=40"),
        ({"lowest": -1}, "lowest=-1"),
        ({"size": 0}, "size=0"),
        ({"template": "{low}"}, "template"),
        ({"narrowing": -1}, "narrowing=-1"),
        ({"narrowing": math.nan}, "narrowing=nan"),
        ({"fallback": "first"}, "fallback"),
        ({"split": "eval", "size": 10_000, **SMALL}, "eval split has"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        guess_number_tasks(**options)


def test_demonstrations_are_games_as_the_environment_plays_them():
    rng = np.random.default_rng(0)
    for step_by_step in (False, True) * 5:
        found = draw(1, 30, 8, "train", rng)
        assert split_of(found) == "train"
        examples = demonstrated(found, "{low}-{high}", step_by_step, 4)
        options = {**SMALL, "template": "{low}-{high}", "system": None, "max_turns": 4}
        env = gymnasium.make("rlvr/GuessNumber-v0", **options).unwrapped
        places = (i for i in range(10_000) if (env.tasks[i].info["low"], env.tasks[i].answer) == (found.low, found[2]))
        env.reset(options={"task": next(places)})
        for messages, completion in examples:
            assert env.conversation == messages
            env.step(completion)
        # Four steps from the smallest of eight numbers find the first four, four halvings all.
        assert env.verdict.passed == (not step_by_step or found.number < found.low + 4)
