"""Collecting a batch of trajectories: prompts out of the environment, completions back into it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jinja2 import TemplateError

from ..envs import TextVectorEnv
from ..verifiers import UserError
from ..verifiers.extraction import ThinkStyle, think_style_of
from .draft import Draft
from .engines import Engine, Sampling
from .next_message import check_keeps_turns
from .play import Play
from .trajectory import Trajectory

GRADED_TOGETHER = 16
"""At least so many completions are in a call of a function that grades many."""


def collect(
    envs: TextVectorEnv,
    engine: Engine,
    tokenizer: Any,
    eos_ids: Collection[int],
    tasks: Sequence[int],
    group_size: int,
    sampling: Sampling,
    seeds: Sequence[int],
) -> list[Trajectory]:
    """Play `group_size` episodes of each task: one group a task.

    Args:
        envs: see `episodes`.
        engine: see `episodes`.
        tokenizer: see `episodes`.
        eos_ids: see `episodes`.
        tasks: see `episodes`.
        group_size: see `episodes`.
        sampling: see `episodes`.
        seeds: see `episodes`.

    Returns:
        Trajectories in the order of `tasks`, the members of a group side by side.

    Raises:
        UserError: if the chat template cannot carry the conversation, or rewrites its earlier turns.
    """
    played = dict(episodes(envs, engine, tokenizer, eos_ids, tasks, group_size, sampling, seeds))
    return [played[row] for row in range(len(played))]


def episodes(
    envs: TextVectorEnv,
    engine: Engine,
    tokenizer: Any,
    eos_ids: Collection[int],
    tasks: Sequence[int],
    group_size: int,
    sampling: Sampling,
    seeds: Sequence[int],
) -> Iterator[tuple[int, Trajectory]]:
    """Play `group_size` episodes of each task, and give each, with its row, as soon as it is over.

    Where the environment has several turns, the next prompt of an episode is its ids so far and the tokens of the new
    message: nothing that was sampled is ever tokenised again. A completion that is cut off ends its episode, and so
    does a conversation that has grown until `max_tokens` more do not fit in the model.

    Completions are verified while others are still being generated, one by one; where a function of the rubric grades
    many in one call, whole groups at a time, and at least `GRADED_TOGETHER` completions.

    Args:
        envs: as many environments as there are episodes.
        engine: generates the completions.
        tokenizer: renders chat messages and decodes completions.
        eos_ids: an EOS at the end of a completion is not part of its text.
        tasks: the task index of each group.
        group_size: how many episodes a group has.
        sampling: how tokens are drawn; `max_tokens` bounds each completion.
        seeds: one an episode, for its first turn; those of the later turns are derived from it.

    Raises:
        UserError: if the chat template cannot carry the conversation, or rewrites its earlier turns.
    """
    observations, info = envs.reset(options={"task": [task for task in tasks for _ in range(group_size)]})
    task_ids = [str(task_id) for task_id in info["task_id"]]
    groups = [group for group in range(len(tasks)) for _ in range(group_size)]
    _assert_one_task_a_group(groups, task_ids, observations)

    chats = envs.messages(observations)
    think = think_style(tokenizer, chats[0]) if envs.think == "auto" else envs.think
    if envs.max_turns > 1:
        check_keeps_turns(tokenizer, chats[0], reasons=think != "none")
    drafts = [Draft(encode_prompt(tokenizer, chat), seed) for chat, seed in zip(chats, seeds, strict=True)]
    longest = _longest(engine, tokenizer) - sampling.max_tokens
    parties = _parties(len(drafts), group_size, envs.grades_together)
    for row in Play(envs, engine, tokenizer, eos_ids, sampling, think, longest, drafts, parties).run():
        yield (
            row,
            drafts[row].trajectory(
                task_id=task_ids[row],
                group=groups[row],
                prompt=observations[row],
                verdict=envs.verdict(row),
                conversation=envs.conversation(row),
            ),
        )


def _parties(rows: int, group_size: int, together: bool) -> list[range]:
    """The rows whose completions are sent to the environment at a time.

    Which they are never depends on how long something takes, so a function that grades many in one call finds the
    same ones in it whenever the rollout is repeated.
    """
    size = math.ceil(GRADED_TOGETHER / group_size) * group_size if together else 1
    return [range(start, min(start + size, rows)) for start in range(0, rows, size)]


def _longest(engine: Engine, tokenizer: Any) -> int:
    """How many tokens the model takes, prompt and completion together."""
    return int(tokenizer.model_max_length if engine.max_length is None else engine.max_length)


def think_style(tokenizer: Any, messages: list[dict[str, str]]) -> ThinkStyle:
    """How the model of a chat template marks its reasoning, read off the template and what it makes of a chat."""
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    style = think_style_of(rendered)
    # Of a model that thinks by itself, only the part of the template for past turns has the tags; a prompt that ends
    # with a closed block asks for no reasoning.
    if style == "none" and not rendered.rstrip().endswith("</think>"):
        return think_style_of(tokenizer.chat_template or "")
    return style


def encode_prompt(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """Token ids of a chat, up to where the model is to speak."""
    try:
        return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))
    except TemplateError as error:
        roles = " and ".join(message["role"] for message in messages)
        raise UserError(
            f"The chat template refuses a conversation of {roles} ({error}); set the environment's option system to "
            "null, or model.chat_template to a template that takes it."
        ) from None


def _assert_one_task_a_group(groups: list[int], task_ids: list[str], observations: Sequence[str]) -> None:
    first: dict[int, tuple[str, str]] = {}
    for group, task_id, observation in zip(groups, task_ids, observations, strict=True):
        expected = first.setdefault(group, (task_id, observation))
        if expected != (task_id, observation):
            raise AssertionError(
                f"group {group} was to hold one task but got {expected[0]!r} and {task_id!r}: "
                "the environment's reset does not give the task that its options name"
            )
