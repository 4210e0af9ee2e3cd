"""The space of all texts, alone and inside Gymnasium's vector tools."""

from __future__ import annotations

import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector.utils import (
    batch_differing_spaces,
    batch_space,
    concatenate,
    create_empty_array,
    iterate,
)

from rlvr.envs import UnicodeText
from rlvr.verifiers import UserError


@pytest.mark.parametrize("text", ["", " ", "Was ist 2 + 2?", r"\frac{1}{2}", "数学", "🧮\n\t\x00", "a" * 2_000_000])
def test_any_text_belongs(text):
    assert text in UnicodeText()


@pytest.mark.parametrize("value", [None, 3, b"bytes", ["a"], np.array("a")])
def test_nothing_else_belongs(value):
    assert value not in UnicodeText()


def test_max_length_counts_characters():
    space = UnicodeText(max_length=3)
    assert "数学数" in space
    assert "abcd" not in space
    assert all(space.sample() in space for _ in range(50))
    assert UnicodeText(max_length=0).sample() == ""


def test_a_negative_length_is_refused():
    with pytest.raises(UserError, match=r"max_length=-1 .*pass None"):
        UnicodeText(max_length=-1)


def test_samples_follow_the_seed_and_vary():
    first, second = UnicodeText(seed=4), UnicodeText(seed=4)
    samples = [first.sample() for _ in range(20)]
    assert samples == [second.sample() for _ in range(20)]
    assert len(set(samples)) > 10
    assert all(sample.isascii() and sample.isprintable() for sample in samples)


def test_masks_are_refused():
    with pytest.raises(UserError, match="mask"):
        UnicodeText().sample(mask=np.ones(3, dtype=np.int8))


def test_equality_hash_and_repr():
    assert UnicodeText() == UnicodeText(seed=1)
    assert UnicodeText() != UnicodeText(max_length=5)
    assert UnicodeText() != gymnasium.spaces.Discrete(2)
    assert hash(UnicodeText(5)) == hash(UnicodeText(5))
    assert repr(UnicodeText()) == "UnicodeText()"
    assert repr(UnicodeText(5)) == "UnicodeText(max_length=5)"


def test_json_and_pickle_round_trips():
    space = UnicodeText(max_length=9)
    samples = ["a b", "数学", ""]
    assert space.from_jsonable(json.loads(json.dumps(space.to_jsonable(samples)))) == samples
    assert pickle.loads(pickle.dumps(space)) == space


def test_a_batch_is_a_tuple_of_texts():
    batch = batch_space(UnicodeText(seed=0), 3)
    texts = ("a", "", "数学")
    assert batch == gymnasium.spaces.Tuple([UnicodeText()] * 3)
    assert texts in batch
    assert batch.sample() in batch
    assert len(set(batch.sample())) > 1
    assert tuple(iterate(batch, texts)) == texts
    empty = create_empty_array(UnicodeText(), n=3)
    assert empty == ("", "", "")
    assert concatenate(UnicodeText(), texts, empty) == texts


def test_spaces_of_different_lengths_batch_too():
    batch = batch_differing_spaces([UnicodeText(1), UnicodeText(5)])
    assert ("a", "abc") in batch
    assert ("abc", "abc") not in batch
