"""The rubric of an environment: given as a spec, and grading a whole step at once."""

from __future__ import annotations

import json

import gymnasium
import pytest

from rlvr.envs import Task, Tasks, TextEnv, TextVectorEnv, make_vec
from rlvr.verifiers import Rubric, UserError, Verdict, gate, score, verifier
from rlvr.verifiers.combine import first

SPEC = [{"gate": "rlvr/think-v1"}, {"score": "rlvr/number-v1", "weight": 2.0, "options": {"fallback": "last_number"}}]
ID = "rlvr/Arithmetic-v0"


class Together:
    """A grader that notes the completions of each call."""

    name = "together"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def grade(self, fields) -> Verdict:
        return self.grade_many([fields])[0]

    def grade_many(self, rows) -> list[Verdict]:
        self.calls.append([row["completion"] for row in rows])
        return [Verdict(float(row["completion"] == row["answer"]), row["completion"] == row["answer"]) for row in rows]

    def check_fields(self, fields) -> None:
        pass

    def option_names(self) -> frozenset[str]:
        return frozenset()


TASKS = Tasks.from_list([Task(f"t/{i}", f"What is {i} + 1?", str(i + 1)) for i in range(5)])


def test_a_step_is_one_call_with_the_rows_that_passed_the_gate():
    costly = Together()
    rubric = Rubric(gate(lambda completion: completion != "bad", name="form"), score(costly))
    env = TextVectorEnv(4, TASKS, rubric)
    env.reset(options={"task": [0, 1, 2, 3]})
    _, rewards, _, _, infos = env.step(["1", "bad", "0", "4"])
    assert costly.calls == [["1", "0", "4"]]
    assert rewards.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert infos["_parts/together"].tolist() == [True, False, True, True]


def test_a_single_environment_grades_the_same():
    costly = Together()
    env = TextEnv(TASKS, Rubric(score(costly)))
    env.reset(options={"task": 2})
    assert env.step("3")[1] == 1.0
    assert costly.calls == [["3"]]


def test_a_mistake_that_shows_in_grading_leaves_no_episode_stepped():
    def picky(completion: str) -> float:
        if completion == "odd":
            raise UserError("This reference is odd.")
        return 1.0

    env = TextVectorEnv(2, TASKS, Rubric(score(picky)))
    env.reset(options={"task": 0})
    with pytest.raises(UserError):
        env.step(["1", "odd"])
    assert env.verdicts == [None, None]


@pytest.mark.parametrize("form", ["list", "file", "rubric"])
def test_a_spec_takes_the_place_of_the_environments_own(form, tmp_path):
    path = tmp_path / "rubric.json"
    path.write_text(json.dumps(SPEC))
    rubric = {
        "list": SPEC,
        "file": str(path),
        "rubric": Rubric(gate("rlvr/think-v1"), score("rlvr/number-v1", weight=2.0, fallback="last_number")),
    }[form]
    single, many = gymnasium.make(ID, rubric=rubric).unwrapped, make_vec(ID, 2, rubric=rubric)
    assert (
        single.rubric.tree()
        == many.rubric.tree()
        == "\n".join(
            [
                "Rubric",
                "├─ gate think  rlvr/think-v1",
                "└─ score number  rlvr/number-v1  weight=2  passes  fallback='last_number'",
            ]
        )
    )
    many.reset(options={"task": 0})
    answer = many.tasks[0].answer
    _, rewards, _, _, _ = many.step([f"<think>easy</think> {answer}", f"{answer}"])
    assert rewards.tolist() == [2.0, 0.0]


def test_a_combinator_alone_is_a_rubric_too():
    env = make_vec(ID, 1, rubric=first("rlvr/number-v1"))
    assert env.rubric.tree().splitlines()[1] == "└─ score first  first  decides='ok'  weight=1  passes"


def test_gymnasiums_own_spec_carries_the_rubric():
    env = gymnasium.make(ID, rubric=SPEC)
    again = gymnasium.make(env.spec)
    assert again.unwrapped.rubric.tree() == env.unwrapped.rubric.tree()


def test_a_verifier_of_the_users_may_be_named():
    @verifier("me/env-rubric-short-v1")
    def short(completion: str, limit: int = 3) -> bool:
        return len(completion) <= limit

    env = make_vec(ID, 1, rubric=[{"score": "me/env-rubric-short-v1", "options": {"limit": 5}}])
    env.reset(seed=0)
    assert env.step(["12345"])[1].tolist() == [1.0]


@pytest.mark.parametrize(
    ("rubric", "words"),
    [
        ([{"score": "rlvr/numbr-v1"}], r"rubric\[0\]\.score.*'rlvr/number-v1'"),
        ([{"score": "rlvr/number-v1", "wait": 1}], r"rubric\[0\].*'weight'"),
        ("nowhere.yaml", "nowhere.yaml"),
        (None, "rubric is empty"),
        ([{"score": lambda completion, levle: 1.0, "name": "x"}], "'levle'"),
    ],
)
def test_a_wrong_rubric_is_refused_when_the_environment_is_made(rubric, words):
    for make in (lambda: gymnasium.make(ID, rubric=rubric), lambda: make_vec(ID, 2, rubric=rubric)):
        with pytest.raises(UserError, match=words):
            make()
