"""How servers get the policy's weights: from a folder of safetensors that they reload from."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...verifiers import UserError
from .server_client import Unanswered
from .server_loop import BackgroundLoop
from .server_pool import Server

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_SHARD = 2 * 2**30  # bytes; what is gathered from several devices is never in memory as a whole


class WeightTransfer(ABC):
    """Brings weights to servers.

    Attributes:
        can_repeat: whether a server that comes back later can still be given the latest weights.
    """

    can_repeat: bool

    @abstractmethod
    def prepare(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take the weights; servers go on generating meanwhile."""

    @abstractmethod
    def send(self, servers: Sequence[Server], loop: BackgroundLoop) -> dict[Server, Unanswered]:
        """Give them to servers that generate nothing now; those that failed, with their reasons."""

    @abstractmethod
    async def repeat(self, server: Server) -> None:
        """Give the latest weights to one server more, where `can_repeat`.

        Raises:
            Unanswered: if it does not take them.
        """

    def finish(self) -> None:  # noqa: B027
        """All servers have the weights."""

    def close(self) -> None:  # noqa: B027
        """Leave nothing behind."""


def transfer_for(
    kind: Literal["auto", "nccl", "folder"], servers: Sequence[Server], folder: Path, timeout: float
) -> WeightTransfer:
    """What brings the weights to these servers.

    Args:
        kind: `nccl`, `folder`, or `auto`: NCCL where there is a GPU here and the servers were started for it.
        servers: all of them.
        folder: for the folders of `FolderWeights`.
        timeout: seconds that a server may take to load them.

    Raises:
        UserError: for NCCL with servers that were not started for it.
    """
    import torch

    without = [server.url for server in servers if server.facts.transfer != "nccl"]
    dtype = max((server.facts.dtype for server in servers), key=lambda name: getattr(torch, name).itemsize)
    if kind == "nccl" and without:
        raise UserError(
            f"engine.weights is 'nccl' but the server {without[0]} takes none that way; start it by `rlvr serve` where "
            "there is a GPU, or set engine.weights: folder."
        )
    if kind == "nccl" or (kind == "auto" and not without and torch.cuda.is_available()):
        from .server_nccl import NCCLWeights

        return NCCLWeights(dtype, timeout)
    return FolderWeights(folder, dtype, timeout)


class FolderWeights(WeightTransfer):
    """Writes `version-NNNNNN/` folders of safetensors, the latest of which is kept.

    Args:
        folder: of these folders; the servers see it under the same name.
        dtype: of the servers' weights, by torch's name: wider tensors are narrowed before they are written, as the
            servers would do.
        timeout: seconds that a server may take to load them.
    """

    can_repeat = True

    def __init__(self, folder: Path, dtype: str, timeout: float) -> None:
        self._folder = folder.absolute()
        self._dtype = dtype
        self._timeout = timeout
        self._prepared: Path | None = None
        self._latest: Path | None = None

    def prepare(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `WeightTransfer.prepare`; written beside and renamed."""
        import torch
        from safetensors.torch import save_file

        final = self._folder / f"version-{version:06d}"
        partial = final.with_name(f".{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for number, shard in enumerate(shards(weights, getattr(torch, self._dtype), device="cpu"), start=1):
            save_file(shard, partial / f"model-{number:05d}.safetensors")
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        self._prepared = final

    def send(self, servers: Sequence[Server], loop: BackgroundLoop) -> dict[Server, Unanswered]:
        """See `WeightTransfer.send`."""
        self._latest = self._prepared

        async def load() -> list[BaseException | None]:
            return await asyncio.gather(*map(self.repeat, servers), return_exceptions=True)

        failures: dict[Server, Unanswered] = {}
        for server, failure in zip(servers, loop.run(load()), strict=True):
            if isinstance(failure, Unanswered):
                failures[server] = failure
            elif failure is not None:
                raise failure
        return failures

    async def repeat(self, server: Server) -> None:
        """See `WeightTransfer.repeat`."""
        assert self._latest is not None
        await server.client.load_folder(str(self._latest), self._timeout, server.facts.checks)

    def finish(self) -> None:
        """Remove the folders of earlier versions."""
        for old in self._folder.glob("*version-*"):
            if old != self._latest:
                shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Remove the folders, and the one around them if nothing else is in it."""
        self._latest = None
        self.finish()
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def shards(
    weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype, device: str | None
) -> Iterator[dict[str, Tensor]]:
    """The weights, some gigabytes at a time.

    Args:
        weights: (name, tensor) pairs.
        dtype: what wider tensors are narrowed to.
        device: where to bring them; None leaves them where they are.
    """
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in weights:
        held = tensor.detach()
        if held.is_floating_point() and held.element_size() > dtype.itemsize:
            held = held.to(dtype)
        held = (held if device is None else held.to(device)).contiguous()
        if shard and size + held.nbytes > _SHARD:
            yield shard
            shard, size = {}, 0
        shard[name] = held
        size += held.nbytes
    if shard:
        yield shard
