"""Collecting a batch of trajectories: prompts out of the environment, completions back into it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from jinja2 import TemplateError

from ..envs import TextVectorEnv
from ..envs.episode import Written
from ..verifiers import UserError, Verdict
from ..verifiers.extraction import ThinkStyle, think_style_of
from .engines import Completion, Engine, Sampling
from .trajectory import Trajectory


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
        envs: as many environments as there are episodes.
        engine: generates the completions.
        tokenizer: renders chat messages and decodes completions.
        eos_ids: an EOS at the end of a completion is not part of its text.
        tasks: the task index of each group.
        group_size: how many episodes a group has.
        sampling: how tokens are drawn.
        seeds: one an episode.

    Returns:
        Trajectories in the order of `tasks`, the members of a group side by side.
    """
    observations, info = envs.reset(options={"task": [task for task in tasks for _ in range(group_size)]})
    task_ids = [str(task_id) for task_id in info["task_id"]]
    groups = [group for group in range(len(tasks)) for _ in range(group_size)]
    _assert_one_task_a_group(groups, task_ids, observations)

    chats = envs.messages(observations)
    prompts = [encode_prompt(tokenizer, messages) for messages in chats]
    completions = engine.generate(prompts, sampling, seeds)
    texts = [decode_completion(tokenizer, completion, eos_ids) for completion in completions]
    think = think_style(tokenizer, chats[0]) if envs.think == "auto" else envs.think
    _, rewards, _, _, _ = envs.step(
        [
            Written(text, completion_tokens=len(completion.ids), think=think)
            for text, completion in zip(texts, completions, strict=True)
        ]
    )
    verdicts = cast(list[Verdict], envs.verdicts)  # a step leaves none of them out

    return [
        Trajectory(
            task_id=task_ids[row],
            group=groups[row],
            prompt=observations[row],
            completion=texts[row],
            ids=[*prompts[row], *completion.ids],
            loss_mask=[*[0] * len(prompts[row]), *[1] * len(completion.ids)],
            sampler_logprobs=[*[0.0] * len(prompts[row]), *completion.logprobs],
            entropies=None if completion.entropies is None else [*[0.0] * len(prompts[row]), *completion.entropies],
            rewards=[float(rewards[row])],
            verdict=verdicts[row],
            finish_reason=completion.finish_reason,
        )
        for row, completion in enumerate(completions)
    ]


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


def decode_completion(tokenizer: Any, completion: Completion, eos_ids: Collection[int]) -> str:
    """The text that the verifiers see: all but the EOS, special tokens such as `<think>` included."""
    ids = completion.ids
    if completion.finish_reason == "stop" and ids and ids[-1] in eos_ids:
        ids = ids[:-1]
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _assert_one_task_a_group(groups: list[int], task_ids: list[str], observations: Sequence[str]) -> None:
    first: dict[int, tuple[str, str]] = {}
    for group, task_id, observation in zip(groups, task_ids, observations, strict=True):
        expected = first.setdefault(group, (task_id, observation))
        if expected != (task_id, observation):
            raise AssertionError(
                f"group {group} was to hold one task but got {expected[0]!r} and {task_id!r}: "
                "the environment's reset does not give the task that its options name"
            )
