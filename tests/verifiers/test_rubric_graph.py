"""Products, thresholds, the first that decides, and graphs of them, graded one by one and many at a time."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.verifiers import Rubric, UserError, Verdict, get_verifier, metric, score, verify
from rlvr.verifiers.combine import first, product, threshold
from rlvr.verifiers.rubric import gate


class Counted:
    """A grader that answers each completion by a rule and notes which completions it was called with."""

    def __init__(self, name: str, rule) -> None:
        self.name = name
        self.rule = rule
        self.calls: list[list[str]] = []

    def grade(self, fields) -> Verdict:
        return self.grade_many([fields])[0]

    def grade_many(self, rows) -> list[Verdict]:
        self.calls.append([row["completion"] for row in rows])
        return [as_given(self.rule(row["completion"])) for row in rows]

    def check_fields(self, fields) -> None:
        if "completion" not in fields:
            raise UserError("There is no completion.")

    def option_names(self) -> frozenset[str]:
        return frozenset()


def as_given(value: Any) -> Verdict:
    if isinstance(value, Verdict):
        return value
    if value is None:
        return Verdict(None, None, "error", detail="no connection")
    return Verdict(float(value), float(value) >= 1.0)


def fixed(value: Any, name: str = "fixed") -> Counted:
    return Counted(name, lambda completion: value)


def rows(*completions: str) -> list[dict[str, Any]]:
    return [{"completion": completion} for completion in completions]


UNREAD = Verdict(0.0, False, "unparseable", answer="?")
LATE = Verdict(0.0, False, "timeout")


# Products.


def test_the_scores_of_a_product_multiply():
    verdict = product(score(fixed(0.5, "a")), score(fixed(0.2, "b"), passes=True), metric(fixed(7.0, "c")))(
        completion=""
    )
    assert verdict == Verdict(0.1, False, "ok", {"a": 0.5, "b": 0.2, "c": 7.0})


@given(st.integers(1, 6), st.integers(0, 5))
def test_a_product_of_ones_is_one(count, passing):
    parts = [score(fixed(1.0), name=f"p{i}", passes=i == passing % count) for i in range(count)]
    verdict = product(*parts)(completion="")
    assert (verdict.score, verdict.passed, set(verdict.parts.values())) == (1.0, True, {1.0})


@given(st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, -1.0]), min_size=1, max_size=5), st.integers(0, 5))
def test_any_zero_zeroes_a_product_and_passed_stays_the_passing_parts(values, place):
    parts = [score(fixed(value), name=f"p{i}") for i, value in enumerate(values)]
    parts.insert(place, score(fixed(0.0), name="zero"))
    verdict = product(*parts, score(fixed(Verdict(1.0, True, answer="4")), name="right", passes=True))(completion="")
    assert (verdict.score, verdict.passed, verdict.answer) == (0.0, True, "4")


def test_after_a_zero_no_other_score_of_a_product_runs():
    zero, costly, right, form, seen = (fixed(value, name) for value, name in zip((0, 1, 1, 1, 1), "zcrfs", strict=True))
    whole = product(score(zero), score(costly), score(right, passes=True), gate(form), metric(seen))
    verdict = whole(completion="")
    assert costly.calls == []
    assert verdict == Verdict(0.0, True, "ok", {"z": 0.0, "r": 1.0, "f": 1.0, "s": 1.0})


def test_a_gate_stops_a_product():
    costly = fixed(1.0, "costly")
    verdict = product(gate(fixed(UNREAD, "form")), score(costly))(completion="")
    assert (verdict.score, verdict.passed, verdict.status, costly.calls) == (0.0, False, "unparseable", [])


def test_a_failed_factor_voids_a_product():
    verdict = product(score(fixed(0.5, "a"), passes=True), score(fixed(None, "b")))(completion="")
    assert (verdict.score, verdict.status, verdict.parts) == (None, "error", {"a": 0.5})
    assert "b: no connection" in verdict.detail


def test_a_product_that_overflows_is_a_failed_grading():
    verdict = product(score(fixed(1e200, "a"), passes=True), score(fixed(1e200, "b")))(completion="")
    assert (verdict.score, verdict.status) == (None, "error")


def test_a_product_is_a_rubric_and_says_who_passes():
    assert isinstance(product("rlvr/number-v1"), Rubric)
    with pytest.raises(UserError, match="passes=True"):
        product("rlvr/number-v1", "rlvr/think-v1")
    with pytest.raises(UserError, match=r"'number'.*weight 0\.5"):
        product(score("rlvr/number-v1", weight=0.5))
    with pytest.raises(UserError, match="'number'"):
        product(score("rlvr/number-v1", passes=True), "rlvr/number-v1")


# Thresholds.


@pytest.mark.parametrize(("value", "passed"), [(0.49, False), (0.5, True), (0.9, True), (-1.0, False)])
def test_a_threshold_makes_a_yes_or_no(value, passed):
    verdict = threshold(fixed(value, "share"), at_least=0.5)(completion="")
    assert verdict == Verdict(float(passed), passed, "ok", {"share": value})


def test_a_threshold_decides_passed_over_what_its_part_says():
    assert threshold(fixed(Verdict(0.8, False, answer="4"), "x"), at_least=0.8)(completion="") == Verdict(
        1.0, True, "ok", {"x": 0.8}, answer="4"
    )
    assert threshold(fixed(Verdict(0.8, True), "x"), at_least=0.81)(completion="").passed is False


@pytest.mark.parametrize("given_up", [UNREAD, LATE])
def test_what_could_not_be_graded_passes_no_threshold(given_up):
    verdict = threshold(fixed(given_up, "x"), at_least=-1.0)(completion="")
    assert (verdict.score, verdict.passed, verdict.status) == (0.0, False, given_up.status)


def test_a_failed_grader_is_a_failed_threshold():
    verdict = threshold(fixed(None, "x"))(completion="")
    assert (verdict.score, verdict.status, verdict.detail) == (None, "error", "x: no connection")


def test_a_threshold_passes_options_on():
    whole = threshold("rlvr/number-v1", at_least=1, name="n", think="none", answer="4")
    assert whole(completion=r"\boxed{4}", answer="5").parts == {"n": 1.0}
    with pytest.raises(UserError, match="'fallback'"):
        threshold("rlvr/number-v1", fallbak="whole")


@pytest.mark.parametrize("bound", [math.nan, math.inf, "0.5", None, True])
def test_the_bound_is_a_finite_number(bound):
    with pytest.raises(UserError, match="at_least"):
        threshold("rlvr/number-v1", at_least=bound)


# The first that decides.


@pytest.mark.parametrize("early", [1.0, 0.0, 0.3])
def test_the_first_graded_verdict_stands(early):
    late = fixed(1.0, "late")
    verdict = first(fixed(UNREAD, "a"), fixed(early, "b"), late)(completion="")
    assert verdict == Verdict(early, early == 1.0, "ok", {"a": 0.0, "b": early})
    assert late.calls == []


def test_the_first_that_passes_stands():
    late = fixed(1.0, "late")
    right = fixed(Verdict(0.7, True, answer="4"), "right")
    verdict = first(fixed(0.9, "near"), right, late, decides="passed")(completion="")
    assert verdict == Verdict(0.7, True, "ok", {"near": 0.9, "right": 0.7}, answer="4")
    assert late.calls == []


@pytest.mark.parametrize("decides", ["ok", "passed"])
def test_the_last_verdict_stands_if_none_decides(decides):
    verdict = first(fixed(LATE, "a"), fixed(UNREAD, "b"), decides=decides)(completion="")
    assert verdict == Verdict(0.0, False, "unparseable", {"a": 0.0, "b": 0.0}, answer="?")


@pytest.mark.parametrize("decides", ["ok", "passed"])
def test_a_failed_grader_decides_nothing(decides):
    saved = first(fixed(None, "a"), fixed(1.0, "b"), decides=decides)(completion="")
    assert saved == Verdict(1.0, True, "ok", {"b": 1.0}, "a: no connection")
    for parts in ([None, UNREAD], [UNREAD, None], [None, None]):
        verdict = first(*(fixed(value, name) for value, name in zip(parts, "ab", strict=True)), decides=decides)(
            completion=""
        )
        assert (verdict.score, verdict.status) == (None, "error")  # for it might have decided
        assert "no connection" in verdict.detail
    undecided = first(fixed(None, "a"), fixed(0.0, "b"), decides=decides)(completion="")
    assert undecided.status == ("ok" if decides == "ok" else "error")


def test_what_cannot_be_tried_is_refused():
    for wrong in (gate(fixed(1)), metric(fixed(1)), score(fixed(1), passes=True), score(fixed(1), weight=2.0)):
        with pytest.raises(UserError, match="'fixed'"):
            first(wrong)
    with pytest.raises(UserError, match="nothing to try"):
        first()
    with pytest.raises(UserError, match="did you mean 'passed'"):
        first(fixed(1), decides="pased")
    with pytest.raises(UserError, match="called 'fixed'"):
        first(fixed(1), fixed(1))


# Costs: who is called, with which rows.


def test_a_gate_keeps_rows_from_what_costs():
    form = Counted("form", lambda completion: completion != "bad")
    costly = Counted("costly", lambda completion: completion == "good")
    watch = Counted("watch", len)
    rubric = Rubric(gate(form), score(costly), metric(watch))
    verdicts = rubric.grade_many(rows("good", "bad", "other", "bad"))
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 0.0, 0.0]
    assert form.calls == [["good", "bad", "other", "bad"]]
    assert costly.calls == watch.calls == [["good", "other"]]


def test_each_trial_gets_the_rows_left_undecided():
    cheap = Counted("cheap", lambda completion: completion == "4")
    costly = Counted("costly", lambda completion: completion == "four")
    whole = first(cheap, costly, decides="passed")
    assert [verdict.passed for verdict in whole.grade_many(rows("4", "four", "5"))] == [True, True, False]
    assert costly.calls == [["four", "5"]]


def test_no_grader_is_called_without_rows():
    costly = fixed(1.0, "costly")
    rubric = Rubric(gate(fixed(0, "shut")), score(costly))
    assert rubric.grade_many([]) == []
    rubric.grade_many(rows("a", "b"))
    assert costly.calls == []


def test_a_grader_in_several_places_grades_once():
    shared = Counted("shared", len)
    odd = Counted("odd", lambda completion: len(completion) % 2)
    inner = first(odd, shared, decides="passed")
    rubric = Rubric(
        metric(inner),
        score(product(score(shared), score(inner, name="again", passes=True)), name="both", passes=True),
        score(shared, weight=0.5),
        gate(threshold(shared, at_least=2)),
    )
    verdicts = rubric.grade_many(rows("a", "bb", "ccc"))
    assert odd.calls == [["a", "bb", "ccc"]]
    assert shared.calls == [["bb"], ["a", "ccc"]]  # the first time for the even one alone
    assert [verdict.score for verdict in verdicts] == [0.0, 5.0, 4.5]


def test_a_function_in_several_places_is_one_grader():
    calls: list[str] = []

    def shape(completion: str) -> bool:
        calls.append(completion)
        return True

    Rubric(gate(shape), score(shape, name="again")).grade_many(rows("a", "b"))
    assert calls == ["a", "b"]


def test_with_other_options_a_grader_grades_anew():
    seen: list[object] = []

    def taking(completion: str, level: object = 0) -> float:
        seen.append(level)
        return 1.0

    parts = [
        score(taking, name="a", passes=True),
        score(taking, name="b", level=1),
        score(taking, name="c", level=True),
    ]
    inner = Rubric(score(taking))
    Rubric(*parts, score(inner, name="d", level=1), metric(inner, name="e", level=1.0))(completion="")
    assert seen == [0, 1, True, 1.0]


def test_fields_are_checked_in_every_row_before_anything_runs():
    noted = fixed(1.0, "noted")
    rubric = Rubric(gate(noted), score("rlvr/number-v1"))
    with pytest.raises(UserError, match="'answer'"):
        rubric.grade_many([{"completion": "a", "answer": "1"}, {"completion": "b"}])
    assert noted.calls == []


def test_a_grader_that_leaves_a_row_out_shifts_no_verdicts():
    short = fixed(1.0, "short")
    short.grade_many = lambda rows: [Verdict(1.0, True)]
    verdicts = Rubric(score(short)).grade_many(rows("a", "b"))
    assert [verdict.status for verdict in verdicts] == ["error", "error"]
    assert "1 verdicts on 2 completions" in verdicts[0].detail


def test_a_grader_that_raises_has_failed():
    def crash(rows):
        raise ConnectionError("no route")

    broken = fixed(1.0, "broken")
    broken.grade_many = crash
    for verdict in Rubric(score(broken)).grade_many(rows("a", "b")):
        assert (verdict.score, verdict.status) == (None, "error")
        assert "no route" in verdict.detail


# The tree, and the rest.


def test_the_tree_of_a_graph():
    near = threshold("rlvr/think-v1", at_least=0.25, think="none")
    tried = first("rlvr/number-v1", score("rlvr/number-v1", name="loose", fallback="whole"), decides="passed")
    whole = product(
        gate(near, name="form"), score(tried, passes=True), score(Rubric(score(fixed(1, "x"))), name="more")
    )
    rubric = Rubric(score(whole, weight=2.0), metric(tried, name="agreement"))
    assert rubric.tree().splitlines() == [
        "Rubric",
        "├─ score product  product  weight=2  passes",
        "│  ├─ gate form  threshold  at_least=0.25",
        "│  │  └─ score think  rlvr/think-v1  passes from 0.25  think='none'",
        "│  ├─ score first  first  decides='passed'  passes",
        "│  │  ├─ score number  rlvr/number-v1  decides if passed",
        "│  │  └─ score loose  rlvr/number-v1  decides otherwise  fallback='whole'",
        "│  └─ score more  Rubric",
        "│     └─ score x  x  weight=1  passes",
        "└─ metric agreement  first  decides='passed'",
        "   ├─ score number  rlvr/number-v1  decides if passed",
        "   └─ score loose  rlvr/number-v1  decides otherwise  fallback='whole'",
    ]
    assert first("rlvr/number-v1").tree().splitlines()[0] == "first  decides='ok'"


def test_a_graph_survives_pickling_and_verify_takes_it():
    whole = first(threshold("rlvr/number-v1", at_least=1, think="none"), "rlvr/think-v1", decides="passed")
    copy = pickle.loads(pickle.dumps(whole))
    assert copy.tree() == whole.tree()
    assert verify(copy, completion=r"\boxed{4}", answer="4").passed


# Against a reading of the definitions, one completion at a time.

OUTCOMES = st.sampled_from([0.0, 1.0, 0.5, -0.5, Verdict(0.25, True), UNREAD, LATE, None])
ROWS = 4


@st.composite
def leaves(draw) -> Counted:
    outcomes = draw(st.lists(OUTCOMES, min_size=ROWS, max_size=ROWS))
    return Counted("leaf", lambda completion: outcomes[int(completion)])


@st.composite
def combinators(draw, graders) -> Any:
    inner = draw(st.lists(graders, min_size=1, max_size=4))
    shape = draw(st.sampled_from(["rubric", "product", "first", "threshold"]))
    if shape == "threshold":
        return threshold(inner[0], at_least=draw(st.sampled_from([0.0, 0.5, 1.0])), name="p")
    if shape == "first":
        parts = [score(grader, name=f"p{i}") for i, grader in enumerate(inner)]
        return first(*parts, decides=draw(st.sampled_from(["ok", "passed"])))
    passing = draw(st.integers(0, len(inner) - 1))
    parts = []
    for i, grader in enumerate(inner):
        kind = "score" if i == passing else draw(st.sampled_from(["gate", "score", "metric"]))
        weight = draw(st.sampled_from([1.0, -2.0, 0.5])) if shape == "rubric" else 1.0
        if kind == "score":
            parts.append(score(grader, name=f"p{i}", weight=weight, passes=i == passing))
        else:
            parts.append((gate if kind == "gate" else metric)(grader, name=f"p{i}"))
    return (Rubric if shape == "rubric" else product)(*parts)


# A pool of a few leaves and what is built of them, so that a grader stands in several places.
GRAPHS = st.lists(leaves(), min_size=1, max_size=3).flatmap(
    lambda pool: combinators(st.recursive(st.sampled_from(pool), combinators, max_leaves=8))
)


def expected(grader: Any, completion: str) -> tuple[float | None, bool | None, str]:
    """Score, passed and status by the definitions: no batch, no memory, no short cut that is not in them."""
    if isinstance(grader, Counted):
        verdict = as_given(grader.rule(completion))
        return verdict.score, verdict.passed, verdict.status
    error = (None, None, "error")
    if grader.label == "threshold":
        value, passed, status = expected(grader.parts[0].grader, completion)
        passed = status == "ok" and value >= grader.at_least
        return error if value is None else (float(passed), passed, status)
    if grader.label == "first":
        tried = [expected(part.grader, completion) for part in grader.parts]
        for i, (_, passed, status) in enumerate(tried):
            if passed if grader.decides == "passed" else status == "ok":
                return tried[i]
        return error if error in tried else tried[-1]
    total, decisive, multiplies = (1.0, None, True) if grader.label == "product" else (0.0, None, False)
    for part in grader.parts:
        if multiplies and total == 0 and part.kind == "score" and part is not grader.passing:
            continue
        value, passed, status = expected(part.grader, completion)
        if part.kind == "metric":
            continue
        if value is None:
            return error
        if part.kind == "gate" and not passed:
            return 0.0, False, status
        if part.kind == "score":
            total = total * value if multiplies else total + part.weight * value
        if part is grader.passing:
            decisive = (passed, status)
    return (total, *decisive)


@settings(max_examples=300, deadline=None)
@given(GRAPHS)
def test_every_graph_grades_as_defined_and_in_batches_as_one_by_one(graph):
    batch = rows(*map(str, range(ROWS)))
    together = graph.grade_many(batch)
    assert together == [graph.grade(row) for row in batch]
    for i, verdict in enumerate(together):
        assert (verdict.score, verdict.passed, verdict.status) == expected(graph, str(i))


def graders_in(graph: Any) -> list[Counted]:
    if isinstance(graph, Counted):
        return [graph]
    return [grader for part in graph.parts for grader in graders_in(part.grader)]


@settings(max_examples=100, deadline=None)
@given(GRAPHS)
def test_no_grader_of_a_graph_sees_a_row_twice(graph):
    graph.grade_many(rows(*map(str, range(ROWS))))
    for grader in graders_in(graph):
        seen = [completion for call in grader.calls for completion in call]
        assert len(seen) == len(set(seen))


@settings(deadline=None)
@given(st.permutations(range(5)), st.lists(OUTCOMES, min_size=5, max_size=5))
def test_the_order_and_the_failures_of_metrics_change_no_score(order, outcomes):
    right, form = score(fixed(0.75, "right")), gate(fixed(1.0, "form"))
    metrics = [metric(fixed(outcome), name=f"m{i}") for i, outcome in enumerate(outcomes)]
    parts = [form, right, *metrics]
    verdict = Rubric(*parts)(completion="")
    shuffled = [metrics[i] for i in order]
    moved = Rubric(shuffled[0], form, *shuffled[1:3], right, *shuffled[3:])(completion="")
    assert (verdict.score, verdict.passed, verdict.status) == (moved.score, moved.passed, moved.status)
    assert (verdict.score, dict(verdict.parts)) == (0.75, dict(moved.parts))


def test_verifiers_by_name_grade_in_batches():
    rubric = Rubric(gate("rlvr/think-v1"), score(first(get_verifier("rlvr/number-v1"))))
    texts = [r"<think>x</think>\boxed{4}", r"\boxed{4}", r"<think>x</think>\boxed{5}"]
    verdicts = rubric.grade_many([{"completion": text, "answer": "4"} for text in texts])
    assert [verdict.passed for verdict in verdicts] == [True, False, False]
