"""Collecting a batch of trajectories: prompts out of the environment, completions back into it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from jinja2 import TemplateError

from ..envs import TextVectorEnv
from ..envs.episode import Written
from ..verifiers import UserError, Verdict
from ..verifiers.extraction import ThinkStyle, think_style_of
from .draft import Draft
from .engines import Completion, Engine, Sampling
from .next_message import check_keeps_turns, message_ids, warn_if_rewritten
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

    Where the environment has several turns, completions are generated round by round, for the episodes that are not
    over yet. The next prompt of an episode is its ids so far and the tokens of the new message: nothing that was
    sampled is ever tokenised again. A completion that is cut off ends its episode, and so does a conversation that
    has grown until `max_tokens` more do not fit in the model.

    Args:
        envs: as many environments as there are episodes.
        engine: generates the completions.
        tokenizer: renders chat messages and decodes completions.
        eos_ids: an EOS at the end of a completion is not part of its text.
        tasks: the task index of each group.
        group_size: how many episodes a group has.
        sampling: how tokens are drawn; `max_tokens` bounds each completion.
        seeds: one an episode, for its first turn; those of the later turns are derived from it.

    Returns:
        Trajectories in the order of `tasks`, the members of a group side by side.

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
    unfinished = list(range(len(drafts)))
    while unfinished:
        completions = _generate(engine, [drafts[row] for row in unfinished], sampling)
        said: list[str | None] = [None] * len(drafts)
        for row, completion in zip(unfinished, completions, strict=True):
            text = decode_completion(tokenizer, completion, eos_ids)
            drafts[row].write(completion, text)
            cut_off = completion.finish_reason == "length"
            said[row] = Written(text, last=cut_off, completion_tokens=len(completion.ids), think=think)
        before = envs.conversations
        messages, rewards, terminated, truncated, _ = envs.step(said)
        for row in unfinished:
            drafts[row].end_turn(float(rewards[row]), bool(truncated[row]))
        unfinished = [row for row in unfinished if not (terminated[row] or truncated[row])]
        for row in unfinished:
            warn_if_rewritten(tokenizer, envs.conversations[row])
            ids = message_ids(tokenizer, before[row], messages[row], drafts[row].completion.ids, eos_ids)
            drafts[row].hear(ids, longest)

    verdicts = cast(list[Verdict], envs.verdicts)  # the last step leaves none of them out
    conversations = envs.conversations
    return [
        draft.trajectory(
            task_id=task_ids[row],
            group=groups[row],
            prompt=observations[row],
            verdict=verdicts[row],
            conversation=conversations[row],
        )
        for row, draft in enumerate(drafts)
    ]


def _generate(engine: Engine, drafts: Sequence[Draft], sampling: Sampling) -> list[Completion]:
    """The next completion of each draft; of one that has no room left, the empty one."""
    roomy = [draft for draft in drafts if draft.has_room]
    prompts, seeds = [list(draft.ids) for draft in roomy], [draft.turn_seed for draft in roomy]
    written = iter(engine.generate(prompts, sampling, seeds) if roomy else [])
    return [next(written) if draft.has_room else Completion([], [], [], "length") for draft in drafts]


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
