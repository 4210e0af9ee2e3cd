"""What writes the completions of a run: its engine and its rollouts, as the settings have them."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..envs import TextVectorEnv
from .asynchronous import AsynchronousRollouts
from .engine_settings import EngineSettings
from .engines import Engine
from .engines.hf import HFEngine
from .engines.model_sizes import ModelSizes, sizes_of
from .engines.probe import probe
from .engines.server_setup import open_servers
from .engines.vllm import open_vllm
from .learner import Learner
from .logprobs import TokenLogprobs
from .models import LoadedModel, save_policy
from .ranks import Ranks
from .rollout import encode_prompt
from .rollouts import Player, Rollouts, SynchronousRollouts
from .settings import TrainConfig
from .sharding import gathered, saved_whole
from .shared_rollouts import SharedRollouts
from .task_queue import TaskQueue


def open_engine(
    settings: EngineSettings,
    loaded: LoadedModel,
    policy: TokenLogprobs,
    ranks: Ranks,
    folder: Path,
    version: int,
    say: Callable[[str], None],
    *,
    dtype: str,
    batch_size: int,
    autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    go_on: str = "go on with --resume",
) -> Engine:
    """The engine of this process; all processes of a run are to ask for theirs.

    Args:
        settings: of the engine.
        loaded: the model whose weights it begins with, and its tokenizer.
        policy: the module that may be sharded, which holds that model.
        ranks: the processes of the run.
        folder: where an engine of its own process gets the policy from, and keeps its log.
        version: of the policy.
        say: is told in a sentence what happens to servers.
        dtype: of the engine's copy of the weights where the settings leave it open.
        batch_size: how many prompts an engine without a queue takes at once.
        autocast: makes the context that the policy itself generates in.
        go_on: what the user can do, in the words of an order, once servers that were lost are back.

    Raises:
        UserError: if the engine cannot be had: vLLM is missing, or servers do not answer, for instance.
    """
    eos_ids, tokenizer = loaded.eos_ids, loaded.tokenizer
    if settings.kind == "hf":
        return HFEngine(loaded.model, eos_ids, tokenizer.pad_token_id, max_batch=batch_size, autocast=autocast)
    dtype = dtype if settings.dtype == "auto" else settings.dtype
    run = ranks.broadcast(secrets.token_hex(4))
    opened: list[Engine] = []

    def open_one(policy_folder: Path) -> None:
        if settings.kind == "vllm":
            opened.append(open_vllm(settings, policy_folder, len(tokenizer), eos_ids, dtype, version))
            return
        opened.append(
            open_servers(
                settings,
                lambda: policy_folder,
                folder,
                len(tokenizer),
                eos_ids,
                dtype,
                say,
                main=ranks.main,
                run=run,
                alone=ranks.alone,
                go_on=go_on,
                policy=ModelSizes(loaded.model.config.name_or_path or "", sizes_of(loaded.model.config)),
            )
        )

    # Servers that are there already have a policy, and get this one's weights as they get those of later steps.
    written = contextlib.nullcontext(folder) if settings.servers else _policy_folder(loaded, policy, ranks, folder)
    with written as policy_folder:
        ranks.together(lambda: open_one(policy_folder))
    return opened[0]


def check_engine(
    settings: EngineSettings,
    engine: Engine,
    policy: TokenLogprobs,
    envs: TextVectorEnv,
    tokenizer: Any,
    autocast: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> dict[str, float]:
    """See on the first few tasks that an engine with weights of its own generates with the policy's.

    Args:
        settings: of the engine.
        engine: has just been given the weights.
        policy: whose weights they are.
        envs: pose the tasks.
        tokenizer: of the policy.
        autocast: makes the context of the policy's forward passes.

    Returns:
        What `probe` found.

    Raises:
        UserError: if they differ by more than the settings allow.
    """
    count = min(settings.probe_prompts, len(envs.tasks))
    chats = envs.messages([envs.tasks[index].prompt for index in range(count)])
    prompts = [encode_prompt(tokenizer, chat) for chat in chats]
    return probe(
        engine,
        policy,
        prompts,
        tokenizer.pad_token_id,
        max_mean_diff=settings.max_logprob_diff,
        autocast=autocast,
    )


def needs_check(settings: EngineSettings) -> bool:
    """Whether an engine may differ from the policy; `hf` generates with the very tensors that are trained."""
    return settings.kind != "hf" and settings.probe_prompts > 0


def open_rollouts(
    config: TrainConfig,
    player: Player,
    learner: Learner,
    envs: TextVectorEnv,
    queue: TaskQueue,
    ranks: Ranks,
    say: Callable[[str], None],
) -> Rollouts:
    """The rollouts of a run: in turns with the updates, or ahead of them.

    Args:
        config: the run.
        player: plays groups on this process's engine.
        learner: the policy.
        envs: this process's environments.
        queue: gives the tasks.
        ranks: the processes of the run.
        say: is told in a sentence what goes wrong and is made good.
    """
    ahead = config.engine.async_steps
    if ahead == 0:
        return SynchronousRollouts(player, envs, queue, ranks, generating(player.engine, learner))
    played = AsynchronousRollouts(player, envs, queue, ahead, say) if ranks.main else None
    if played is not None and ranks.count == 1:
        return played
    return SharedRollouts(played, player.engine, queue, config.train.prompts_per_step, ranks)


def generating(engine: Engine, learner: Learner) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Makes the context to generate in: an engine that generates with the policy itself needs all of it."""
    return partial(gathered, learner.policy) if isinstance(engine, HFEngine) else contextlib.nullcontext


@contextlib.contextmanager
def _policy_folder(loaded: LoadedModel, policy: TokenLogprobs, ranks: Ranks, folder: Path) -> Iterator[Path]:
    """A folder with the policy, for as long as an engine reads it."""
    written = folder / ".policy"
    with saved_whole(policy):
        ranks.alone(lambda: save_policy(loaded.model, loaded.tokenizer, written))
    try:
        yield written
    finally:
        ranks.alone(lambda: shutil.rmtree(written, ignore_errors=True))
