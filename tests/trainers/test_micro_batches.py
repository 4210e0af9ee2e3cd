import pytest

torch = pytest.importorskip("torch")

from rlvr.trainers.micro_batches import micro_batches  # noqa: E402
from rlvr.trainers.trajectory import Batch  # noqa: E402


def batch_of(shapes):
    """Rows of (group, prompt length, completion length)."""
    width = max(prompt + completion for _, prompt, completion in shapes)
    place = torch.arange(width)
    groups, prompts, completions = torch.tensor(shapes).T
    ends = (prompts + completions)[:, None]
    return Batch(
        input_ids=torch.zeros(len(shapes), width, dtype=torch.long),
        attention_mask=(place < ends).long(),
        loss_mask=(place >= prompts[:, None]) & (place < ends),
        sampler_logprobs=torch.zeros(len(shapes), width),
        rewards=torch.zeros(len(shapes)),
        groups=groups,
    )


LONG_PROMPTS = [(0, 50, 3), (1, 50, 2), (0, 50, 1), (1, 50, 4)]
LONG_COMPLETIONS = [(0, 2, 90), (1, 2, 80), (0, 2, 1), (1, 2, 3)]


def parts(shapes, shares_prompts, rows=None, size=2):
    rows = torch.arange(len(shapes)) if rows is None else rows
    return [sorted(part.tolist()) for part in micro_batches(batch_of(shapes), rows, size, shares_prompts)]


def test_groups_stay_together_where_prompts_are_long():
    assert sorted(parts(LONG_PROMPTS, True)) == [[0, 2], [1, 3]]


def test_rows_are_sorted_by_length_where_completions_are_uneven():
    assert parts(LONG_COMPLETIONS, True) == [[2, 3], [0, 1]]


def test_a_model_that_cannot_share_prompts_gets_rows_by_length():
    assert parts(LONG_PROMPTS, False) == [[1, 2], [0, 3]]


@pytest.mark.parametrize("shares_prompts", [True, False])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_every_row_comes_once(shares_prompts, size):
    rows = torch.tensor([3, 0, 2])
    found = parts(LONG_PROMPTS, shares_prompts, rows, size)
    assert sorted(row for part in found for row in part) == [0, 2, 3]
    assert all(len(part) <= size for part in found)


def test_no_rows_make_no_parts():
    assert parts(LONG_PROMPTS, True, torch.tensor([], dtype=torch.long)) == []
