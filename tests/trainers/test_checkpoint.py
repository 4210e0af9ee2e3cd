import json
import pickle
import resource
import shutil
import zipfile

import pytest
import torch

from rlvr import UserError
from rlvr.trainers import checkpoint as module
from rlvr.trainers.checkpoint import (
    best_checkpoints,
    checkpoint_score,
    checkpoint_step,
    checkpoints,
    clear_interrupted,
    is_among_best,
    latest_checkpoint,
    restore_state,
    save_checkpoint,
)
from rlvr.trainers.models import load_model
from rlvr.trainers.tiny import build_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer()


@pytest.fixture
def model(tokenizer, random_llama):
    return random_llama(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def move(model, optimizer):
    ids = torch.arange(10)[None]
    optimizer.zero_grad()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_policy_optimizer_and_step_come_back_bit_by_bit(model, tokenizer, tmp_path):
    optimizer = adamw(model)
    for _ in range(3):
        move(model, optimizer)
    optimizer.param_groups[0]["lr"] = 0.0025
    saved = save_checkpoint(tmp_path, 12, model, tokenizer, optimizer, keep_last=2)
    assert (saved.name, checkpoint_step(saved)) == ("step-000012", 12)

    loaded = load_model(str(saved))
    again = adamw(loaded.model)
    restore_state(saved, again)
    mine, theirs = optimizer.state_dict(), again.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    assert len(mine["state"]) == len(list(model.parameters()))
    for index, state in mine["state"].items():
        assert all(torch.equal(state[name], theirs["state"][index][name]) for name in ("step", "exp_avg", "exp_avg_sq"))

    move(model, optimizer)
    move(loaded.model, again)
    for before, after in zip(model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(before, after)
    assert loaded.tokenizer.get_vocab() == tokenizer.get_vocab()


def test_the_latest_are_kept(model, tokenizer, tmp_path):
    for step in (2, 4, 6, 8):
        save_checkpoint(tmp_path, step, model, tokenizer, adamw(model), keep_last=2)
    assert names(tmp_path) == ["step-000006", "step-000008"]
    assert checkpoints(tmp_path) == [tmp_path / "step-000006", tmp_path / "step-000008"]
    assert latest_checkpoint(tmp_path) == tmp_path / "step-000008"


def test_the_best_are_kept_besides_the_latest(model, tokenizer, tmp_path):
    for step, score in ((1, 0.5), (2, 0.75), (3, None), (4, 0.75), (5, 0.25), (6, None)):
        save_checkpoint(tmp_path, step, model, tokenizer, adamw(model), keep_last=1, keep_best=2, score=score)
    assert names(tmp_path) == ["step-000002", "step-000004", "step-000006"]
    # Of equals, the older one is the better.
    assert best_checkpoints(tmp_path) == [tmp_path / "step-000002", tmp_path / "step-000004"]
    assert [checkpoint_score(path) for path in checkpoints(tmp_path)] == [0.75, 0.75, None]
    assert latest_checkpoint(tmp_path) == tmp_path / "step-000006"
    assert is_among_best(tmp_path, 0.8, keep_best=1)
    assert not is_among_best(tmp_path, 0.75, keep_best=2)
    assert is_among_best(tmp_path, 0.75, keep_best=3)
    assert not is_among_best(tmp_path, 1.0, keep_best=0)
    save_checkpoint(tmp_path, 7, model, tokenizer, adamw(model), keep_last=1, keep_best=1, score=0.0)
    assert names(tmp_path) == ["step-000002", "step-000007"]


def test_a_checkpoint_of_an_older_version_has_no_score(model, tokenizer, tmp_path):
    saved = save_checkpoint(tmp_path, 1, model, tokenizer, adamw(model), keep_last=1)
    (saved / "state.json").write_text('{"step": 1}')
    assert checkpoint_score(saved) is None
    assert best_checkpoints(tmp_path) == []


def test_the_latest_is_so_by_number_however_many_digits(model, tokenizer, tmp_path):
    for step in (999_999, 1_000_000):
        save_checkpoint(tmp_path, step, model, tokenizer, adamw(model), keep_last=1)
    shutil.copytree(tmp_path / "step-1000000", tmp_path / "step-1000000-mine")
    assert checkpoint_step(latest_checkpoint(tmp_path)) == 1_000_000


@pytest.mark.parametrize("broken", [(module, "save_policy"), (torch, "save"), (json, "dumps")])
def test_what_was_not_written_whole_is_no_checkpoint(model, tokenizer, tmp_path, monkeypatch, broken):
    save_checkpoint(tmp_path, 2, model, tokenizer, adamw(model), keep_last=1)

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*broken, full)
        with pytest.raises(OSError, match="no space left"):
            save_checkpoint(tmp_path, 4, model, tokenizer, adamw(model), keep_last=1)
    assert checkpoints(tmp_path) == [tmp_path / "step-000002"]
    load_model(str(latest_checkpoint(tmp_path)))

    save_checkpoint(tmp_path, 4, model, tokenizer, adamw(model), keep_last=1)
    assert names(tmp_path) == ["step-000004"]


def test_what_an_interrupted_save_left_is_gone_from_the_next(model, tokenizer, tmp_path):
    partial = tmp_path / ".step-000004.partial"
    partial.mkdir()
    (partial / "state.json").write_text('{"step": 4}')
    (partial / "stale.bin").write_bytes(b"?")
    assert checkpoints(tmp_path) == []
    saved = save_checkpoint(tmp_path, 4, model, tokenizer, adamw(model), keep_last=1)
    assert not (saved / "stale.bin").exists()
    assert names(tmp_path) == ["step-000004"]


def test_what_interrupted_saves_left_is_cleared_and_nothing_else(model, tokenizer, tmp_path):
    for step in (2, 4):
        save_checkpoint(tmp_path, step, model, tokenizer, adamw(model), keep_last=9)
    for name in (".step-000006.partial", ".step-000001.gone", ".step-000004.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stale.bin").write_bytes(b"?")
    # Of a step that was to be replaced, the old one is whole.
    (tmp_path / "step-000002").rename(tmp_path / ".step-000002.old")
    assert [checkpoint_step(path) for path in checkpoints(tmp_path)] == [2, 4]
    (tmp_path / ".mine.partial").mkdir()
    clear_interrupted(tmp_path)
    assert names(tmp_path) == [".mine.partial", "step-000002", "step-000004"]
    load_model(str(tmp_path / "step-000002"))


def test_a_step_saved_again_is_replaced(model, tokenizer, tmp_path):
    save_checkpoint(tmp_path, 4, model, tokenizer, adamw(model), keep_last=1)
    optimizer = adamw(model)
    move(model, optimizer)
    saved = save_checkpoint(tmp_path, 4, model, tokenizer, optimizer, keep_last=1)
    weights = load_model(str(saved)).model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert names(tmp_path) == ["step-000004"]


def test_nothing_to_resume_from_is_said(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="holds no checkpoint to resume from"):
            latest_checkpoint(folder)


def test_an_optimizer_that_was_saved_on_a_gpu_is_restored_without_one(model, tokenizer, tmp_path):
    optimizer = adamw(model)
    move(model, optimizer)
    saved = save_checkpoint(tmp_path, 1, model, tokenizer, optimizer, keep_last=1)
    file = saved / "optimizer.pt"
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            # In the pickle, a string is X, its length in four bytes and itself; here it is a device.
            archive.writestr(name, content.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
    again = adamw(model)
    restore_state(saved, again)
    mine, theirs = optimizer.state_dict()["state"], again.state_dict()["state"]
    assert all(torch.equal(mine[index]["exp_avg"], theirs[index]["exp_avg"]) for index in mine)


def test_a_checkpoint_runs_no_code_when_it_is_read(model, tokenizer, tmp_path):
    saved = save_checkpoint(tmp_path, 1, model, tokenizer, adamw(model), keep_last=1)
    torch.save({"state": print}, saved / "optimizer.pt")
    with pytest.raises(pickle.UnpicklingError):
        restore_state(saved, adamw(model))


@pytest.mark.parametrize("written", ["model.safetensors", "optimizer.pt"])
def test_a_disk_that_is_full_is_said_and_leaves_the_older_ones(model, tokenizer, tmp_path, written):
    optimizer = adamw(model)
    move(model, optimizer)
    saved = save_checkpoint(tmp_path, 2, model, tokenizer, optimizer, keep_last=1)
    sizes = {name: (saved / name).stat().st_size for name in ("model.safetensors", "optimizer.pt")}
    # No file may be larger, as if there were no more room; of the two, the optimizer's is.
    assert sizes["optimizer.pt"] > sizes["model.safetensors"] + 1000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[written] - 1000, before[1]))
    try:
        with pytest.raises(
            UserError, match="step-000004 cannot be written, perhaps because the disk is full"
        ) as caught:
            save_checkpoint(tmp_path, 4, model, tokenizer, optimizer, keep_last=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["step-000002"]
    assert latest_checkpoint(tmp_path) == saved


def test_a_checkpoint_from_before_there_were_checksums_is_as_good(model, tokenizer, tmp_path):
    saved = save_checkpoint(tmp_path, 2, model, tokenizer, adamw(model), keep_last=1)
    (saved / "checksums.json").unlink()
    assert latest_checkpoint(tmp_path) == saved


def test_what_is_put_beside_the_files_of_a_checkpoint_is_no_damage(model, tokenizer, tmp_path):
    saved = save_checkpoint(tmp_path, 2, model, tokenizer, adamw(model), keep_last=1)
    (saved / "notes.txt").write_text("mine")
    assert latest_checkpoint(tmp_path) == saved


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path):
    path.write_bytes(b"")


def removed(path):
    path.unlink()


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("state.json", emptied),
        ("state.json", lambda path: path.write_text('{"step": 4, ')),
        ("optimizer.pt", truncated),
        ("optimizer.pt", emptied),
        ("optimizer.pt", removed),
        ("model.safetensors", truncated),
        ("model.safetensors", emptied),
        # What can be read without an error, and is not what was written.
        ("state.json", lambda path: path.write_text(path.read_text().replace('"step": ', '"step": 1'))),
        ("optimizer.pt", flipped),
        ("model.safetensors", flipped),
        ("tokenizer.json", flipped),
        ("config.json", removed),
        ("checksums.json", emptied),
    ],
)
def test_a_damaged_checkpoint_is_named_with_the_one_to_go_on_from(model, tokenizer, tmp_path, name, damage):
    optimizer = adamw(model)
    move(model, optimizer)
    for step in (2, 4, 6):
        save_checkpoint(tmp_path, step, model, tokenizer, optimizer, keep_last=9, score=0.5)
    damage(tmp_path / "step-000006" / name)
    with pytest.raises(UserError, match=rf"step-000006 is damaged \({name}.*\); delete that .*, step-000004\."):
        latest_checkpoint(tmp_path)
    damage(tmp_path / "step-000004" / name)
    with pytest.raises(UserError, match=r"step-000006 is damaged .*; delete all that are newer than step-000002"):
        latest_checkpoint(tmp_path)
    damage(tmp_path / "step-000002" / name)
    with pytest.raises(UserError, match=r"step-000006 is damaged .*; there is no older one"):
        latest_checkpoint(tmp_path)
    # A run that keeps the best ones goes on beside it.
    assert is_among_best(tmp_path, 0.6, keep_best=1)
    save_checkpoint(tmp_path, 8, model, tokenizer, optimizer, keep_last=1, keep_best=1, score=0.7)
    assert latest_checkpoint(tmp_path).name == "step-000008"
