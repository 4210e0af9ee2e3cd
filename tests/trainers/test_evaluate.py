from __future__ import annotations

import json
import math
from pathlib import Path

import gymnasium
import pytest

import rlvr
from rlvr import Rubric, Task, UserError, gate, score
from rlvr.envs import Reply
from rlvr.trainers.engines import Completion, Sampling
from rlvr.trainers.engines.scripted import ScriptedEngine
from rlvr.trainers.evaluate import evaluate, summarise
from rlvr.trainers.passk import interval
from rlvr.trainers.seeding import derive
from rlvr.trainers.tiny import build_tokenizer

ENV = "test-evaluate/Sums-v0"
ANSWERS = {"1+1=": 2, "2+2=": 4, "3+3=": 6}
# What the scripted policy says as sample 0, 1, 2, ... of each task.
SCRIPT = {
    "1+1=": [r"\boxed{2}", r"\boxed{3}", r"\boxed{2}", r"\boxed{3}", r"\boxed{2}", r"\boxed{9}"],
    "2+2=": [r"\boxed{5}", r"\boxed{5}", r"\boxed{4}", "no idea", r"\boxed{4}", r"\boxed{4}"],
    "3+3=": ["no idea", "x" * 30, r"\boxed{7}", r"\boxed{8}", r"\boxed{6}", r"\boxed{6}"],
}
SAMPLES = 6


def fails_on_seven(completion: str) -> float:
    if "7" in completion:
        raise OSError("no disk")
    return 1.0


@pytest.fixture(scope="module", autouse=True)
def environments():
    tasks = {"eval": [Task(prompt[0], prompt, answer) for prompt, answer in ANSWERS.items()]}
    rlvr.register(ENV, tasks=tasks, rubric=Rubric(score("rlvr/number-v1", passes=True)))
    graded = Rubric(gate(fails_on_seven), score("rlvr/number-v1", passes=True))
    rlvr.register("test-evaluate/Failing-v0", tasks=tasks, rubric=graded)
    yield
    for id in (ENV, "test-evaluate/Failing-v0"):
        gymnasium.registry.pop(id)
        rlvr.envs.registry._registrations.pop(id)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


class Counting(ScriptedEngine):
    """Says the script's lines, knows what it was asked, and stops where it is told to."""

    def __init__(self, tokenizer, env=ENV, script=SCRIPT, stop_after=None):
        seeds = {
            derive(0, "eval", env, task, sample): (prompt, sample)
            for task, prompt in enumerate(script)
            for sample in range(SAMPLES)
        }
        self.asked = []
        self._stop_after = stop_after

        def line(prompt: str, seed: int) -> str:
            asked, sample = seeds[seed]
            assert prompt == f"<|user|>{asked}<|assistant|>"
            self.asked.append((asked, sample))
            return script[asked][sample]

        super().__init__(tokenizer, line, tokenizer.eos_token_id)

    def stream(self, prompts, sampling, seeds):
        if self._stop_after is not None and len(self.asked) >= self._stop_after:
            raise KeyboardInterrupt
        return super().stream(prompts, sampling, seeds)


def run(engine, tokenizer, path, env=ENV, **changes):
    options = {"n": 4, "ks": (1, 2, 4), "sampling": Sampling(20), "batch_size": 4, **changes}
    return evaluate(engine, tokenizer, {tokenizer.eos_token_id}, env, rows_path=path, **options)


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def in_order(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: (row["task"], row["sample"]))


def test_the_numbers_by_hand(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    evaluation = run(Counting(tokenizer), tokenizer, path)
    # passed of 4: 2, 1 and 0
    assert (evaluation.tasks, evaluation.n, evaluation.ungraded) == (3, 4, 0)
    assert evaluation.pass_at[1].value == pytest.approx((2 / 4 + 1 / 4 + 0) / 3)
    assert evaluation.pass_at[2].value == pytest.approx(((1 - 1 / 6) + (1 - 3 / 6) + 0) / 3)
    assert evaluation.pass_at[4].value == pytest.approx((1 + 1 + 0) / 3)
    assert evaluation.avg.value == pytest.approx(3 / 12)
    # votes: 2 2 3 3 (a tie, half right); 5 5 4 (wrong); 7 8 (a tie, none right)
    assert evaluation.maj.value == pytest.approx((0.5 + 0 + 0) / 3)
    # \boxed{d} is 3 tokens and the end a fourth; "no idea" is 7 and 1; thirty x are cut off at 20.
    lengths = [4, 4, 4, 4, 4, 4, 4, 8, 8, 20, 4, 4]
    assert evaluation.mean_length == pytest.approx(sum(lengths) / 12)
    assert evaluation.clipped_ratio == pytest.approx(1 / 12)
    assert evaluation.unparseable_ratio == pytest.approx(3 / 12)
    assert evaluation.entropy == 0.0
    assert (evaluation.pass_at[1].low, evaluation.pass_at[1].high) == interval([0.5, 0.25, 0.0])


def test_the_tasks_are_read_once_however_many_batches_there_are(tokenizer, tmp_path):
    read = []

    def tasks(split="eval") -> rlvr.Tasks:
        read.append(split)
        return rlvr.Tasks.from_list([Task(prompt[0], prompt, answer) for prompt, answer in ANSWERS.items()])

    env = "test-evaluate/Read-v0"
    rlvr.register(env, tasks=tasks, rubric="rlvr/number-v1")
    try:
        run(Counting(tokenizer, env), tokenizer, tmp_path / "rows.jsonl", env)
    finally:
        gymnasium.registry.pop(env)
        rlvr.envs.registry._registrations.pop(env)
    assert read == ["eval"]


def test_metrics_are_flat_and_named_after_the_environment(tokenizer, tmp_path):
    metrics = run(Counting(tokenizer), tokenizer, tmp_path / "rows.jsonl").metrics()
    names = ("pass@1", "pass@2", "pass@4", "avg@4", "maj@4", "mean_length")
    more = ("clipped_ratio", "unparseable_ratio", "ungraded", "entropy")
    assert set(metrics) == {f"eval/{ENV}/{name}" for name in (*names, *more)}
    assert metrics[f"eval/{ENV}/avg@4"] == pytest.approx(0.25)


def test_a_row_tells_what_was_asked_said_and_found(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    run(Counting(tokenizer), tokenizer, path)
    rows = in_order(rows_of(path))
    assert [(row["task"], row["sample"]) for row in rows] == [
        (task, sample) for task in range(3) for sample in range(4)
    ]
    first = {key: rows[0][key] for key in ("task_id", "prompt", "completion", "answer", "score", "passed", "status")}
    assert first == {
        "task_id": "1",
        "prompt": "1+1=",
        "completion": r"\boxed{2}",
        "answer": "2",
        "score": 1.0,
        "passed": True,
        "status": "ok",
    }
    assert (rows[0]["length"], rows[0]["finish_reason"], rows[0]["parts"]) == (4, "stop", {"number": 1.0})
    assert (rows[9]["completion"], rows[9]["finish_reason"], rows[9]["status"]) == ("x" * 20, "length", "unparseable")


@pytest.mark.parametrize("torn", [0, 1, 25, -1])
def test_an_interrupted_evaluation_goes_on_where_it_stopped(tokenizer, tmp_path, torn):
    """`torn` characters of the last line are gone, as after a kill in the middle of a write."""
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    expected = run(Counting(tokenizer), tokenizer, whole)
    with pytest.raises(KeyboardInterrupt):
        run(Counting(tokenizer, stop_after=8), tokenizer, broken)
    assert len(rows_of(broken)) == 8
    text = broken.read_text()
    last = len(text.splitlines()[-1])
    broken.write_text(text[: len(text) - (last if torn == -1 else torn)])

    engine = Counting(tokenizer)
    resumed = run(engine, tokenizer, broken)
    assert resumed == expected
    assert in_order(rows_of(broken)) == in_order(rows_of(whole))
    assert len(rows_of(broken)) == 12
    # Batches are generated whole, so that each is the batch of an uninterrupted run.
    missing = [("3+3=", 2), ("1+1=", 3), ("2+2=", 3), ("3+3=", 3)]
    torn_batch = [("2+2=", 1), ("3+3=", 1), ("1+1=", 2), ("2+2=", 2)] if torn else []
    assert engine.asked == torn_batch + missing


@pytest.mark.parametrize("already", [0, 1])
def test_what_was_graded_of_a_batch_that_was_interrupted_is_kept(tokenizer, tmp_path, already):
    """A batch of all three tasks, two of which are over in their first turn when the second one is interrupted."""
    env = "test-evaluate/Turns-v0"
    script = {"1+1=": [r"\boxed{2}"] * 3, "2+2=": ["wait"] * 3, "3+3=": [r"\boxed{7}"] * 3}

    def turn(task, conversation, completion):
        return Reply("go on" if completion == "wait" else None)

    tasks = {"eval": [Task(prompt[0], prompt, answer) for prompt, answer in ANSWERS.items()]}
    rlvr.register(env, tasks=tasks, rubric="rlvr/number-v1", turn=turn, max_turns=2)
    path, whole = tmp_path / "rows.jsonl", tmp_path / "whole.jsonl"

    class Interrupted(ScriptedEngine):
        streams, most = 0, 2 * already + 1

        def stream(self, prompts, sampling, seeds):
            self.streams += 1
            if self.streams > self.most:
                raise KeyboardInterrupt
            # Second turns come in a stream of their own, once all first ones are graded.
            return super().stream(list(prompts), sampling, list(seeds))

    def line(prompt, seed):
        asked = next(asked for asked in script if asked in prompt)
        return r"\boxed{4}" if "go on" in prompt else script[asked][0]

    engine = Interrupted(tokenizer, line, tokenizer.eos_token_id)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(engine, tokenizer, path, env, batch_size=3)
        kept = rows_of(path)
        batch = [(0, already), (2, already)]
        assert [(row["task"], row["sample"]) for row in kept] == [*((task, 0) for task in range(3 * already)), *batch]
        engine.most = math.inf
        expected = run(engine, tokenizer, whole, env, batch_size=3)
        assert run(engine, tokenizer, path, env, batch_size=3) == expected
        assert rows_of(path)[: len(kept)] == kept
        assert in_order(rows_of(path)) == in_order(rows_of(whole))
    finally:
        gymnasium.registry.pop(env)
        rlvr.envs.registry._registrations.pop(env)


def test_rows_are_written_as_they_come(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    seen = []

    def note(done: int, total: int) -> None:
        seen.append((done, total, len(rows_of(path))))

    run(Counting(tokenizer), tokenizer, path, on_progress=note)
    assert seen == [(4, 12, 4), (8, 12, 8), (12, 12, 12)]


def test_a_finished_evaluation_is_read_and_not_generated_again(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    first = run(Counting(tokenizer), tokenizer, path)
    engine = Counting(tokenizer)
    before = path.read_bytes()
    assert run(engine, tokenizer, path) == first
    assert engine.asked == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("batch_size", [3, 256])
def test_a_larger_n_keeps_the_old_rows_and_adds_new_samples(tokenizer, tmp_path, batch_size):
    path, fresh = tmp_path / "rows.jsonl", tmp_path / "fresh.jsonl"
    run(Counting(tokenizer), tokenizer, path, batch_size=batch_size)
    before = path.read_text()
    engine = Counting(tokenizer)
    extended = run(engine, tokenizer, path, n=6, batch_size=batch_size)
    assert path.read_text().startswith(before)
    assert len(rows_of(path)) == 18
    if batch_size == 3:
        assert engine.asked == [(prompt, sample) for sample in (4, 5) for prompt in ANSWERS]
    assert extended == run(Counting(tokenizer), tokenizer, fresh, n=6, batch_size=batch_size)
    assert in_order(rows_of(path)) == in_order(rows_of(fresh))
    # passed of 6: 3, 3 and 2
    assert extended.avg.value == pytest.approx((3 / 6 + 3 / 6 + 2 / 6) / 3)


def test_a_smaller_n_and_fewer_tasks_read_a_part_of_the_rows(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    run(Counting(tokenizer), tokenizer, path)
    engine = Counting(tokenizer)
    part = run(engine, tokenizer, path, n=2, tasks=2, ks=(1,))
    assert engine.asked == []
    assert (part.tasks, part.n) == (2, 2)
    assert part.avg.value == pytest.approx((1 / 2 + 0) / 2)
    assert len(rows_of(path)) == 12


def test_more_tasks_than_there_are_means_all(tokenizer, tmp_path):
    assert run(Counting(tokenizer), tokenizer, tmp_path / "rows.jsonl", tasks=50).tasks == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"identity": {"model": "b"}}, "model = 'a', not 'b'"),
        ({"sampling": Sampling(20, temperature=0.5)}, "sampling"),
        ({"sampling": Sampling(21)}, "sampling"),
        ({"options": {"system": "Add."}}, "options"),
        ({"env": "test-evaluate/Failing-v0"}, "env"),
        ({"seed": 1}, "seed = 0, not 1"),
    ],
)
def test_rows_of_something_else_are_refused_and_left_alone(tokenizer, tmp_path, change, named):
    path = tmp_path / "rows.jsonl"
    same = {"identity": {"model": "a"}}
    run(Counting(tokenizer), tokenizer, path, **same)
    before = path.read_bytes()
    engine = Counting(tokenizer)
    with pytest.raises(UserError, match="holds samples with") as caught:
        run(engine, tokenizer, path, **{**same, **change})
    assert named in str(caught.value)
    assert engine.asked == []
    assert path.read_bytes() == before
    run(engine, tokenizer, path, **same)
    assert engine.asked == []


def test_a_file_of_something_else_altogether_is_refused_and_left_alone(tokenizer, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("one line\nand one without an end")
    with pytest.raises(UserError, match=r"no notes\.about\.json"):
        run(Counting(tokenizer), tokenizer, path)
    assert path.read_text() == "one line\nand one without an end"


def test_rows_that_were_spoilt_are_refused_and_an_empty_file_is_filled(tokenizer, tmp_path):
    path = tmp_path / "rows.jsonl"
    run(Counting(tokenizer), tokenizer, path)
    spoilt = path.read_text().replace("}\n{", "}{", 1)
    path.write_text(spoilt)
    with pytest.raises(UserError, match=r"rows\.jsonl has a line that is no JSON"):
        run(Counting(tokenizer), tokenizer, path)
    assert path.read_text() == spoilt
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert run(Counting(tokenizer), tokenizer, empty).tasks == 3


@pytest.mark.parametrize("ks", [(1, 5), (5,)])
def test_a_k_beyond_n_is_refused_before_anything_is_generated(tokenizer, tmp_path, ks):
    engine = Counting(tokenizer)
    with pytest.raises(UserError, match=rf"pass@{ks[-1]} cannot be estimated from n=4"):
        run(engine, tokenizer, tmp_path / "rows.jsonl", ks=ks)
    assert engine.asked == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["levl", "num_envs", "id", "wrappers"])
def test_an_option_that_the_environment_does_not_have_is_named(tokenizer, tmp_path, option):
    with pytest.raises(UserError, match=f"has no option '{option}'"):
        run(Counting(tokenizer), tokenizer, tmp_path / "rows.jsonl", options={option: 1})
    assert list(tmp_path.iterdir()) == []


def test_samples_whose_grader_failed_are_counted_and_in_no_pass_at_k(tokenizer, tmp_path):
    env = "test-evaluate/Failing-v0"
    script = {**SCRIPT, "1+1=": [r"\boxed{2}", r"\boxed{7}", r"\boxed{7}", r"\boxed{3}"] + [""] * 2}
    path = tmp_path / "rows.jsonl"
    evaluation = run(Counting(tokenizer, env, script), tokenizer, path, env)
    # graded of 4: 2, 4 and 3; passed: 1, 1 and 0
    assert evaluation.ungraded == 3
    assert evaluation.avg.value == pytest.approx((1 / 2 + 1 / 4 + 0) / 3)
    assert evaluation.pass_at[2].value == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert evaluation.pass_at[4].value == pytest.approx(1.0)  # only the second task has four graded samples
    failed = [row for row in rows_of(path) if row["score"] is None]
    assert [(row["passed"], row["status"]) for row in failed] == [(None, "error")] * 3
    assert run(Counting(tokenizer, env, script), tokenizer, path, env) == evaluation


def test_nothing_graded_is_no_zero(tokenizer, tmp_path):
    env = "test-evaluate/Failing-v0"
    script = {prompt: ["7"] * SAMPLES for prompt in SCRIPT}
    evaluation = run(Counting(tokenizer, env, script), tokenizer, tmp_path / "rows.jsonl", env)
    assert evaluation.ungraded == 12
    assert math.isnan(evaluation.pass_at[1].value)
    assert math.isnan(evaluation.avg.value)
    assert (evaluation.avg.low, evaluation.avg.high) == (0.0, 1.0)
    # NaN is no JSON.
    json.dumps(evaluation.metrics(), allow_nan=False)


def test_without_answers_there_is_no_vote():
    row = {"task": 0, "sample": 0, "answer": None, "score": 1.0, "passed": True, "status": "ok"}
    rows = [{**row, "length": 2, "finish_reason": "stop", "entropy": None}]
    evaluation = summarise(ENV, rows, 1, [1])
    assert evaluation.maj is None
    assert evaluation.entropy is None
    assert f"eval/{ENV}/maj@1" not in evaluation.metrics()


def test_entropy_is_a_mean_over_tokens_not_over_completions():
    row = {"task": 0, "answer": None, "score": 1.0, "passed": True, "status": "ok", "finish_reason": "stop"}
    rows = [
        {**row, "sample": 0, "length": 1, "entropy": 2.0},
        {**row, "sample": 1, "length": 3, "entropy": 0.0},
    ]
    assert summarise(ENV, rows, 2, [1]).entropy == pytest.approx(0.5)


def test_held_out_tasks_unless_told_otherwise(tokenizer, tmp_path):
    asked = []

    class Listening(ScriptedEngine):
        def stream(self, prompts, sampling, seeds):
            asked.extend(tokenizer.decode(prompt) for prompt in prompts)
            for place in range(len(prompts)):
                yield place, Completion([tokenizer.eos_token_id], [0.0], [0.0], "stop")

    engine = Listening(tokenizer, lambda prompt, seed: "", tokenizer.eos_token_id)
    options = {"level": 3, "template": "{expression}=", "system": None}
    run(engine, tokenizer, tmp_path / "rows.jsonl", "rlvr/Arithmetic-v0", options=options, n=1, ks=(1,), tasks=5)
    held_out = rlvr.envs.make_vec("rlvr/Arithmetic-v0", 1, split="eval", **options).tasks
    assert asked == [f"<|user|>{task.prompt}<|assistant|>" for task in held_out[:5]]
