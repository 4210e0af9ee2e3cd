"""The random stream of a procedural task."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from rlvr.envs.procedural import item_rng


def draws(*arguments) -> list[int]:
    return item_rng(*arguments).integers(1 << 62, size=4).tolist()


def test_the_same_arguments_give_the_same_stream():
    assert draws(3, "train", "me/Sums-v0", 7) == draws(3, "train", "me/Sums-v0", 7)


def test_each_argument_changes_the_stream():
    variants = [
        (0, "train", "me/Sums-v0", 0),
        (1, "train", "me/Sums-v0", 0),
        (0, "eval", "me/Sums-v0", 0),
        (0, "train", "me/Sums-v1", 0),
        (0, "train", "me/Sums-v0", 1),
        (0, "me/Sums-v0", "train", 0),
        (0, "trainm", "e/Sums-v0", 0),
    ]
    assert len({tuple(draws(*variant)) for variant in variants}) == len(variants)


def test_the_stream_is_the_same_in_another_process():
    code = (
        "from rlvr.envs.procedural import item_rng;"
        "print(item_rng(5, 'eval', 'me/Sums-v0', 9).integers(1 << 62, size=4).tolist())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(draws(5, "eval", "me/Sums-v0", 9))


def test_global_random_states_are_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    item_rng(0, "train", "me/Sums-v0", 0).random(100)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(seed, index):
    with pytest.raises(ValueError, match="non-negative"):
        item_rng(seed, "train", "me/Sums-v0", index)
