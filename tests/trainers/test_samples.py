from dataclasses import replace

from rlvr import Verdict
from rlvr.trainers.samples import write_samples
from rlvr.trainers.trajectory import Trajectory


def trajectory(number, verdict, completion="<think>1</think>\\boxed{2}", finish_reason="stop"):
    return Trajectory(
        task_id=f"task-{number}",
        group=number // 4,
        prompt="1+1=",
        completion=completion,
        ids=[5, 6, 7],
        loss_mask=[0, 1, 1],
        sampler_logprobs=[0.0, 0.0, 0.0],
        entropies=None,
        rewards=[0.0 if verdict.score is None else verdict.score],
        verdict=verdict,
        finish_reason=finish_reason,
    )


def written(tmp_path, trajectories, count):
    path = tmp_path / "samples" / "step-000010.txt"
    write_samples(path, trajectories, count)
    return path.read_text(encoding="utf-8")


def test_what_a_person_wants_to_see_is_there(tmp_path):
    verdict = Verdict(0.25, False, "ok", {"number": 0.0, "think": 1.0}, "expected 3, read 2")
    text = written(tmp_path, [trajectory(3, verdict)], 4)
    for expected in (
        "task task-3",
        "2 tokens",
        "finish reason stop",
        "PROMPT      1+1=",
        "COMPLETION  <think>1</think>\\boxed{2}",
        "score 0.25, not passed, ok",
        "number=0  think=1",
        "expected 3, read 2",
    ):
        assert expected in text


def test_an_ungraded_sample_is_not_shown_as_a_zero(tmp_path):
    text = written(
        tmp_path, [trajectory(0, Verdict(None, None, "error", detail="disk full"), finish_reason="length")], 1
    )
    assert "VERDICT     ungraded, unknown whether passed, error" in text
    assert "score" not in text
    assert "disk full" in text
    assert "finish reason length" in text


def test_samples_are_spread_over_the_groups(tmp_path):
    many = [trajectory(number, Verdict(1.0, True)) for number in range(16)]
    text = written(tmp_path, many, 4)
    shown = [number for number in range(16) if f"task task-{number} " in text]
    assert shown == [0, 4, 8, 12]


def test_there_are_as_many_as_asked_for_or_all(tmp_path):
    many = [trajectory(number, Verdict(1.0, True)) for number in range(10)]
    for count, expected in [(1, 1), (3, 3), (4, 4), (7, 7), (10, 10), (25, 10)]:
        assert written(tmp_path, many, count).count("PROMPT ") == expected


def test_no_text_breaks_the_file(tmp_path):
    """Text that is no valid Unicode is shown, not fatal, and control characters do not act on the terminal."""
    text = written(tmp_path, [trajectory(0, Verdict(0.0, False), completion="a\ud800b \x1b[2J\u2028 end")], 1)
    assert "COMPLETION  a\\ud800b \\x1b[2J" in text


def test_an_episode_of_several_turns_is_shown_whole(tmp_path):
    said = [
        {"role": "system", "content": "Guess."},
        {"role": "user", "content": "1 to 9"},
        {"role": "assistant", "content": "\\boxed{5}"},
        {"role": "user", "content": "Higher."},
        {"role": "assistant", "content": "\\boxed{7}"},
    ]
    game = replace(
        trajectory(0, Verdict(1.0, True), completion="\\boxed{7}"),
        prompt="1 to 9",
        rewards=[0.25, 1.5],
        turn_ends=[1, 2],
        conversation=said,
    )
    text = written(tmp_path, [game], 1)
    assert "PROMPT      1 to 9\nEPISODE     \\boxed{5}\n[user] Higher.\n\\boxed{7}\n" in text
    assert "2 tokens  ·  2 turns  ·  finish" in text
    assert "REWARDS     0.25, 1.5, turn by turn" in text
    assert "COMPLETION" not in text
