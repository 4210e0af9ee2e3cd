"""Rubrics read from plain data and from files."""

from __future__ import annotations

import json

import pytest
import yaml

from rlvr.verifiers import Rubric, UserError, gate, metric, score
from rlvr.verifiers.combine import first, product, threshold
from rlvr.verifiers.rubric_spec import read_spec, rubric_from

SPEC = """
- gate: rlvr/think-v1
- score: rlvr/number-v1
  weight: 1.0
  passes: true
  options: {fallback: last_number}
- score: {threshold: rlvr/think-v1, at_least: 0.5, options: {think: none}}
  name: bare
  weight: 1e-1
- score:
    product:
      - gate: {rubric: [{score: rlvr/think-v1}]}
        name: form
      - {score: rlvr/number-v1, passes: true}
      - rlvr/think-v1
  weight: -0.5
- metric: {first: [rlvr/think-v1, {score: rlvr/number-v1, name: exact}], decides: passed}
  name: agreement
  options: {think: none}
"""


def built() -> Rubric:
    return Rubric(
        gate("rlvr/think-v1"),
        score("rlvr/number-v1", passes=True, fallback="last_number"),
        score(threshold("rlvr/think-v1", at_least=0.5, think="none"), name="bare", weight=0.1),
        score(
            product(
                gate(Rubric(score("rlvr/think-v1")), name="form"),
                score("rlvr/number-v1", passes=True),
                score("rlvr/think-v1"),
            ),
            weight=-0.5,
        ),
        metric(
            first("rlvr/think-v1", score("rlvr/number-v1", name="exact"), decides="passed"),
            name="agreement",
            think="none",
        ),
    )


def refusal(spec: object) -> str:
    with pytest.raises(UserError) as caught:
        rubric_from(spec)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence[-1] in ".?"
    return sentence


def test_a_spec_means_what_the_functions_make():
    rubric = rubric_from(yaml.safe_load(SPEC))
    assert rubric.tree() == built().tree()
    fields = {"completion": "<think>2 + 2</think> 4", "answer": "4"}
    assert rubric.grade(fields) == built().grade(fields)
    assert rubric.grade(fields).score == pytest.approx(1.0 - 0.5 * 0.0)


def test_the_product_of_the_spec_counts():
    verdict = rubric_from(yaml.safe_load(SPEC)).grade({"completion": r"<think>2</think>\boxed{4}", "answer": "4"})
    assert verdict.score == pytest.approx(1.0 - 0.5 * 1.0)
    assert verdict.parts["product/form/think"] == 1.0
    assert verdict.parts["bare/think"] == 0.0


@pytest.mark.parametrize(
    "spec",
    [
        "rlvr/number-v1",
        {"score": "rlvr/number-v1"},
        [{"score": "rlvr/number-v1"}],
        ({"score": "rlvr/number-v1", "name": None, "weight": 1, "passes": False, "options": None},),
        {"rubric": [{"score": "rlvr/number-v1"}]},
    ],
)
def test_short_forms(spec):
    assert rubric_from(spec).tree() == Rubric(score("rlvr/number-v1")).tree()


def test_a_grader_alone_makes_the_score():
    assert rubric_from({"product": ["rlvr/number-v1"]}).tree() == product("rlvr/number-v1").tree()
    tree = rubric_from({"first": ["rlvr/number-v1"]}).tree().splitlines()
    assert tree[1] == "└─ score first  first  decides='ok'  weight=1  passes"
    rubric = built()
    assert rubric_from(rubric) is rubric
    assert rubric_from(lambda completion: 0.5)(completion="").parts == {"score": 0.5}


def test_python_may_put_functions_where_names_are():
    def brief(completion: str, limit: int) -> bool:
        return len(completion) <= limit

    rubric = rubric_from(
        [{"score": brief, "options": {"limit": 2}}, {"metric": threshold(brief), "options": {"limit": 1}}]
    )
    assert rubric(completion="ab").parts == {"brief": 1.0, "threshold": 0.0, "threshold/brief": 0.0}


def test_options_may_have_the_names_of_settings():
    def odd(completion: str, weight: float, name: str, at_least: int) -> float:
        return weight + len(name) + at_least

    options = {"weight": 0.5, "name": "abc", "at_least": 2}
    assert rubric_from([{"score": odd, "options": options}])(completion="").score == 5.5
    spec = [{"score": {"threshold": odd, "at_least": "5.5", "options": options}}]
    assert rubric_from(spec)(completion="").score == 1.0


def test_an_anchor_is_one_grader():
    calls: list[str] = []

    def counted(completion: str) -> bool:
        calls.append(completion)
        return True

    shared = {"first": [counted]}
    rubric = rubric_from([{"gate": shared}, {"score": shared, "name": "again"}])
    assert rubric.parts[0].grader is rubric.parts[1].grader
    rubric.grade_many([{"completion": "a"}, {"completion": "b"}])
    assert calls == ["a", "b"]


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json"])
def test_a_spec_in_a_file(tmp_path, suffix):
    path = tmp_path / f"rubric{suffix}"
    path.write_text(json.dumps(yaml.safe_load(SPEC)) if suffix == ".json" else SPEC, encoding="utf-8")
    assert rubric_from(str(path)).tree() == rubric_from(path).tree() == built().tree()
    assert read_spec(str(path)) == yaml.safe_load(SPEC)


def test_files_that_hold_no_spec(tmp_path):
    assert "No such file" in refusal(str(tmp_path / "gone.yaml"))
    bad = tmp_path / "bad.json"
    bad.write_text("[1,")
    assert "bad.json' is not valid" in refusal(str(bad))
    bad.write_bytes(b"\xff\xfe\x00\xd8")
    assert "UTF-8" in refusal(bad)
    bad = tmp_path / "bad.yaml"
    bad.write_text("- [1\n- {")
    assert "line 2" in refusal(bad)
    bad.write_text("")
    assert "rubric is empty" in refusal(bad)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ([{"gate": "rlvr/thnk-v1"}], ["In rubric[0].gate, no verifier", "'rlvr/thnk-v1'", "'rlvr/think-v1'"]),
        ([{"scor": "rlvr/number-v1"}], ["rubric[0] has 'scor'", "did you mean 'score'?"]),
        ([{"name": "x", "scor": 1}], ["did you mean 'score'?"]),
        ([{"name": "x"}], ["rubric[0] has 'name'", "add one of them"]),
        ([{}], ["rubric[0] has nothing", "'metric'"]),
        ([{"score": "rlvr/number-v1", "wieght": 1}], ["rubric[0]", "'wieght'", "did you mean 'weight'?"]),
        ([{"gate": "rlvr/think-v1", "weight": 1}], ["rubric[0]", "'weight' beside 'gate'"]),
        ([{"gate": "rlvr/think-v1", "score": "rlvr/number-v1"}], ["both 'gate' and 'score'"]),
        (["rlvr/number-v1"], ["rubric[0] is 'rlvr/number-v1'", "score:"]),
        ([{"first": ["rlvr/number-v1"]}], ["rubric[0]", "no part", "score:"]),
        ([{"score": None}], ["rubric[0].score is empty"]),
        ([{"score": ["rlvr/number-v1"]}], ["rubric[0].score is a list", "'product'"]),
        ([{"score": {"frist": ["rlvr/number-v1"]}}], ["rubric[0].score has 'frist'", "did you mean 'first'?"]),
        ([{"score": {"first": "rlvr/number-v1"}}], ["rubric[0].score.first is 'rlvr/number-v1'", "list"]),
        ([{"score": {"first": ["rlvr/numbr-v1"]}}], ["In rubric[0].score.first[0], no verifier", "'rlvr/number-v1'"]),
        ([{"score": {"first": ["rlvr/number-v1"], "decide": "ok"}}], ["'decide' beside 'first'", "'decides'"]),
        ([{"score": {"first": ["rlvr/number-v1"], "decides": 1}}], ["In rubric[0].score, first has no rule decides=1"]),
        ([{"score": {"first": [{"gate": "rlvr/think-v1"}]}}], ["In rubric[0].score, first tries", "'think'"]),
        ([{"score": {"score": "rlvr/number-v1"}}], ["rubric[0].score is a part where a grader is to stand"]),
        ([{"score": {"product": ["rlvr/number-v1", "rlvr/think-v1"]}}], ["In rubric[0].score, it is not clear"]),
        ([{"score": {"threshold": "rlvr/number-v1", "at_least": "x"}}], ["In rubric[0].score, a threshold's at_least"]),
        ([{"score": {"threshold": {"first": [3]}}}], ["In rubric[0].score.threshold.first[0], 3 is no grader"]),
        ([{"score": "rlvr/number-v1", "weight": "much"}], ["In rubric[0], the weight of part 'number' is 'much'"]),
        ([{"score": "rlvr/number-v1", "weight": True}], ["weight", "True"]),
        ([{"score": "rlvr/number-v1", "passes": "yes"}], ["In rubric[0], passes is 'yes'"]),
        ([{"score": "rlvr/number-v1", "options": {"fallbak": 1}}], ["In rubric[0], part 'number'", "'fallback'"]),
        ([{"score": "rlvr/number-v1", "options": ["a"]}], ["rubric[0].options is ['a']", "mapping"]),
        ([{"score": "rlvr/number-v1", "options": {1: 2}}], ["rubric[0].options"]),
        ([{"score": "rlvr/number-v1", "name": "a/b"}], ["In rubric[0]", "'a/b'"]),
        ([{"gate": "rlvr/think-v1"}], ["In rubric, the rubric has no score"]),
        ([], ["In rubric, the rubric has no score"]),
        ({"rubric": [{"score": {"rubric": []}}]}, ["In rubric.rubric[0].score.rubric, the rubric has no score"]),
        (5, ["In rubric, 5 is no grader"]),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_place(spec, words):
    sentence = refusal(spec)
    for word in words:
        assert word in sentence


def test_a_spec_that_holds_itself_is_refused():
    parts: list[object] = []
    parts.append({"score": {"rubric": parts}})
    assert "more than 50 deep" in refusal(parts)
