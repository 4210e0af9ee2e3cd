"""Folders and files that are there whole or not at all, the process being killed at every single operation on them."""

import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from rlvr.trainers import checkpoint
from rlvr.trainers.checkpoint import checkpoints, clear_interrupted, latest_checkpoint, save_checkpoint
from rlvr.trainers.durable import published, restore_published, sync_tree, write_text
from rlvr.trainers.models import load_model
from rlvr.trainers.tiny import build_tokenizer

EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")


def killed_at(number, folder, action):
    """Whether a process that does `action` was killed at its so-manieth operation under `folder`."""
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)
            seen = 0

            def hook(event, arguments):
                nonlocal seen
                # In the middle of deleting a folder, names are relative to it.
                within = str(arguments[0]).startswith(str(folder)) or event in ("os.remove", "os.rmdir")
                if event in EVENTS and within:
                    seen += 1
                    if seen == number:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(hook)
            action()
        finally:
            os._exit(7 if sys.exc_info()[0] else 0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def name_of(descriptor):
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def names(folder):
    return sorted(path.name for path in folder.iterdir())


OLD, NEW = ({f"{age}{i}": age * 50 for i in range(3)} for age in ("old", "new"))


def publish(folder, files):
    with published(folder) as partial:
        partial.mkdir()
        for name, text in files.items():
            (partial / name).write_text(text)


def test_a_folder_that_is_replaced_is_the_old_one_or_the_new_one(tmp_path):
    number, found = 0, []
    while True:
        number += 1
        folder = tmp_path / str(number) / "kept"
        publish(folder, OLD)
        if not killed_at(number, folder.parent, lambda folder=folder: publish(folder, NEW)):
            break
        restore_published(folder)
        assert contents(folder) in (OLD, NEW)
        assert names(folder.parent) == ["kept"]
        found.append(contents(folder))
    assert contents(folder) == NEW
    assert OLD in found
    assert NEW in found
    assert found == sorted(found, key=lambda files: files == NEW)


def test_what_fails_leaves_the_old_folder_and_nothing_beside_it(tmp_path):
    folder = tmp_path / "kept"
    publish(folder, OLD)

    def fail():
        with published(folder) as partial:
            partial.mkdir()
            (partial / "half").write_text("h")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(folder) == OLD
    assert names(tmp_path) == ["kept"]


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    number = 0
    while True:
        number += 1
        file = tmp_path / str(number) / "summary.json"
        file.parent.mkdir()
        file.write_text("old" * 50)
        if not killed_at(number, file.parent, lambda file=file: write_text(file, "new" * 50)):
            break
        assert file.read_text() in ("old" * 50, "new" * 50)
    assert file.read_text() == "new" * 50
    assert names(file.parent) == ["summary.json"]
    assert number > 2


def test_everything_in_a_folder_is_synced_and_a_missing_one_is_nothing(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_text("x")
    (tmp_path / "a" / "b" / "y").write_text("y")
    synced = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(name_of(descriptor)))
    sync_tree(tmp_path / "missing")
    assert synced == set()
    sync_tree(tmp_path / "a")
    assert synced == {str(tmp_path / "a" / name) for name in ("x", "b", "b/y")} | {str(tmp_path / "a")}


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, random_llama):
    tokenizer = build_tokenizer()
    model = random_llama(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    synced, kept = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(name_of(fd)), kept(fd)))
    saved = save_checkpoint(tmp_path, 1, model, tokenizer, torch.optim.AdamW(model.parameters()), keep_last=1)
    partial = tmp_path / ".step-000001.partial"
    assert {str(partial / path.name) for path in saved.iterdir()} | {str(partial)} == set(synced[:-1])
    assert synced[-1] == str(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("step", [4, 6])
def test_there_is_a_whole_checkpoint_whenever_the_process_is_killed(tmp_path, random_llama, step):
    """While step 4 is saved a second time in its own place, and while step 6 takes its place."""
    tokenizer = build_tokenizer()
    model = random_llama(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    optimizer = torch.optim.AdamW(model.parameters())
    number, steps = 0, []
    while True:
        number += 1
        folder = tmp_path / str(number)
        save_checkpoint(folder, 4, model, tokenizer, optimizer, keep_last=1)
        if not killed_at(
            number, folder, lambda folder=folder: save_checkpoint(folder, step, model, tokenizer, optimizer, 1)
        ):
            break
        before = [checkpoint.checkpoint_step(path) for path in checkpoints(folder)]
        clear_interrupted(folder)
        assert [checkpoint.checkpoint_step(path) for path in checkpoints(folder)] == before
        latest = latest_checkpoint(folder)
        steps.append(checkpoint.checkpoint_step(latest))
        assert all(name.startswith("step-") for name in names(folder))
        loaded = load_model(str(latest)).model.state_dict()
        assert all(torch.equal(tensor, loaded[name]) for name, tensor in model.state_dict().items())
        checkpoint.restore_state(latest, torch.optim.AdamW(model.parameters()))
    assert number > 20
    assert steps == sorted(steps)
    assert {*steps} == {4, step}
    assert names(folder) == [f"step-{step:06d}"]
