"""Giving servers new weights in the middle of their work, and making sure that they have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ...verifiers import UserError
from .model_sizes import ModelSizes
from .server_client import Unanswered
from .server_pool import Server, ServerPool
from .server_weights import WeightTransfer

_QUIET_WITHIN = 30.0  # seconds; what a paused server has not given back by then is asked for again


class Renewal:
    """Pauses servers, labels the weights that they were given meanwhile, and lets them go on; in the loop's thread.

    Args:
        pool: the servers.
        transfer: brings the weights.
        run: a name by which servers tell our versions from those of another run.
        say: is told in a sentence what happens to servers.
        go_on: what the user can do, in the words of an order, once the servers are as they should be.
        policy: what a server that comes back must have a model of the size of; None: whatever it has.
    """

    def __init__(
        self,
        pool: ServerPool,
        transfer: WeightTransfer,
        run: str,
        say: Callable[[str], None],
        go_on: str,
        policy: ModelSizes | None,
    ) -> None:
        self._pool = pool
        self._transfer = transfer
        self._run = run
        self._say = say
        self._go_on = go_on
        self._policy = policy
        self._under_way = asyncio.Lock()
        self._version = 0

    def label(self, version: int) -> str:
        """What servers call the weights of this run's version."""
        return f"{self._run}/{version}"

    def end(self) -> None:
        """It has come to an end, good or bad; the next may begin."""
        self._under_way.release()

    async def begin(self) -> list[Server]:
        """Have every server generate nothing; those that could be told.

        Raises:
            UserError: if none is left, or if one has generated with weights that it was not given.
        """
        await self._under_way.acquire()
        servers = self._pool.up
        outcomes = await asyncio.gather(*map(self._quiet, servers), return_exceptions=True)
        for server, outcome in zip(servers, outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                self._pool.lose(server, str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
        self._pool.check_some_left()
        return [server for server in servers if server.is_up]

    async def check_all(self) -> None:
        """Look whether the servers still have the weights that they were given.

        Raises:
            UserError: if one has generated with others.
        """
        async with self._under_way:
            servers = self._pool.up
            outcomes = await asyncio.gather(*map(self._check_untouched, servers), return_exceptions=True)
        for outcome in outcomes:
            # What does not answer is found to be lost when it is asked for something.
            if isinstance(outcome, BaseException) and not isinstance(outcome, Unanswered):
                raise outcome

    async def _quiet(self, server: Server) -> None:
        server.is_open = False
        await self._check_untouched(server)
        await server.client.pause()
        deadline = asyncio.get_running_loop().time() + _QUIET_WITHIN
        while server.running:
            await asyncio.wait(set(server.running), timeout=0.25)
            if server.running and asyncio.get_running_loop().time() > deadline:
                server.interrupt()
                await asyncio.sleep(0)
            elif server.running:
                # A request that reached the server after the pause waits in its queue.
                await server.client.abort()

    async def _check_untouched(self, server: Server) -> None:
        """Refuse to have learnt from completions of weights that are not those the server was given."""
        if server.label is None or not server.has_served:
            return
        found = await server.client.weight_version()
        if found != server.label:
            raise UserError(
                f"The server {server.url} generated with weights labelled {found!r} instead of {server.label!r}: it "
                f"was restarted, or another run trains on it; give each run servers of its own, and {self._go_on}."
            )

    async def settle(self, servers: Sequence[Server], failures: dict[Server, Unanswered], version: int) -> None:
        """Have the servers that took the weights generate again.

        Raises:
            UserError: if none is left, or if one that lives did not take them, or does not own up to them.
        """
        for server, failure in failures.items():
            await self._pool.suspect(server, str(failure))
            if server.is_up:
                raise UserError(_refused(server, failure))
        loaded = [server for server in servers if server.is_up]
        outcomes = await asyncio.gather(*(self._renewed(server, version) for server in loaded), return_exceptions=True)
        for server, outcome in zip(loaded, outcomes, strict=True):
            if isinstance(outcome, Unanswered):
                self._pool.lose(server, str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                self._pool.open(server)
        self._version = version
        self._pool.check_some_left()

    async def _renewed(self, server: Server, version: int) -> None:
        """Check that a server with new weights says so, has forgotten the old ones, and generates."""
        label = self.label(version)
        await server.client.reset_prefix_cache()
        await server.client.set_weight_version(label)
        found = await server.client.weight_version()
        if found != label:
            raise UserError(
                f"The server {server.url} says that its weights are {found!r} after it was given {label!r}; restart "
                f"it, and {self._go_on}."
            )
        await server.client.resume()
        server.version, server.label, server.has_served = version, label, False

    async def take_back(self, server: Server) -> bool:
        """Give the latest weights to a server that answers again; whether it is fit to generate."""
        async with self._under_way:
            if not self._transfer.can_repeat:
                return False
            try:
                server.facts = await server.client.facts()
                server.facts.check(server.url, self._policy)
                await server.client.pause()
                await self._transfer.repeat(server)
                await self._renewed(server, self._version)
            except Unanswered:
                return False
            except UserError as error:
                self._complain(server, str(error))
                return False
            return True

    def _complain(self, server: Server, complaint: str) -> None:
        if complaint != server.complaint:
            server.complaint = complaint
            self._say(f"warning: the server {server.url} answers again but is of no use: {complaint}")


def _refused(server: Server, failure: Unanswered) -> str:
    return (
        f"The server {server.url} could not take the weights ({failure}); it must serve a model of the same shape, and "
        "see the folder of the run under the same name, so correct that and start it again."
    )
