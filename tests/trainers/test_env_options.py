from __future__ import annotations

from typing import Any

import pytest

from rlvr.trainers.env_options import env_options
from rlvr.trainers.settings import TrainConfig
from rlvr.verifiers import UserError

CODE = {"id": "rlvr/ListOps-v0", "options": {"level": 1}}


def config(**sections: Any) -> TrainConfig:
    return TrainConfig.model_validate({"model": {"name": "somewhere"}, "env": CODE, **sections})


def test_an_environment_that_runs_programs_gets_the_section_sandbox() -> None:
    sandbox = {"backend": "docker", "image": "mine:1", "runtime": "runsc", "allow_unsafe": True}
    run = config(sandbox={**sandbox, "limits": {"cpu_seconds": 1.0}})
    assert env_options(run, run.env) == {"level": 1, **sandbox, "limits": {"cpu_seconds": 1.0}}
    assert env_options(run, run.eval_env) == {**env_options(run, run.env), "split": "eval"}


def test_what_the_section_leaves_as_it_is_is_not_said() -> None:
    run = config(sandbox={"backend": "auto", "allow_unsafe": False})
    assert env_options(run, run.env) == {"level": 1}


def test_another_environment_of_the_run_does_without() -> None:
    run = config(sandbox={"image": "mine:1"}, eval={"env": {"id": "rlvr/Arithmetic-v0", "options": {"level": 2}}})
    assert env_options(run, run.eval_env) == {"level": 2}


def test_a_section_that_nothing_uses_is_a_mistake() -> None:
    run = config(sandbox={"image": "mine:1"}, env={"id": "rlvr/Arithmetic-v0"})
    with pytest.raises(UserError, match=r"section sandbox, but rlvr/Arithmetic-v0 has no such options \(image\)"):
        env_options(run, run.env)


def test_an_option_that_is_given_twice_is_a_mistake() -> None:
    run = config(sandbox={"image": "mine:1"}, env={**CODE, "options": {"image": "mine:2"}})
    with pytest.raises(UserError, match=r"sandbox\.image and env\.options\.image are both given"):
        env_options(run, run.env)


def test_a_limit_that_is_unknown_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="runtimes"):
        config(sandbox={"runtimes": "runsc"})
