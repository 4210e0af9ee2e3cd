"""From the settings of a run to its engine on servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ...verifiers import UserError
from ..engine_settings import EngineSettings
from .model_sizes import ModelSizes
from .server import FollowingServerEngine, ServerEngine
from .server_pool import Server
from .server_process import ServerOptions, ServerProcess, start_server
from .server_weights import WeightTransfer, transfer_for

_OF_ITS_OWN = ("gpu_memory_utilization", "max_model_len", "tensor_parallel_size", "enforce_eager")


def open_servers(
    settings: EngineSettings,
    folder: Callable[[], Path],
    run_dir: Path,
    vocabulary: int,
    eos_ids: Collection[int],
    dtype: str,
    say: Callable[[str], None],
    *,
    main: bool = True,
    run: str | None = None,
    alone: Callable[[Callable[[], str]], str] = lambda start: start(),
    go_on: str = "go on with --resume",
    policy: ModelSizes | None = None,
) -> ServerEngine:
    """The engine `vllm-server`; one server is started for it where `settings` name none.

    Args:
        settings: of the engine.
        folder: makes the folder of the policy in Hugging Face format that a server is started with.
        run_dir: of the run; holds the log of that server, and the weights on their way to servers.
        vocabulary: how many tokens the tokenizer has.
        eos_ids: every id that ends a completion.
        dtype: of the weights of a server that is started here.
        say: is told in a sentence what happens to servers.
        main: whether this process is the one of the run that brings servers the weights.
        run: a name that the engines of all processes of the run share; of its own if None.
        alone: has the main process alone do something, and gives all processes what it returns, or makes them fail
            where it does.
        go_on: what the user can do, in the words of an order, once servers that were lost are back.
        policy: what servers that were not started here must have a model of the size of; None: whatever they have.

    Raises:
        UserError: if a server does not come up or does not answer, or was started without what training needs,
            with another precision than the settings ask for, or with another model than the policy's.
    """
    if main and settings.servers:
        _say_what_is_not_followed(settings, say)

    def transfer(servers: Sequence[Server]) -> WeightTransfer:
        _check_dtype(settings, servers)
        return transfer_for(settings.weights, servers, run_dir / "weights", settings.request_timeout)

    owned: list[ServerProcess] = []

    def start() -> str:
        options = ServerOptions(
            str(folder()),
            dtype=dtype,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            max_model_len=settings.max_model_len,
            tensor_parallel_size=settings.tensor_parallel_size,
            enforce_eager=settings.enforce_eager,
        )
        owned.append(start_server(options, run_dir / "vllm-server.log", say))
        return owned[0].url

    urls = settings.servers or (alone(start),)
    own = owned[0] if owned else None
    try:
        return (ServerEngine if main else FollowingServerEngine)(
            urls,
            eos_ids,
            vocabulary,
            transfer,
            routing=settings.routing,
            request_timeout=settings.request_timeout,
            say=say,
            own=own,
            run=run,
            go_on=go_on,
            policy=policy if settings.servers else None,
        )
    except BaseException:
        if own is not None:
            own.close()
        raise


def _say_what_is_not_followed(settings: EngineSettings, say: Callable[[str], None]) -> None:
    """Of settings for a server that a run starts, where it starts none."""
    fields = EngineSettings.model_fields
    names = [f"engine.{name}" for name in _OF_ITS_OWN if getattr(settings, name) != fields[name].default]
    if names:
        are = "is" if len(names) == 1 else "are"
        say(
            f"warning: {' and '.join(names)} {are} for a server that the run starts itself; those of engine.servers "
            "are as they were started"
        )


def _check_dtype(settings: EngineSettings, servers: Sequence[Server]) -> None:
    for server in servers:
        if settings.servers and settings.dtype not in ("auto", server.facts.dtype):
            raise UserError(
                f"engine.dtype is {settings.dtype!r} but the server {server.url} keeps its weights in "
                f"{server.facts.dtype}; start it by `rlvr serve` with --dtype {settings.dtype}, or set engine.dtype: "
                "auto."
            )
