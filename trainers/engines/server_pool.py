"""Several servers: which of them takes the next request, which are lost, and which have come back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...verifiers import UserError
from .server_client import Segment, ServerClient, ServerFacts

Routing = Literal["least_busy", "round_robin"]


@dataclass(eq=False)
class Server:
    """One server as its engine sees it.

    Attributes:
        client: speaks to it.
        facts: what it said of itself.
        is_up: whether it counts as alive.
        is_open: whether it takes requests; not while its weights are renewed.
        version: of its weights.
        label: under which it was given them; None if it still has those that it was started with.
        has_served: whether anything was generated since its weights were last looked after.
        complaint: what was said last of why it is of no use.
        claimed: requests that were given to it and have not ended.
        running: those of them that it is generating.
    """

    client: ServerClient
    facts: ServerFacts
    is_up: bool = True
    is_open: bool = False
    version: int = 0
    label: str | None = None
    has_served: bool = False
    complaint: str = ""
    claimed: int = 0
    running: set[asyncio.Task[Segment]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Its address, which is its name."""
        return self.client.url

    def interrupt(self) -> None:
        """Give up what it is generating; whoever waits for it asks again."""
        for task in list(self.running):
            task.cancel()


class ServerPool:
    """Hands requests to servers, in the loop's thread only.

    Args:
        servers: all of them.
        routing: `least_busy` or `round_robin`.
        say: is told in a sentence what happens to servers.
        take_back: called with a server that answers again; makes it fit to generate, or returns False.
        probe_every: seconds between looks at a lost server.
        cure: what the user can do when all are lost.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        routing: Routing,
        say: Callable[[str], None],
        take_back: Callable[[Server], Awaitable[bool]],
        probe_every: float,
        cure: str,
    ) -> None:
        self.servers = list(servers)
        self._routing = routing
        self._say = say
        self._take_back = take_back
        self._probe_every = probe_every
        self._cure = cure
        self._turn = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._watches: set[asyncio.Task[None]] = set()

    @property
    def up(self) -> list[Server]:
        """Those that are not lost."""
        return [server for server in self.servers if server.is_up]

    async def claim(self, avoid: Server | None = None) -> Server:
        """A server with room for one more request, once there is one; `avoid` only if no other is left.

        Raises:
            UserError: if all are lost.
        """
        while True:
            self.check_some_left()
            chosen = self._choose(avoid)
            if chosen is not None:
                chosen.claimed += 1
                return chosen
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake(1)  # the turn that came too late is the next one's
                raise

    def release(self, server: Server) -> None:
        """A request that `claim` gave a server has ended."""
        server.claimed -= 1
        self._wake(1)

    def open(self, server: Server) -> None:
        """Let a server take requests."""
        server.is_open = True
        self._wake(len(self._waiting))

    async def suspect(self, server: Server, why: str) -> None:
        """Look whether a server that failed a request is still there."""
        if server.is_up and not await server.client.is_healthy():
            self.lose(server, why)

    def lose(self, server: Server, why: str) -> None:
        """Take a server out until it answers again."""
        if not server.is_up:
            return
        server.is_up = server.is_open = False
        left = len(self.up)
        went_on = f"; its {server.claimed} requests go to the {left} left" if left and server.claimed else ""
        self._say(f"warning: the server {server.url} is lost ({why}){went_on}")
        server.interrupt()
        self._wake(len(self._waiting))
        watch = asyncio.get_running_loop().create_task(self._watch(server))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    def forget(self) -> None:
        """Look out for lost servers no more."""
        for watch in self._watches:
            watch.cancel()

    def check_some_left(self) -> None:
        """Refuse to go on with no server.

        Raises:
            UserError: if all are lost.
        """
        if not self.up:
            urls = " and ".join(server.url for server in self.servers)
            answer = "do not answer" if len(self.servers) > 1 else "does not answer"
            raise UserError(f"No server is left to generate with ({urls} {answer}); {self._cure}.")

    async def _watch(self, server: Server) -> None:
        while True:
            await asyncio.sleep(self._probe_every)
            if await server.client.is_healthy() and await self._take_back(server):
                server.is_up = True
                self._say(f"the server {server.url} is back, with the weights of version {server.version}")
                self.open(server)
                return

    def _choose(self, avoid: Server | None) -> Server | None:
        up = [server for server in self.up if server is not avoid] or self.up
        free = [server for server in up if server.is_open and server.claimed < server.facts.room]
        if not free:
            return None
        count = len(self.servers)
        order = {id(server): (place - self._turn) % count for place, server in enumerate(self.servers)}
        if self._routing == "round_robin":
            chosen = min(free, key=lambda server: order[id(server)])
        else:
            chosen = min(free, key=lambda server: (server.claimed, order[id(server)]))
        self._turn = self.servers.index(chosen) + 1
        return chosen

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                count -= 1
