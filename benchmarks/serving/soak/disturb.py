"""Disturbances of the servers beside the load: kills, voices that come and go, sleep."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import httpx

from .http_ways import client
from .load import Load
from .requests import Request
from .road import Conduct
from .servers import SoakServer
from .tally import Fault, Tally

_VOICES, _SCRIPTS = "/v1/audio/voices", "/v1/audio/scripts"
_REST = "REST, pcm"
_SHORT = "The boats come home before it is dark."
BLENDS = ("clara:0.7,edith:0.3", "clara:0.2,edith:0.8")
# Seconds after which no client still follows its script, on a busy machine too.
_LONGEST_SCRIPT = 900.0
_ASLEEP_WITHIN = 120.0  # seconds without a request, of a server that unloads after 20


@dataclass(frozen=True)
class Disturbance:
    """Does something again and again, until the soak is over.

    Attributes:
        load: asks and compares.
        tally: counts.
        clock: returns the seconds since the start of the soak.
        is_over: whether to end.
    """

    load: Load
    tally: Tally
    clock: Callable[[], float]
    is_over: Callable[[], bool]

    async def rest(self, seconds: float) -> None:
        """Wait, and no longer than the soak lasts."""
        until = self.clock() + seconds
        while not self.is_over() and self.clock() < until:
            await asyncio.sleep(1.0)

    async def kills(self, server: SoakServer, every: float, rng: random.Random) -> None:
        """Kill one of the replicas with ``kill -9`` every so many seconds, on average."""
        await self.rest(every / 2)
        while not self.is_over():
            replicas = server.replicas()
            if len(replicas) > 1:
                os.kill(rng.choice(replicas), signal.SIGKILL)
                self.tally.events["replicas killed"] += 1
            else:
                self.tally.events["kills left out: one replica was there"] += 1
            await self.rest(rng.uniform(0.5, 1.5) * every)

    async def voices(self, servers: Sequence[SoakServer], every: float, recording: bytes) -> None:
        """Save voices at one server, speak with them at each, save other ones, delete them.

        The first voice is a recording, the others are blends under one name, so that a server
        which keeps an old voice is heard.
        """
        number = 0
        while not self.is_over():
            name, at = f"guest {number % 7}", servers[number % len(servers)]
            await self._watched(name, lambda at=at, name=name: self._saved(at, name, recording))  # type: ignore[misc]
            for blend in BLENDS:
                await self._watched(
                    name,
                    lambda at=at, name=name, blend=blend: self._blended(at, servers, name, blend),  # type: ignore[misc]
                )
            number += 1
            await self.rest(every)

    async def _watched(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        began = self.clock()
        try:
            await act()
        except (httpx.HTTPError, _ActError) as error:
            said = f"{type(error).__name__}: {error}"
            told = Fault("failed", "plain", f"voice {name}", "", said, began, self.clock())
            self.tally.fault("voices", told)

    async def _saved(self, at: SoakServer, name: str, recording: bytes) -> None:
        data = {"name": name, "ref_text": _SHORT, "consent": "Made by this program."}
        files = {"audio_sample": ("me.wav", recording, "audio/wav")}
        await self._call(at, "POST", _VOICES, 200, data=data, files=files)
        await self.load.ask_at(at.name, recorded(name), Conduct())
        await self._call(at, "DELETE", f"{_VOICES}/{name}", 200)
        self.tally.events["recordings saved, spoken with and deleted"] += 1

    async def _blended(
        self, at: SoakServer, servers: Sequence[SoakServer], name: str, blend: str
    ) -> None:
        data = {"name": name, "speaker": blend, "consent": "Made by this program."}
        await self._call(at, "POST", _VOICES, 200, data=data)
        for server in servers:
            await self.load.ask_at(server.name, blended(name, blend), Conduct())
        await self._call(at, "DELETE", f"{_VOICES}/{name}", 200)
        body = {"input": _SHORT, "voice": name}
        for server in servers:
            await self._call(server, "POST", "/v1/audio/speech", 400, json=body)
        self.tally.events["blends saved, spoken with everywhere and deleted"] += 1

    async def _call(
        self, server: SoakServer, method: str, path: str, status: int, **sent: object
    ) -> None:
        async with client() as http:
            answer = await http.request(method, server.place.url + path, **sent)  # type: ignore[arg-type]
        if answer.status_code != status:
            raise _ActError(f"{method} {path} at {server.name}: {answer.status_code} {answer.text}")

    async def sleeps(self, server: SoakServer, requests: Sequence[Request], every: float) -> None:
        """Ask a server that unloads its model, let it unload, and ask again."""
        rng = random.Random("sleeps")
        while not self.is_over():
            await asyncio.gather(
                *(
                    self.load.ask_at(server.name, rng.choice(requests), Conduct())
                    for _ in range(rng.randrange(1, 4))
                )
            )
            began, asleep = self.clock(), False
            while not self.is_over() and not asleep and self.clock() - began < _ASLEEP_WITHIN:
                await self.rest(5)
                asleep = await self._is_asleep(server)
            if asleep:
                self.tally.events["models unloaded"] += 1
            elif not self.is_over():
                said = f"it was still loaded after {_ASLEEP_WITHIN:.0f} s"
                told = Fault("failed", server.name, "unload", "", said, began, self.clock())
                self.tally.fault("idle", told)
            await self.rest(rng.uniform(0.0, every))

    async def _is_asleep(self, server: SoakServer) -> bool:
        try:
            async with client() as http:
                health = await http.get(f"{server.place.url}/health")
                return bool(health.json()["model"] == "unloaded")
        except httpx.HTTPError:
            return False

    async def sweeps(self, servers: Sequence[SoakServer], every: float) -> None:
        """Delete the scripts that clients left behind."""
        while not self.is_over():
            await self.sweep(servers, _LONGEST_SCRIPT)
            await self.rest(every)

    async def sweep(self, servers: Sequence[SoakServer], age: float) -> None:
        """Delete the scripts that were sent at least so many seconds ago."""
        for server in servers:
            try:
                async with client() as http:
                    listed = (await http.get(server.place.url + _SCRIPTS)).json()["data"]
                    for script in listed:
                        if time.time() - script["created_at"] >= age:
                            await http.delete(f"{server.place.url}{_SCRIPTS}/{script['id']}")
                            self.tally.events["left scripts deleted"] += 1
            except httpx.HTTPError:
                self.tally.events["sweeps of scripts that failed"] += 1


class _ActError(Exception):
    """A server answered otherwise than it should."""


def recorded(name: str) -> Request:
    """Return the request in the voice of the recording, saved under a name."""
    return Request(_REST, _SHORT, 11, name)


def blended(name: str, blend: str) -> Request:
    """Return the request in the voice of a blend, saved under a name."""
    return Request(_REST, _SHORT, 100 + BLENDS.index(blend), name)


async def learn_voices(load: Load, server: SoakServer) -> bytes:
    """Learn the right answers of the voices that will be saved; return the recording."""
    wav = await load.learn_one(Request("REST, whole wav", _SHORT, 3, "edith"))
    names = [f"guest {number}" for number in range(7)]
    data = {"name": names[0], "ref_text": _SHORT, "consent": "Made by this program."}
    async with client() as http:
        address = server.place.url + _VOICES
        files = {"audio_sample": ("me.wav", wav, "audio/wav")}
        (await http.post(address, data=data, files=files)).raise_for_status()
        sound = await load.learn_one(recorded(names[0]))
        (await http.delete(f"{address}/{names[0]}")).raise_for_status()
    load.know({recorded(name): sound for name in names})
    for blend in BLENDS:
        sound = await load.learn_one(replace(blended(names[0], blend), voice=blend))
        load.know({blended(name, blend): sound for name in names})
    return wav
