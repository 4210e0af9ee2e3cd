"""What writes the completions of a run: its engine and its rollouts, as the settings have them."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from accelerate import Accelerator

from ..envs import TextVectorEnv
from .asynchronous import AsynchronousRollouts
from .engines import Engine
from .engines.hf import HFEngine
from .engines.server_setup import open_servers
from .engines.vllm import open_vllm
from .learner import Learner
from .models import save_policy
from .ranks import Ranks
from .rollouts import Player, Rollouts, SynchronousRollouts
from .settings import TrainConfig
from .sharding import gathered, saved_whole
from .shared_rollouts import SharedRollouts
from .task_queue import TaskQueue


def open_engine(
    config: TrainConfig,
    learner: Learner,
    accelerator: Accelerator,
    ranks: Ranks,
    run_dir: Path,
    version: int,
    say: Callable[[str], None],
) -> Engine:
    """The engine of this process; all processes of a run are to ask for theirs.

    Args:
        config: the run.
        learner: the policy, whose weights the engine begins with.
        accelerator: its devices.
        ranks: its processes.
        run_dir: where an engine of its own process gets the policy from, and keeps its log.
        version: of the policy.
        say: is told in a sentence what happens to servers.

    Raises:
        UserError: if the engine cannot be had: vLLM is missing, or servers do not answer, for instance.
    """
    settings, eos_ids, tokenizer = config.engine, learner.loaded.eos_ids, learner.loaded.tokenizer
    if settings.kind == "hf":
        return HFEngine(
            learner.loaded.model,
            eos_ids,
            tokenizer.pad_token_id,
            max_batch=config.train.generation_batch_size,
            autocast=accelerator.autocast,
        )
    precision = "bfloat16" if config.train.precision == "bf16" else config.model.dtype
    dtype = precision if settings.dtype == "auto" else settings.dtype
    run = ranks.broadcast(secrets.token_hex(4))
    opened: list[Engine] = []

    def open_one(folder: Path) -> None:
        if settings.kind == "vllm":
            opened.append(open_vllm(settings, folder, len(tokenizer), eos_ids, dtype, version))
            return
        opened.append(
            open_servers(
                settings,
                lambda: folder,
                run_dir,
                len(tokenizer),
                eos_ids,
                dtype,
                say,
                main=ranks.main,
                run=run,
                alone=ranks.alone,
            )
        )

    # Servers that are there already have a policy, and get this one's weights as they get those of later steps.
    with contextlib.nullcontext(run_dir) if settings.servers else _policy_folder(learner, ranks, run_dir) as folder:
        ranks.together(lambda: open_one(folder))
    return opened[0]


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
def _policy_folder(learner: Learner, ranks: Ranks, run_dir: Path) -> Iterator[Path]:
    """A folder with the policy, for as long as an engine reads it."""
    folder = run_dir / ".policy"
    with saved_whole(learner.policy):
        ranks.alone(lambda: save_policy(learner.loaded.model, learner.loaded.tokenizer, folder))
    try:
        yield folder
    finally:
        ranks.alone(lambda: shutil.rmtree(folder, ignore_errors=True))
