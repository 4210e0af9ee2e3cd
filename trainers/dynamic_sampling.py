"""Dynamic sampling: other tasks are drawn for groups that have no spread and so would teach nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .advantages import has_spread
from .trajectory import Trajectory


@dataclass(frozen=True)
class Sampled:
    """What a step has to learn from, and what it took to get it.

    Attributes:
        kept: the trajectories of the groups to learn from.
        everything: all that were drawn, kept or not; the members of a group share its number.
        metrics: how many rollouts that were, and what was thrown away.
    """

    kept: list[Trajectory]
    everything: list[Trajectory]
    metrics: dict[str, float]


def sample_with_spread(
    draw: Callable[[int], list[Trajectory]],
    groups: int,
    most_rollouts: int,
    reward: Callable[[Trajectory], float],
) -> Sampled:
    """Draw rollouts until `groups` groups have two different rewards, or until the bound.

    Groups with spread beyond those that are needed are thrown away, the last drawn first. Where the bound comes
    first, groups without spread take the places that are left, so that a batch and its denominators keep their size.

    Source: DAPO, Yu et al. 2025, section 3.2.

    Args:
        draw: collects rollout 0, 1, ...; of `groups` groups each, numbered from 0.
        groups: how many groups a step learns from.
        most_rollouts: the bound.
        reward: what a trajectory counts for; NaN if nothing can be said.

    Returns:
        The trajectories with groups numbered over all rollouts, in the order in which they were drawn.
    """
    drawn: list[list[Trajectory]] = []
    varied: list[int] = []
    rollouts = 0
    while rollouts < most_rollouts and len(varied) < groups:
        drawn += _by_group(draw(rollouts), first=len(drawn))
        rollouts += 1
        varied = [number for number, members in enumerate(drawn) if has_spread(map(reward, members))]
    flat = [number for number in range(len(drawn)) if number not in set(varied)]
    chosen = sorted([*varied[:groups], *flat[: max(0, groups - len(varied))]])
    return Sampled(
        kept=[trajectory for number in chosen for trajectory in drawn[number]],
        everything=[trajectory for members in drawn for trajectory in members],
        metrics={
            "dynamic_sampling/rollouts": float(rollouts),
            "dynamic_sampling/groups_thrown_away": float(len(drawn) - len(chosen)),
            "dynamic_sampling/completions_thrown_away": float(
                sum(len(members) for number, members in enumerate(drawn) if number not in set(chosen))
            ),
            "dynamic_sampling/groups_without_spread": float(max(0, groups - len(varied))),
        },
    )


def _by_group(trajectories: list[Trajectory], first: int) -> list[list[Trajectory]]:
    groups: dict[int, list[Trajectory]] = {}
    for trajectory in trajectories:
        members = groups.setdefault(trajectory.group, [])
        members.append(replace(trajectory, group=first + list(groups).index(trajectory.group)))
    return list(groups.values())
