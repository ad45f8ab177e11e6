"""Requests of clients that arrive at random moments, and what becomes of each."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..mixture import mixture
from .http_ways import WAYS as HTTP_WAYS
from .other_ways import WAYS as OTHER_WAYS
from .requests import PATIENCE, Heard, Request, UnansweredError, Way
from .road import Conduct, Road
from .servers import SoakServer
from .socket_ways import WAYS as SOCKET_WAYS
from .tally import Fault, Tally, difference

WAYS: Mapping[str, Way] = {**HTTP_WAYS, **SOCKET_WAYS, **OTHER_WAYS}
_CONDUCTS = {"stay": 66, "cancel": 12, "cut": 8, "half close": 4, "slow": 10}
_WEIGHTS = {"mcp": 4}  # of its way, the only one of its server; 1 for others
_LONGEST_STAY = 4.0  # seconds after which a client leaves, at most
_BEHIND = 10.0  # seconds; arrivals that are so late are left out: this process stood still


def catalogue(ways: Sequence[str], count: int, voices: Sequence[str], seed: int) -> list[Request]:
    """Return the requests of a soak: each way by turns, with texts of 2 to 60 words."""
    rng = random.Random(seed)
    texts = mixture(count, seed)
    rng.shuffle(texts)
    return [
        Request(ways[number % len(ways)], text, rng.randrange(1 << 31), rng.choice(voices))
        for number, text in enumerate(texts)
    ]


class Load:
    """Asks the servers, and knows the right answers.

    Args:
        servers: by their names.
        requests: that are drawn from.
        tally: counts.
        clock: returns the seconds since the start of the soak.
    """

    def __init__(
        self,
        servers: Mapping[str, SoakServer],
        requests: Sequence[Request],
        tally: Tally,
        clock: Callable[[], float],
    ) -> None:
        self._servers, self.requests, self._tally = servers, requests, tally
        self._clock = clock
        self._right: dict[Request, bytes] = {}
        self._weights = [_WEIGHTS.get(WAYS[each.way].door, 1) for each in requests]
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_stopping = False

    async def learn(self) -> None:
        """Ask each request alone, and keep its answer."""
        for request in self.requests:
            await self.learn_one(request)

    async def learn_one(self, request: Request) -> bytes:
        """Ask a request while nothing else runs; return its sound.

        Raises:
            SystemExit: it is not answered.
        """
        heard = Heard()
        server = self._servers[self.servers_of(request)[0]]
        try:
            await WAYS[request.way].ask(server.place, request, heard)
        except Exception as error:
            raise SystemExit(f"the idle server did not speak {request}: {error!r}") from error
        if not heard.sound:
            raise SystemExit(f"the idle server gave no sound for {request}")
        self._right[request] = bytes(heard.sound)
        return self._right[request]

    def know(self, right: Mapping[Request, bytes]) -> None:
        """Take the sounds of further requests."""
        self._right.update(right)

    def servers_of(self, request: Request) -> list[str]:
        """Return the names of the servers that take a request under load."""
        if WAYS[request.way].door == "mcp":
            return ["mcp"]
        return [name for name in ("plain", "front") if name in self._servers]

    async def highest_rate(self, clients: int, seconds: float) -> float:
        """Return the requests a second that clients get answered which ask without pause."""
        until, done = time.monotonic() + seconds, 0

        async def keep_asking(number: int) -> None:
            nonlocal done
            rng = random.Random(f"highest {number}")
            while time.monotonic() < until and not self.is_stopping:
                await self.ask(self._drawn(rng), Conduct(), rng)
                done += 1

        begin = time.monotonic()
        await asyncio.gather(*map(keep_asking, range(clients)))
        return done / (time.monotonic() - begin)

    async def run(self, rate: float, is_over: Callable[[], bool], seed: int) -> None:
        """Send requests as a Poisson process, until it is over; then wait for all answers."""
        rng = random.Random(f"arrivals {seed}")
        kinds, weights = list(_CONDUCTS), list(_CONDUCTS.values())
        due = time.monotonic()
        while not is_over():
            due += rng.expovariate(rate)
            if due < time.monotonic() - _BEHIND:
                due = time.monotonic()
            while not is_over() and (left := due - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 1.0))
            # Squared, so that many clients leave before the first byte.
            conduct = Conduct(rng.choices(kinds, weights)[0], _LONGEST_STAY * rng.random() ** 2)
            task = asyncio.create_task(self.ask(self._drawn(rng), conduct, rng))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)

    def _drawn(self, rng: random.Random) -> Request:
        return rng.choices(self.requests, self._weights)[0]

    async def ask(self, request: Request, conduct: Conduct, rng: random.Random) -> None:
        """Ask one of the servers, and count what becomes of it."""
        await self.ask_at(rng.choice(self.servers_of(request)), request, conduct)

    async def ask_at(self, name: str, request: Request, conduct: Conduct) -> None:
        """Ask a server, and count what becomes of it."""
        heard, began = Heard(), self._clock()
        error: Exception | None = None
        try:
            is_whole = await asyncio.wait_for(
                self._conducted(name, request, conduct, heard), PATIENCE
            )
        except Exception as raised:  # what a client does not understand is a fault of the answer
            error, is_whole = raised, False
        differs = difference(self._right[request], bytes(heard.sound), is_whole)

        def fault(kind: str, said: str) -> None:
            told = f"{conduct.kind} after {conduct.after:.2f} s"
            ended = self._clock()
            self._tally.fault(
                request.way, Fault(kind, name, str(request), told, said, began, ended)
            )

        if differs is not None:
            fault("different", differs)
        elif is_whole:
            self._tally.count(name, request.way, "whole")
        elif conduct.leaves:
            self._tally.count(name, request.way, "left")
        elif isinstance(error, UnansweredError) and error.is_refusal:
            self._tally.count(name, request.way, "refused")
        elif self.is_stopping and not self._servers[name].runs:
            self._tally.count(name, request.way, "after the end")
        else:
            fault("failed", f"{type(error).__name__}: {error}")

    async def _conducted(self, name: str, request: Request, conduct: Conduct, heard: Heard) -> bool:
        """Ask as a client that behaves so; return whether it has the whole answer."""
        way, place = WAYS[request.way], self._servers[name].place
        if conduct.kind == "stay":
            await way.ask(place, request, heard)
            return True
        if conduct.kind == "cancel":
            task = asyncio.ensure_future(way.ask(place, request, heard))
            done, _ = await asyncio.wait([task], timeout=conduct.after)
            if not done:
                task.cancel()
                # The client is gone, with whatever error it had at that moment.
                await asyncio.gather(task, return_exceptions=True)
                return False
            await task
            return True
        async with Road(getattr(place, way.door), conduct) as road:
            await way.ask(replace(place, **{way.door: road.port}), request, heard)
        return True
