"""Figures of the load test, from the outcomes of its requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ChatTTS.core import Chat

from .clients import Client, Outcome, Wanted
from .process import Usage

# Between two measurements, so that threads of one have ended when the other begins.
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class FirstSound:
    """Milliseconds to the first sound, one request at a time: in process (here) and over HTTP."""

    here_p50: float
    here_p95: float
    http_p50: float
    http_p95: float

    @property
    def later(self) -> float:
        """Milliseconds that HTTP adds to p95."""
        return self.http_p95 - self.here_p95


@dataclass(frozen=True)
class LoadFigures:
    """The figures of one load.

    Attributes:
        times: the load as a multiple of the capacity.
        rate: requests a second that were sent.
        sent, served, refused, broken, wrong: numbers of requests. The samples of wrong ones are
            incomplete or not the expected ones.
        refused_p50, refused_p95: milliseconds to a refusal.
        without_advice: refusals without a ``Retry-After`` header.
        first_p50, first_p95: milliseconds to the first sound of served requests.
        underruns: pauses of all players.
        paused: players that paused at least once.
        megabytes, files, threads: growth of memory, open files and threads over the load.
    """

    times: float
    rate: float
    sent: int
    served: int
    refused: int
    broken: int
    wrong: int
    refused_p50: float | None
    refused_p95: float | None
    without_advice: int
    first_p50: float | None
    first_p95: float | None
    underruns: int
    paused: int
    megabytes: float
    files: int
    threads: int


@dataclass(frozen=True)
class LeaveFigures:
    """Clients that disconnected early, and what the server still holds after them.

    Attributes:
        clients: number of clients.
        whole: number of those that had the whole answer before they disconnected.
        running, waiting, blocks: requests and KV blocks that the server holds.
        megabytes, files, threads: growth of memory, open files and threads.
    """

    clients: int
    whole: int
    running: int
    waiting: int
    blocks: int
    megabytes: float
    files: int
    threads: int

    @classmethod
    def of(cls, clients: int, whole: int, before: Usage, after: Usage) -> LeaveFigures:
        """Return the figures from the server's usage before and after."""
        return cls(
            clients,
            whole,
            after.running,
            after.waiting,
            after.blocks,
            after.megabytes - before.megabytes,
            after.files - before.files,
            after.threads - before.threads,
        )


async def first_sounds(client: Client, text: str, rounds: int) -> FirstSound:
    """Time the first sound in process and over HTTP, by turns."""
    chat = Chat()
    chat.load_or_raise("bundled", use_vllm=True)
    here, there = [], []
    for seed in range(rounds + 2):
        await asyncio.sleep(_PAUSE_SECONDS)
        begin, first = time.monotonic(), None
        coding = {"manual_seed": seed}
        async for _ in chat.stream(text, skip_refine_text=True, params_infer_code=coding):
            first = first or time.monotonic() - begin
        assert first is not None
        here.append(first)
        await asyncio.sleep(_PAUSE_SECONDS)
        outcome = await client.speak(Wanted(text, seed, None))
        assert outcome.first is not None, outcome
        there.append(outcome.first)
    chat.unload()
    # The first two of each are the warm-up.
    return FirstSound(*_milliseconds(here[2:]), *_milliseconds(there[2:]))


def load_figures(
    times: float, capacity: float, outcomes: Sequence[Outcome], before: Usage, after: Usage
) -> LoadFigures:
    """Return the figures of a load."""
    served = [o for o in outcomes if o.status == 200]
    refused = [o for o in outcomes if o.status in (429, 503)]
    refusals = _milliseconds([o.answered for o in refused]) if refused else (None, None)
    firsts = [o.first for o in served if o.first is not None]
    sounds = _milliseconds(firsts) if firsts else (None, None)
    return LoadFigures(
        times=times,
        rate=times * capacity,
        sent=len(outcomes),
        served=len(served),
        refused=len(refused),
        broken=len(outcomes) - len(served) - len(refused),
        wrong=sum(not o.is_right for o in served),
        refused_p50=refusals[0],
        refused_p95=refusals[1],
        without_advice=sum(o.retry_after is None for o in refused),
        first_p50=sounds[0],
        first_p95=sounds[1],
        underruns=sum(o.underruns for o in served),
        paused=sum(o.underruns > 0 for o in served),
        megabytes=after.megabytes - before.megabytes,
        files=after.files - before.files,
        threads=after.threads - before.threads,
    )


def table(results: dict[str, Any]) -> str:
    """Return all figures as Markdown."""
    sound = FirstSound(**results["first_sound"])
    lines = [
        f"First sound, one request at a time: in process {sound.here_p50:.0f} ms (p95 "
        f"{sound.here_p95:.0f}), over HTTP {sound.http_p50:.0f} ms (p95 {sound.http_p95:.0f}).",
        f"Capacity: {results['capacity']:.2f} requests a second.",
        "",
        "| load | sent | served | refused | broken | wrong | refused in p50 / p95 | "
        "first sound p50 / p95 | players that paused | memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for load in results["loads"]:
        refused = _pair(load["refused_p50"], load["refused_p95"])
        lines.append(
            f"| {load['times']:g}x, {load['rate']:.1f}/s | {load['sent']} | {load['served']} | "
            f"{load['refused']} | {load['broken']} | {load['wrong']} | {refused} | "
            f"{_pair(load['first_p50'], load['first_p95'])} | {load['paused']} | "
            f"{load['megabytes']:+.1f} MB |"
        )
    left = results["leaving"]
    lines += [
        "",
        f"{left['clients']} clients that left: {left['running']} requests, {left['blocks']} "
        f"blocks, {left['files']:+d} files, {left['threads']:+d} threads and "
        f"{left['megabytes']:+.1f} MB stayed behind.",
    ]
    return "\n".join(lines)


def _pair(first: float | None, second: float | None) -> str:
    return "" if first is None or second is None else f"{first:.0f} / {second:.0f} ms"


def _milliseconds(seconds: Sequence[float]) -> tuple[float, float]:
    p50, p95 = np.percentile(np.array(seconds) * 1000, [50, 95])
    return float(p50), float(p95)
