"""The supervised warm start that turns an untrained tiny policy into a base model worth training.

The demonstrations think and answer in the right form. The first ones are careful and teach how to calculate; the
later ones are mostly careless guesses, so that the base model can be right but, as sampled, often is not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ..envs import calculator, guess_number
from ..envs.arithmetic import draw, shape_of
from ..envs.expressions import render
from ..envs.list_ops import demonstrated
from ..envs.worked import careful_solution, careless_solution
from .models import save_policy
from .tiny import build_tiny

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

OnStep = Callable[[int, float], None]

# Part of the cache key: raise it when the tiny model, its tokenizer, the demonstrations or the loop change.
FORMAT = 1

_WARM_UP = 0.1
_BETAS = (0.9, 0.98)
_IGNORED = -100


class WarmStart(BaseModel):
    """How the tiny base model comes about; equal settings share one cached model."""

    model_config = ConfigDict(extra="forbid")

    family: Literal["arithmetic", "list_ops", "guess_number", "calculator"] = Field(
        "arithmetic", description="what is demonstrated"
    )
    level: int = Field(2, ge=1, le=5, description="level of the demonstrated tasks")
    examples: int = Field(4, ge=1, le=100, description="examples in a prompt of list_ops")
    operators: str | list[str] | None = None
    max_operand: int | None = None
    terms: int | tuple[int, int] | None = None
    template: str = Field("{expression}=", description="the prompt, as the environment asks it")
    span: int = Field(12, ge=2, description="how many numbers a range of guess_number has")
    lowest: int = Field(1, ge=0, description="the smallest number of guess_number")
    highest: int = Field(99, ge=1, description="the largest number of guess_number")
    max_turns: int = Field(4, ge=1, description="the most guesses of guess_number")
    system: str | None = Field(None, description="the system message, as the environment sets it")
    careless: float = Field(0.6, ge=0, le=1, description="share of guesses among the uneven demonstrations")
    uneven: float = Field(0.25, ge=0, le=1, description="share of demonstrations, the last ones, of uneven quality")
    steps: int = Field(400, ge=1)
    batch_size: int = Field(64, ge=1)
    lr: float = Field(3e-3, gt=0)
    seed: int = Field(0, ge=0)


class Demonstration(NamedTuple):
    """One supervised example: the chat messages that are asked, and the completion to learn."""

    messages: list[dict[str, str]]
    completion: str


def demonstrations(settings: WarmStart, count: int) -> list[Demonstration]:
    """Worked solutions of training problems: first careful ones, then a mixture of careful and careless ones."""
    if settings.family == "list_ops":
        return _list_functions(settings, count)
    if settings.family in ("guess_number", "calculator"):
        return _conversations(settings, count)
    shape = shape_of(settings.level, settings.operators, settings.max_operand, settings.terms)
    rng = np.random.default_rng(settings.seed)
    opening = [] if settings.system is None else [{"role": "system", "content": settings.system}]
    careful = count - round(settings.uneven * count)
    made = []
    for index in range(count):
        expression = draw(shape, "train", rng)
        prompt = settings.template.replace("{expression}", render(expression))
        guess = index >= careful and rng.random() < settings.careless
        solution = careless_solution(expression, rng) if guess else careful_solution(expression)
        made.append(Demonstration([*opening, {"role": "user", "content": prompt}], solution))
    return made


def _list_functions(settings: WarmStart, count: int) -> list[Demonstration]:
    rng = np.random.default_rng(settings.seed)
    opening = [] if settings.system is None else [{"role": "system", "content": settings.system}]
    careful = count - round(settings.uneven * count)
    made = []
    for index in range(count):
        guess = index >= careful and rng.random() < settings.careless
        prompt, solution = demonstrated(settings.level, rng, settings.template, settings.examples, guess)
        made.append(Demonstration([*opening, {"role": "user", "content": prompt}], solution))
    return made


def _conversations(settings: WarmStart, count: int) -> list[Demonstration]:
    """Each completion of whole conversations, with all that was said before it."""
    rng = np.random.default_rng(settings.seed)
    opening = [] if settings.system is None else [{"role": "system", "content": settings.system}]
    careful = count - round(settings.uneven * count)
    made: list[Demonstration] = []
    while len(made) < count:
        careless = len(made) >= careful and bool(rng.random() < settings.careless)
        if settings.family == "guess_number":
            game = guess_number.draw(settings.lowest, settings.highest, settings.span, "train", rng)
            played = guess_number.demonstrated(game, settings.template, careless, settings.max_turns)
        else:
            shape = (settings.operators, settings.max_operand, settings.terms)
            played = calculator.demonstrated(settings.level, rng, settings.template, careless, *shape)
        made += [Demonstration([*opening, *messages], completion) for messages, completion in played]
    return made[:count]


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    demonstrations: Sequence[Demonstration],
    *,
    steps: int,
    batch_size: int,
    lr: float,
    on_step: OnStep | None = None,
) -> None:
    """Fit the model to the completions (end-of-sequence token included), in place.

    AdamW with a linear warm-up over the first tenth of the steps and a cosine decay to zero; gradients are
    clipped to norm 1. Demonstrations are used in the order given, and again from the start when they run out.

    Args:
        model: a causal language model.
        tokenizer: its tokenizer, with a chat template and an end-of-sequence token.
        demonstrations: what to learn; not empty.
        steps: optimizer steps.
        batch_size: demonstrations a step.
        lr: the learning rate at the end of the warm-up.
        on_step: called after each step with its number, from 1, and its loss in nats a token.
    """
    import torch

    rows = _tokenize(tokenizer, demonstrations)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=_BETAS)
    model.train()
    for step in range(1, steps + 1):
        first = (step - 1) * batch_size
        batch = [rows[i % len(rows)] for i in range(first, first + batch_size)]
        for group in optimizer.param_groups:
            group["lr"] = lr * _schedule(step, steps)
        loss = _loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if on_step is not None:
            on_step(step, loss.item())
    model.eval()


def _tokenize(
    tokenizer: PreTrainedTokenizerFast, demonstrations: Sequence[Demonstration]
) -> list[tuple[list[int], list[int]]]:
    conversations = [demonstration.messages for demonstration in demonstrations]
    prompts = tokenizer.apply_chat_template(conversations, tokenize=False, add_generation_prompt=True)
    completions = [demonstration.completion for demonstration in demonstrations]
    prompt_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    completion_ids = tokenizer(completions, add_special_tokens=False)["input_ids"]
    return [(ids, [*rest, tokenizer.eos_token_id]) for ids, rest in zip(prompt_ids, completion_ids, strict=True)]


def _schedule(step: int, steps: int) -> float:
    warm_up = max(1, round(_WARM_UP * steps))
    if step <= warm_up:
        return step / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def _loss(model: PreTrainedModel, rows: list[tuple[list[int], list[int]]]) -> torch.Tensor:
    import torch

    longest = max(len(prompt) + len(completion) for prompt, completion in rows)
    # Padding stands on the right, where a causal model cannot see it from any token that counts.
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    targets = torch.full((len(rows), longest), _IGNORED)
    for row, (prompt, completion) in enumerate(rows):
        both = torch.tensor(prompt + completion)
        ids[row, : len(both)] = both
        targets[row, len(prompt) : len(both)] = both[len(prompt) :]
    ids, targets = ids.to(model.device), targets.to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), targets[:, 1:].flatten(), ignore_index=_IGNORED
    )


def cache_root() -> Path:
    """The folder for what can be made again: `$RLVR_CACHE`, or `~/.cache/rlvr`."""
    named = os.environ.get("RLVR_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "rlvr"


def tiny_base(settings: WarmStart, cache: Path | None = None, on_step: OnStep | None = None) -> Path:
    """The folder of the warm-started tiny model in Hugging Face format, made on first use.

    The folder's name is a hash of all settings, and it appears complete or not at all, so an interrupted
    run or two runs at once leave nothing half made.

    Args:
        settings: how to make it.
        cache: the folder to keep it in; None means `cache_root()`.
        on_step: told of the progress, as in `warm_start`; not called when the model is there already.
    """
    root = cache_root() if cache is None else cache
    folder = root / f"tiny-{_key(settings)}"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=root))
    try:
        _make(settings, partial, on_step)
        _publish(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _key(settings: WarmStart) -> str:
    content: dict[str, Any] = {"format": FORMAT, **settings.model_dump(mode="json")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _make(settings: WarmStart, folder: Path, on_step: OnStep | None) -> None:
    model, tokenizer = build_tiny(settings.seed)
    warm_start(
        model,
        tokenizer,
        demonstrations(settings, settings.steps * settings.batch_size),
        steps=settings.steps,
        batch_size=settings.batch_size,
        lr=settings.lr,
        on_step=on_step,
    )
    save_policy(model, tokenizer, folder)


def _publish(partial: Path, folder: Path) -> None:
    # mkdtemp makes folders that only their owner may enter, but a cache may be shared.
    partial.chmod(0o755)
    try:
        partial.rename(folder)
    except OSError:
        # Another run made the same model meanwhile; equal settings make equal models.
        if not folder.is_dir():
            raise
