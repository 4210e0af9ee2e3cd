from __future__ import annotations

import threading

from rlvr.trainers.engines import Completion, Engine
from rlvr.trainers.ranks import Ranks
from rlvr.trainers.rollouts import Rollouts
from rlvr.trainers.shared_rollouts import SharedRollouts
from rlvr.trainers.task_queue import TaskQueue


class Side(Ranks):
    """One of two processes, played by a thread."""

    count = 2

    def __init__(self, number, told, barrier):
        self.number, self.told, self.barrier = number, told, barrier

    def together(self, action):
        self.told[self.number] = action()
        self.barrier.wait(60)
        told = list(self.told)
        self.barrier.wait(60)
        return told

    def broadcast(self, value):
        return self.together(lambda: value)[0]


class Played(Rollouts):
    """What the main process plays."""

    def __init__(self, queue):
        self.queue, self.synced, self.closed = queue, [], False

    def take(self, step):
        return [f"task {task} of step {step}" for task in self.queue.take(3)]

    def sync(self, weights, version):
        self.synced.append((list(weights), version))

    def metrics(self):
        return {"async/wait": 1.0}

    def close(self):
        self.closed = True


class Following(Engine):
    """The engine of another process."""

    def __init__(self):
        self.closed = False

    def stream(self, prompts, sampling, seeds):
        yield 0, Completion([], [], None, "stop")

    def sync(self, weights, version):
        self.gathered, self.version = list(weights), version

    def close(self):
        self.closed = True


def test_every_process_has_what_the_main_one_played():
    told, barrier = [None, None], threading.Barrier(2)
    queues = [TaskQueue(1, 20), TaskQueue(1, 20)]
    played, engine = Played(queues[0]), Following()
    sides = [
        SharedRollouts(played, Following(), queues[0], 3, Side(0, told, barrier)),
        SharedRollouts(None, engine, queues[1], 3, Side(1, told, barrier)),
    ]
    had = {}

    def run(number):
        taken = []
        for step in range(2):
            taken.append(sides[number].take(step))
            sides[number].sync(iter([("a", step)]), step + 1)
        had[number] = (taken, sides[number].metrics())
        sides[number].close()

    other = threading.Thread(target=run, args=(1,), daemon=True)
    other.start()
    run(0)
    other.join(60)
    tasks = TaskQueue(1, 20).take(6)
    expected = [[f"task {task} of step {step}" for task in tasks[3 * step : 3 * step + 3]] for step in range(2)]
    assert had[0] == had[1] == (expected, {"async/wait": 1.0})
    assert queues[0].state_dict() == queues[1].state_dict() == {"taken": 6}
    assert played.synced == [([("a", 0)], 1), ([("a", 1)], 2)]
    assert (engine.gathered, engine.version) == ([("a", 1)], 2)
    assert played.closed
    assert engine.closed
