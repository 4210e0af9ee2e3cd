"""The engine of an evaluation: whatever kind it is, it generates with the weights of the model that is evaluated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ..envs import TextVectorEnv
from .engine_settings import EngineSettings
from .engines import Engine
from .generation import check_engine, needs_check, open_engine
from .logprobs import TokenLogprobs
from .models import LoadedModel
from .ranks import Ranks
from .weights import named_weights


@contextlib.contextmanager
def evaluation_engine(
    settings: EngineSettings,
    loaded: LoadedModel,
    envs: TextVectorEnv,
    folder: Path,
    say: Callable[[str], None],
    *,
    dtype: str,
    batch_size: int,
    temperature: float,
    go_on: str,
) -> Iterator[Engine]:
    """An engine with the weights of a model, for as long as it is evaluated.

    Also one that was started from a copy of the model, or has served another until now, is given the weights as in
    training, where it is compared what it then has; and its log-probs are compared with the model's own.

    Args:
        settings: of the engine.
        loaded: the model and its tokenizer.
        envs: pose the tasks, on the first few of which the log-probs are compared.
        folder: where an engine with weights of its own is handed them, and a server that is started keeps its log;
            removed if nothing is left in it.
        say: is told in a sentence what happens to servers, and how far engine and model are apart.
        dtype: of the engine's copy of the weights where the settings leave it open.
        batch_size: how many prompts an engine without a queue takes at once.
        temperature: of the samples.
        go_on: what the user can do, in the words of an order, once servers that were lost are back.

    Raises:
        UserError: if the engine cannot be had, or is not the model.
    """
    # Greedy samples have no log-probs to compare.
    policy = TokenLogprobs(loaded.model, temperature or 1.0)
    with _gone_if_empty(folder):
        engine = open_engine(
            settings,
            loaded,
            policy,
            Ranks(),
            folder,
            0,
            say,
            dtype=dtype,
            batch_size=batch_size,
            go_on=go_on,
        )
        with contextlib.closing(engine):
            engine.sync(named_weights(loaded.model), 0)
            if needs_check(settings):
                found = check_engine(settings, engine, policy, envs, loaded.tokenizer)
                apart = found["sampling/probe_logprob_diff_mean"]
                say(f"the engine's log-probs and the model's own differ by {apart:.2g} nats a token")
            yield engine


@contextlib.contextmanager
def _gone_if_empty(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
