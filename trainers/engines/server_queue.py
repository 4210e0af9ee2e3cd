"""How long to wait for a request: what it may have spent in the queue of its server does not count."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from .server_client import Segment, ServerLoad
from .server_pool import Server

# Of the limit: how often a server is looked at for a request, and for how long a look is good enough for others.
_EVERY, _FRESH = 1 / 2, 1 / 8


@dataclass
class _Look:
    """The last look at a server: when, what it said, and whether its queue was moving."""

    at: float
    load: ServerLoad | None
    moves: bool


class RequestPatience:
    """Waits for requests, each so long after the last time when it may still have been in the queue.

    The engine gives a server no more requests than it generates at a time, but it may have less room than that (long
    contexts fill its memory), and others may use it too: then it has a queue, in which a request can wait for longer
    than it takes. Nothing in the protocol says when it left the queue. But while other requests wait there and the
    server goes on with its work, it may be one of them; so the clock starts anew at each look that finds this. Of a
    server that hangs, the queue does not move.

    Args:
        limit: seconds.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._looks: dict[Server, _Look] = {}
        self._looking: defaultdict[Server, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def wait(self, server: Server, request: asyncio.Task[Segment]) -> bool:
        """Wait for a request that was just made; whether it has ended."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        while True:
            left = max(0.0, begun + self.limit - clock())
            done, _ = await asyncio.wait({request}, timeout=min(left, _EVERY * self.limit))
            if done:
                return True
            if await self._moves(server):
                begun = clock()
            elif clock() - begun >= self.limit:
                return request.done()

    async def _moves(self, server: Server) -> bool:
        """Whether requests wait in the server's queue while it works on others."""
        async with self._looking[server]:
            now, last = asyncio.get_running_loop().time(), self._looks.get(server)
            if last is not None and now - last.at < _FRESH * self.limit:
                return last.moves
            load = await server.client.load()
            works = last is None or last.load is None or load is None or load.tokens > last.load.tokens
            look = _Look(asyncio.get_running_loop().time(), load, works and load is not None and load.waiting > 0)
            self._looks[server] = look
            return look.moves
