import pytest
import torch

from rlvr.trainers.run_state import RunState
from rlvr.trainers.sharding import WholeOptimizer
from rlvr.trainers.task_queue import TaskQueue


def optimizer():
    weight = torch.nn.Parameter(torch.ones(3))
    made = torch.optim.AdamW([weight], lr=0.1)
    weight.grad = torch.tensor([1.0, 2.0, 3.0])
    return made


def test_the_optimizer_and_every_part_come_back(tmp_path):
    mine, queue = optimizer(), TaskQueue(0, 10)
    mine.step()
    queue.take(7)
    torch.save(RunState(mine, tasks=queue).state_dict(), tmp_path / "state.pt")
    saved = torch.load(tmp_path / "state.pt", weights_only=True)

    theirs, again = optimizer(), TaskQueue(0, 10)
    RunState(theirs, tasks=again).load_state_dict(saved)
    assert again.taken == 7
    assert torch.equal(*(o.state[o.param_groups[0]["params"][0]]["exp_avg"] for o in (mine, theirs)))
    # What keeps no parts is still an optimizer's state.
    optimizer().load_state_dict({name: saved[name] for name in ("state", "param_groups")})


def test_a_part_that_an_older_checkpoint_lacks_stays_as_it_was_made():
    queue = TaskQueue(0, 10, taken=4)
    made = optimizer()
    RunState(optimizer(), tasks=queue).load_state_dict(made.state_dict())
    assert queue.taken == 4


def test_an_optimizer_goes_on_with_the_settings_that_it_was_made_with():
    mine = optimizer()
    mine.step()
    saved = WholeOptimizer(mine).state_dict()
    weight = torch.nn.Parameter(torch.ones(3))
    theirs = torch.optim.AdamW([weight], lr=0.5, betas=(0.0, 0.5), weight_decay=0.25)
    WholeOptimizer(theirs).load_state_dict(saved)
    group, state = theirs.param_groups[0], theirs.state[weight]
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.5, (0.0, 0.5), 0.25)
    # A tenth of the gradient 1, 2, 3, and a thousandth of its square.
    assert state["exp_avg"].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert state["exp_avg_sq"].tolist() == pytest.approx([0.001, 0.004, 0.009])
    assert float(state["step"]) == 1


def test_the_state_of_an_optimizer_of_other_weights_is_refused():
    two = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))])
    with pytest.raises(ValueError, match="parameter group"):
        WholeOptimizer(optimizer()).load_state_dict(two.state_dict())


def test_the_queue_goes_on_where_it_was_whatever_sizes_are_taken():
    whole = TaskQueue(3, 10).take(25)
    parts = TaskQueue(3, 10)
    assert [task for size in (4, 6, 1, 14) for task in parts.take(size)] == whole
    assert sorted(whole[:10]) == sorted(whole[10:20]) == list(range(10))
    assert TaskQueue(3, 10, taken=11).take(14) == whole[11:]
