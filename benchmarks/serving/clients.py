"""Clients of the server under load: each asks once, as a player would."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import httpx

_BYTES_PER_SECOND = 2 * 24_000
_PATIENCE = 120.0


@dataclass(frozen=True)
class Wanted:
    """A request, and the digest of the samples that it has to give, where that is known."""

    text: str
    seed: int
    digest: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of a request; times in seconds from its sending.

    Attributes:
        status: of HTTP; 0 where the connection broke.
        answered: to the head of the answer.
        first: to the first sound; None where none came.
        whole: to the end.
        underruns: how often a player that starts with the first sound would have run dry.
        pauses: for how long together.
        digest: of all samples; None where it failed.
        is_right: whether these are the samples that were expected.
        retry_after: what a refusal said.
    """

    status: int
    answered: float
    first: float | None = None
    whole: float = 0.0
    underruns: int = 0
    pauses: float = 0.0
    digest: str | None = None
    is_right: bool = False
    retry_after: str | None = None


class Client:
    """Many clients of one server, each with a connection of its own for each request."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(base_url=url, limits=limits, timeout=_PATIENCE)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def speak(self, wanted: Wanted) -> Outcome:
        """Ask for PCM and take it as it comes."""
        body = {
            "model": "chattts",
            "input": wanted.text,
            "seed": wanted.seed,
            "response_format": "pcm",
        }
        begin = time.monotonic()
        answered = 0.0
        try:
            async with self._http.stream("POST", "/v1/audio/speech", json=body) as response:
                answered = time.monotonic() - begin
                if response.status_code != 200:
                    await response.aread()
                    retry = response.headers.get("retry-after")
                    return Outcome(response.status_code, answered, retry_after=retry)
                return await _listen(response, wanted, begin, answered)
        except httpx.HTTPError:
            return Outcome(0, answered or time.monotonic() - begin)


async def _listen(
    response: httpx.Response, wanted: Wanted, begin: float, answered: float
) -> Outcome:
    first, heard_until, underruns, pauses = None, 0.0, 0, 0.0
    digest = hashlib.sha256()
    async for piece in response.aiter_raw():
        now = time.monotonic()
        if first is None:
            first, heard_until = now - begin, now
        elif now > heard_until:
            underruns += 1
            pauses += now - heard_until
            heard_until = now
        heard_until += len(piece) / _BYTES_PER_SECOND
        digest.update(piece)
    found = digest.hexdigest()
    return Outcome(
        200,
        answered,
        first,
        time.monotonic() - begin,
        underruns,
        pauses,
        found,
        wanted.digest in (None, found),
    )


async def load_of(
    client: Client,
    wanted: Sequence[Wanted],
    rate: float,
    seconds: float,
    rng: random.Random,
) -> list[Outcome]:
    """Requests that come at random moments, ``rate`` a second, whatever becomes of the others."""
    tasks: list[asyncio.Task[Outcome]] = []
    until = time.monotonic() + seconds
    due = time.monotonic()
    while (due := due + rng.expovariate(rate)) < until:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(client.speak(rng.choice(wanted))))
    return list(await asyncio.gather(*tasks))
