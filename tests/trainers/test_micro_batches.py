import pytest

torch = pytest.importorskip("torch")

from rlvr.trainers.micro_batches import micro_batches, shared_micro_batches  # noqa: E402
from rlvr.trainers.ranks import Ranks  # noqa: E402
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


class Process(Ranks):
    def __init__(self, number, count):
        self.number, self.count = number, count


def dealt(shapes, count, size):
    batch, rows = batch_of(shapes), torch.arange(len(shapes))
    return [shared_micro_batches(Process(number, count), batch, rows, size, True) for number in range(count)]


@pytest.mark.parametrize("length", [20, 3000])
@pytest.mark.parametrize(("rows", "count", "size"), [(8, 2, 2), (9, 2, 4), (5, 4, 2), (3, 4, 8), (1, 2, 1), (7, 3, 1)])
def test_every_row_is_one_processes_and_all_pass_as_often(length, rows, count, size):
    shapes = [(row, 2, length + row) for row in range(rows)]
    given = dealt(shapes, count, size)
    assert sorted(row for parts in given for part in parts for row in part.tolist()) == list(range(rows))
    assert len({len(parts) for parts in given}) == 1
    assert all(len(part) <= size for parts in given for part in parts)
    # Without rows is at most the last one.
    assert all(len(part) > 0 for parts in given for part in parts[:-1])


def test_short_parts_are_those_of_one_process_and_long_ones_are_made_even():
    short, long = ([(row, 2, length) for row in range(6)] for length in (20, 5000))
    whole = micro_batches(batch_of(short), torch.arange(6), 4, True)
    assert [parts[0].tolist() for parts in dealt(short, 2, 4)] == [part.tolist() for part in whole]
    assert [[len(part) for part in parts] for parts in dealt(long, 2, 4)] == [[3], [3]]
    assert [[len(part) for part in parts] for parts in dealt(long, 2, 8)] == [[3], [3]]
