"""Clients of the server under load; each sends one request and reads it as a player does."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import httpx

_BYTES_PER_SECOND = 2 * 24_000
_PATIENCE = 120.0


@dataclass(frozen=True)
class Wanted:
    """A request, and the digest of the samples that it has to give, or ``None`` if unknown."""

    text: str
    seed: int
    digest: str | None


@dataclass(frozen=True)
class Outcome:
    """The result of a request; times are in seconds since the request was sent.

    Attributes:
        status: the HTTP status; 0 if the connection broke.
        answered: time of the response headers.
        first: time of the first sound; None if there was none.
        whole: time of the end.
        underruns: number of pauses of a player that starts with the first sound.
        pauses: total length of these pauses in seconds.
        digest: digest of all samples; None if the request failed.
        is_right: whether the samples are the expected ones.
        retry_after: the ``Retry-After`` header of a refusal.
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
    """Any number of clients of one server; each request has a connection of its own.

    Args:
        url: of the server.
        headers: of each request, such as a key.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, limits=limits, timeout=_PATIENCE
        )

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
        """Request PCM and read it as it arrives."""
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
    """Send requests as a Poisson process of ``rate`` a second, and return their outcomes."""
    tasks: list[asyncio.Task[Outcome]] = []
    until = time.monotonic() + seconds
    due = time.monotonic()
    while (due := due + rng.expovariate(rate)) < until:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(client.speak(rng.choice(wanted))))
    return list(await asyncio.gather(*tasks))
