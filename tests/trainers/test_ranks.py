import pytest
import torch

from rlvr import UserError
from rlvr.trainers.ranks import Ranks, ranks_of_this_run


class Second(Ranks):
    """One of three, that only knows its own place."""

    number, count = 1, 3


def test_one_process_talks_to_nobody():
    ranks = ranks_of_this_run()
    assert (ranks.number, ranks.count, ranks.main) == (0, 1, True)
    assert ranks.gather("a") == ["a"]
    assert ranks.broadcast("a") == "a"
    assert ranks.together(lambda: 3) == [3]
    assert ranks.alone(lambda: 3) == 3
    assert ranks.any(True)
    assert not ranks.any(False)
    parameter = torch.nn.Parameter(torch.ones(2))
    ranks.sum_gradients([parameter])
    assert parameter.grad is None
    ranks.check_equal("the weights", "digest")


@pytest.mark.parametrize(("count", "mine"), [(6, [2, 3]), (7, [3, 4]), (8, [3, 4, 5]), (2, [1]), (1, [])])
def test_what_cannot_be_divided_goes_to_the_first(count, mine):
    assert list(Second().share(count)) == mine


@pytest.mark.parametrize("count", [0, 1, 5, 6, 17])
def test_shares_are_everything_once(count):
    parts = []
    for number in range(3):
        ranks = Second()
        ranks.number = number
        parts += ranks.share(count)
    assert parts == list(range(count))


def test_every_process_gets_some_of_all_costs():
    assert list(Second().every(range(8))) == [1, 4, 7]


def test_a_failure_keeps_its_words_and_its_kind():
    with pytest.raises(UserError, match=r"^It is wrong\.$"):
        Ranks().together(lambda: (_ for _ in ()).throw(UserError("It is wrong.")))
    with pytest.raises(ZeroDivisionError):
        Ranks().alone(lambda: 1 // 0)


class Both(Ranks):
    """What two processes say, of which this is the second."""

    number, count = 1, 2

    def __init__(self, *first):
        self.first = list(first)

    def gather(self, value):
        return [self.first.pop(0), value]


def test_the_failure_of_another_process_is_everyones():
    with pytest.raises(UserError, match=r"The task is gone\.") as caught:
        Both(("The task is gone.", "")).together(lambda: 3)
    assert caught.value.said_by_another
    with pytest.raises(RuntimeError, match="process 0 of 2 failed:\nboom"):
        Both((None, "boom")).each(lambda: 3)
    assert Both(None, 1).together(lambda: 3) == [1, 3]
    assert Both(None).each(lambda: 3) == 3


def test_processes_that_differ_are_refused():
    with pytest.raises(UserError, match="Process 0 and process 1 of this run differ in the weights"):
        Both("a").check_equal("the weights", "b")
    Both("a").check_equal("the weights", "a")
