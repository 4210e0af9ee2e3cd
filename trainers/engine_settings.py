"""Which engine writes the completions of a run, and how it is looked after. No torch in here."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_OF_VLLM = ("dtype", "gpu_memory_utilization", "max_model_len", "tensor_parallel_size", "enforce_eager")
_OF_SERVERS = ("servers", "routing", "weights", "request_timeout", "async_steps")


class EngineSettings(BaseModel):
    """The engine: `hf` generates with the policy itself, `vllm` in the same process, `vllm-server` over HTTP."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind: Literal["hf", "vllm", "vllm-server"] = "hf"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="of the engine's copy of the weights; auto is the precision that the run trains in"
    )
    gpu_memory_utilization: float = Field(0.4, gt=0, le=1, description="share of the device's memory that is vLLM's")
    max_model_len: int | None = Field(None, ge=1, description="prompt and completion together; the model's if null")
    tensor_parallel_size: int = Field(1, ge=1, description="devices that one copy of the weights is spread over")
    enforce_eager: bool | None = Field(None, description="no CUDA graphs; null: where there is no GPU")
    sleep: bool = Field(True, description="a colocated engine frees its memory on the device during updates")
    servers: tuple[str, ...] = Field((), description="addresses such as http://127.0.0.1:8000; none: start one")
    routing: Literal["least_busy", "round_robin"] = Field("least_busy", description="which server a request goes to")
    weights: Literal["auto", "nccl", "folder"] = Field(
        "auto", description="how servers get the weights: over NCCL, or from a folder; auto: NCCL where there is a GPU"
    )
    request_timeout: float = Field(
        600.0, gt=0, description="seconds, besides those in a server's queue, until a request is lost and made again"
    )
    async_steps: int = Field(0, ge=0, description="how many versions of the policy rollouts may run ahead; 0: none")
    probe_prompts: int = Field(4, ge=0, description="prompts on which engine and policy are compared; 0: no probe")
    max_logprob_diff: float = Field(
        0.5, gt=0, description="nats a token that they may differ by on average in the probe; beyond it the run stops"
    )

    @field_validator("servers")
    @classmethod
    def _servers_are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        for url in servers:
            if not _is_address(url):
                raise ValueError(f"the server {url!r} is no address; write it as in http://127.0.0.1:8000.")
        plain = [url.rstrip("/") for url in servers]
        for url in plain:
            if plain.count(url) > 1:
                raise ValueError(f"the server {url} is named more than once; name each once.")
        return servers

    @model_validator(mode="after")
    def _settings_fit_the_kind(self) -> EngineSettings:
        strange: tuple[str, ...] = ()
        if self.kind == "hf":
            strange = (*_OF_VLLM, *_OF_SERVERS)
        elif self.kind == "vllm":
            strange = _OF_SERVERS
        for name in strange:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                kinds = "vllm or vllm-server" if name in _OF_VLLM else "vllm-server"
                raise ValueError(
                    f"engine.{name} is {value!r} but engine.kind {self.kind!r} has no such setting; set engine.kind to "
                    f"{kinds}, or leave {name} out."
                )
        return self


def _is_address(url: str) -> bool:
    """Whether it is one of a server, without a path."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0  # reading it checks it
    except ValueError:
        return False
    return whole and not (parts.path.strip("/") or parts.query or parts.fragment)
