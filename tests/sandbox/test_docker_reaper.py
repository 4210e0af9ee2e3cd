from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlvr.sandbox.reaper import LABEL, Owner, abandoned, owned_by, reap

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HOUR = 3600.0


def labels_of(owner: Owner, lease: float | None = None) -> dict[str, str]:
    return owner.labels(time.time() + HOUR if lease is None else lease)


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class Listing:
    """Stands where the daemon's client does: a list of containers, and what was removed."""

    def __init__(self, containers: dict[str, dict[str, str]]) -> None:
        self.listed = containers
        self.removed: list[str] = []

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name, "Names": [f"/{name}"], "Labels": labels} for name, labels in self.listed.items()]

    def remove_container(self, container: str, **_: Any) -> None:
        self.removed.append(container)


def test_labels_say_the_owner_again() -> None:
    owner = Owner.this_process()
    assert owner.process == os.getpid()
    assert owned_by(labels_of(owner)) == owner


def test_a_running_owner_keeps_its_container_whatever_the_lease() -> None:
    assert not abandoned(labels_of(Owner.this_process(), lease=0.0), time.time())


def test_an_ended_owner_does_not() -> None:
    owner = dataclasses.replace(Owner.this_process(), process=ended_process())
    assert abandoned(labels_of(owner), time.time())


def test_nor_does_one_whose_number_is_another_process_now() -> None:
    owner = Owner.this_process()
    assert abandoned(labels_of(dataclasses.replace(owner, started=owner.started - 1)), time.time())


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    # Its end is seen by what it held open; it is not waited for.
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    owner = dataclasses.replace(Owner.this_process(), process=process.pid)
    assert abandoned(labels_of(owner), time.time())
    process.wait()


@pytest.mark.parametrize("changed", [{"boot": "another"}, {"space": "pid:[1]"}])
def test_what_cannot_be_seen_from_here_lives_as_long_as_its_lease(changed: dict[str, str]) -> None:
    owner = dataclasses.replace(Owner.this_process(), process=ended_process(), **changed)
    now = time.time()
    assert not abandoned(labels_of(owner, lease=now + 1), now)
    assert abandoned(labels_of(owner, lease=now - 1), now)


def test_labels_that_cannot_be_read_are_let_be() -> None:
    assert not abandoned({LABEL: "slot"}, time.time())
    assert not abandoned({**labels_of(Owner.this_process()), f"{LABEL}.process": "x", f"{LABEL}.lease": "y"}, 1e12)


def test_reaping_removes_the_dead_and_what_this_process_gave_up() -> None:
    mine = Owner.this_process()
    dead = dataclasses.replace(mine, process=ended_process())
    other = dataclasses.replace(mine, process=1, started=owner_of_first())
    client = Listing(
        {
            "dead": labels_of(dead),
            "in-use": labels_of(mine),
            "given-up": labels_of(mine),
            "neighbours": labels_of(other),
            "unreadable": {LABEL: "slot"},
        }
    )
    assert reap(client, mine, {"in-use"}) == 2
    assert client.removed == ["dead", "given-up"]


def owner_of_first() -> int:
    return int(Path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
