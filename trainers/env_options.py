"""What the environments of a run are made with."""

from __future__ import annotations

from typing import Any

from ..envs.registry import registration_of
from ..verifiers import UserError
from .settings import EnvSettings, TrainConfig


def env_options(config: TrainConfig, env: EnvSettings) -> dict[str, Any]:
    """The options of one of a run's environments: its own, and those of the section `sandbox` if it runs programs.

    Raises:
        UserError: both say the same thing, no environment of the run knows the section's, or one is not registered.
    """
    given = config.sandbox.options
    for name in given:
        if name in env.options:
            raise UserError(f"sandbox.{name} and env.options.{name} are both given; take one of them out.")
    if _takes(env, given):
        return {**env.arguments, **given}
    if given and not any(_takes(other, given) for other in (config.env, config.eval_env)):
        raise UserError(
            f"The configuration has a section sandbox, but {env.id} has no such options ({', '.join(given)}); remove "
            "that section, or name an environment that runs programs, such as rlvr/Code-v0."
        )
    return env.arguments


def _takes(env: EnvSettings, given: dict[str, Any]) -> bool:
    return not given.keys().isdisjoint(registration_of(env.id).options)
