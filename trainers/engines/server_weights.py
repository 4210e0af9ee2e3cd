"""How servers get the policy's weights: from a folder of safetensors that they reload from."""

from __future__ import annotations

import asyncio
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
        self._latest: Path | None = None
        self._is_ours = not self._folder.exists()

    def prepare(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `WeightTransfer.prepare`; written beside and renamed."""
        import torch
        from safetensors.torch import save_file

        final = self._folder / f"version-{version:06d}"
        partial = final.with_name(f".{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for number, shard in enumerate(_shards(weights, getattr(torch, self._dtype)), start=1):
            save_file(shard, partial / f"model-{number:05d}.safetensors")
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        self._latest = final

    def send(self, servers: Sequence[Server], loop: BackgroundLoop) -> dict[Server, Unanswered]:
        """See `WeightTransfer.send`."""

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
        await server.client.load_folder(str(self._latest), self._timeout)

    def finish(self) -> None:
        """Remove the folders of earlier versions."""
        for old in self._folder.glob("*version-*"):
            if old != self._latest:
                shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Remove the folders, and the one around them if it was made for them."""
        self._latest = None
        self.finish()
        if self._is_ours:
            shutil.rmtree(self._folder, ignore_errors=True)


def _shards(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> Iterator[dict[str, Tensor]]:
    """The weights on the CPU, some gigabytes at a time."""
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in weights:
        held = tensor.detach()
        if held.is_floating_point() and held.element_size() > dtype.itemsize:
            held = held.to(dtype)
        held = held.cpu().contiguous()
        if shard and size + held.nbytes > _SHARD:
            yield shard
            shard, size = {}, 0
        shard[name] = held
        size += held.nbytes
    if shard:
        yield shard
