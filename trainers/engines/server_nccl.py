"""How servers get the policy's weights from the trainer's own device: broadcast over NCCL.

Written after vLLM 0.32's `NCCLTrainerWeightTransferEngine`; it has not been run on a GPU yet.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...verifiers import UserError
from .server_client import Unanswered
from .server_loop import BackgroundLoop
from .server_pool import Server
from .server_weights import WeightTransfer, shards

if TYPE_CHECKING:
    from torch import Tensor

_POLL = 0.01


class NCCLWeights(WeightTransfer):
    """Broadcasts weights to each server over a group of its own, so that the loss of one leaves the others' alone.

    The weights go by in pieces of some gigabytes, each once for all servers. A server that comes back gets them with
    the next version.

    Args:
        dtype: of the servers' weights, by torch's name; wider tensors are narrowed before they are sent.
        timeout: seconds that a server may take to join, and to load a piece.
    """

    can_repeat = False

    def __init__(self, dtype: str, timeout: float) -> None:
        try:
            import vllm.distributed.weight_transfer.nccl_common as nccl
        except ImportError:
            raise UserError(
                "Weights over NCCL need vllm in the trainer's environment too; pip install 'rlvr[vllm]', or set "
                "engine.weights: folder."
            ) from None
        self._nccl = nccl
        self._dtype = dtype
        self._timeout = timeout
        self._groups: dict[Server, Any] = {}
        self._weights: Iterable[tuple[str, Tensor]] = ()

    def prepare(self, weights: Iterable[tuple[str, Tensor]], version: int) -> None:
        """See `WeightTransfer.prepare`; they are sent as they are, once the servers are paused."""
        self._weights = weights

    def send(self, servers: Sequence[Server], loop: BackgroundLoop) -> dict[Server, Unanswered]:
        """See `WeightTransfer.send`."""
        import torch

        failures: dict[Server, Unanswered] = {}
        for server in servers:
            self._attempt(server, failures, partial(self._join, server, loop))
            self._attempt(server, failures, partial(self._call, server, loop, "/start_weight_update"))
        for shard in shards(self._weights, getattr(torch, self._dtype), device=None):
            for server in servers:
                self._attempt(server, failures, partial(self._broadcast, server, loop, shard))
        for server in servers:
            self._attempt(server, failures, partial(self._call, server, loop, "/finish_weight_update"))
        self._weights = ()
        return failures

    async def repeat(self, server: Server) -> None:
        """Never asked for: the weights are gone by."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the groups."""
        for group in self._groups.values():
            group.destroy()
        self._groups.clear()

    def _attempt(self, server: Server, failures: dict[Server, Unanswered], action: Callable[[], None]) -> None:
        """Do something with a server, unless it has failed already."""
        if server in failures:
            return
        try:
            action()
        except Unanswered as error:
            failures[server] = error
            # What the group was in the middle of never ends, so it cannot be left in good order.
            self._groups.pop(server, None)

    def _join(self, server: Server, loop: BackgroundLoop) -> None:
        """Be in a group with a server's processes: the trainer is number 0 of it."""
        if server in self._groups:
            return
        devices = loop.run(server.client.devices())
        place = {"master_address": _own_address(server.url), "master_port": _free_port(), "world_size": 1 + devices}
        told = loop.start(
            server.client.post(
                "/init_weight_transfer_engine",
                {"init_info": {**place, "rank_offset": 1, "packed": False}},
                self._timeout,
            )
        )
        # Both sides wait for each other in here.
        self._groups[server] = self._nccl.trainer_init(place)
        told.result()

    def _call(self, server: Server, loop: BackgroundLoop, path: str) -> None:
        loop.run(server.client.post(path, None, self._timeout))

    def _broadcast(self, server: Server, loop: BackgroundLoop, shard: dict[str, Tensor]) -> None:
        import torch

        about = {
            "names": list(shard),
            "dtype_names": [str(tensor.dtype).removeprefix("torch.") for tensor in shard.values()],
            "shapes": [list(tensor.shape) for tensor in shard.values()],
        }
        taken = loop.start(server.client.post("/update_weights", {"update_info": about}, self._timeout))
        # A stream of its own: a server that is lost in the middle holds up nothing else.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        for tensor in shard.values():
            self._groups[server].broadcast(tensor, src=0, stream=stream)
        _wait(stream, taken)


def _wait(stream: Any, taken: Future[None]) -> None:
    """Wait until both sides are through, or until the other side failed."""
    while not (stream.query() and taken.done()):
        if taken.done():
            taken.result()  # raises, if it failed
        time.sleep(_POLL)
    taken.result()


def _own_address(url: str) -> str:
    """The address under which a server reaches this machine."""
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((parts.hostname or "127.0.0.1", parts.port or 80))  # of a datagram socket: nothing is sent
        return str(probe.getsockname()[0])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
