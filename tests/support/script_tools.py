"""A server of scripts whose model gives a tone for each text, at once or when it may."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import httpx
import numpy as np
import torch

from ChatTTS.audio.samples import Samples
from ChatTTS.checkpoints import assets
from ChatTTS.config import Config
from ChatTTS.languages import known_languages
from ChatTTS.longform.subprocess_reader import read_bounded
from ChatTTS.model.lora.names import Adapters
from ChatTTS.model.script_tokenizer import ScriptTokenizer
from ChatTTS.model.speaker import Speaker
from ChatTTS.model.tokenizer import Tokenizer
from ChatTTS.pipeline.results import Piece, Word
from ChatTTS.serving.observe.engine_metrics import EngineState
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob
from ChatTTS.serving.scripts import planning
from ChatTTS.serving.settings import Settings
from ChatTTS.utils.lru import CacheCounts

from .longform_tools import Speaks
from .server_tools import ServerThread, WholeServer
from .serving_tools import PATIENCE

SCRIPTS = "/v1/audio/scripts"


class ToneModel:
    """A ``SpeechModel`` without weights: a tone for each text and voice.

    Attributes:
        jobs: that were begun.
        begun: most jobs that were spoken at once.
        may_go_on: jobs wait for it.
        fails: an error for each text that has one.
    """

    is_exact, gives_attention, has_alignment_heads, is_loaded = True, True, True, True
    unrecorded = 0
    fallback: str | None = None
    adapters: Adapters = MappingProxyType({})
    languages = known_languages()

    def __init__(self) -> None:
        folder = assets.locate("bundled")
        self._config = Config.from_file(folder.config)
        width, statistics = self._config.gpt.hidden_size, self._config.spk_stat
        self._speaker = Speaker(width, statistics, torch.device("cpu"))
        self._tokenizer = ScriptTokenizer(folder.tokenizer)
        self._speaks = Speaks()
        self.jobs: list[SpeechJob] = []
        self.running = self.most = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.fails: dict[str, Exception] = {}
        self.left_out: dict[str, tuple[str, ...]] = {}

    @property
    def said(self) -> list[str]:
        return [job.text for job in self.jobs]

    @property
    def config(self) -> Config:
        return self._config

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def fingerprint(self) -> str:
        return "tones"

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> _Tones:
        self.jobs.append(job)
        if job.text in self.fails:
            raise self.fails[job.text]
        return _Tones(self, job, interrupt)

    def tone(self, job: SpeechJob) -> tuple[Samples, list[Word]]:
        spoken = self._speaks.spoken(f"{job.text}{job.seed}")
        words = [w for row in spoken.rows for w in row.words]
        return spoken[0], [Word(job.text, *_times(words[0]), 0, len(job.text), 1.0)]

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str:
        return job.text

    def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        return "sample"

    def check_speaker(self, speaker: str) -> None:
        self._speaker.vector(speaker)

    def engines(self) -> list[EngineState]:
        return []

    def caches(self) -> Mapping[str, CacheCounts]:
        return {}

    def interrupt(self) -> None:
        self.may_go_on.set()

    def close(self) -> None:
        self.interrupt()


def _times(word: Word) -> tuple[float, float, int, int]:
    return word.start, word.end, word.start_sample, word.end_sample


class _Tones(AsyncIterator[Piece]):
    """One piece, when the model may go on."""

    def __init__(self, model: ToneModel, job: SpeechJob, interrupt: threading.Event) -> None:
        self._model, self._job, self._interrupt = model, job, interrupt
        self.utterances, self.left_out = (job.text,), model.left_out.get(job.text, ())
        self.finish_reason: str | None = None
        self._is_open = True
        model.running += 1
        model.most = max(model.most, model.running)

    async def __anext__(self) -> Piece:
        if self.finish_reason is not None:
            raise StopAsyncIteration
        while not (self._model.may_go_on.is_set() or self._interrupt.is_set()):
            await asyncio.sleep(0.002)
        if self._interrupt.is_set():
            self.finish_reason = "abort"
            raise StopAsyncIteration
        self.finish_reason = "stop"
        samples, words = self._model.tone(self._job)
        given = tuple(words) if self._job.word_times else ()
        return Piece(samples.astype(np.float32), 0, 0, self._job.text, "stop", given)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._model.running -= 1


@contextmanager
def tone_server(
    folder: Path, model: ToneModel | None = None, **settings: Any
) -> Iterator[tuple[WholeServer, ToneModel]]:
    """Run a server whose scripts are in ``folder / "scripts"``; a second one goes on with them.

    It reads scripts in this process. Tests of the process that reads them elsewhere show that it
    gives equal results.
    """
    speaker = model or ToneModel()
    chosen = {"voices": folder / "voices", "scripts": folder / "scripts", "grpc_port": None}
    thread = ServerThread(speaker, Settings(**{"port": 0, **chosen, **settings}))
    with mock.patch.object(planning, "read_in_subprocess", read_bounded):
        thread.begin()
        try:
            server = thread.ready()
            speaker.jobs.clear()  # those of the warm-up
            speaker.most = 0
            yield server, speaker
        finally:
            thread.end()


def post(server: WholeServer, script: Any, key: str = "", **fields: Any) -> httpx.Response:
    """Send a script as JSON."""
    return httpx.post(
        server.url + SCRIPTS,
        json={"script": script, "response_format": "wav", "loudness": "off", **fields},
        headers=authorization(key),
        timeout=PATIENCE,
    )


def authorization(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def get(server: WholeServer, path: str, key: str = "", **headers: str) -> httpx.Response:
    """Ask for what is at ``/v1/audio/scripts`` and ``path``."""
    return httpx.get(
        server.url + SCRIPTS + path, headers=authorization(key) | headers, timeout=PATIENCE
    )


def delete(server: WholeServer, name: str, key: str = "") -> httpx.Response:
    return httpx.delete(
        f"{server.url}{SCRIPTS}/{name}", headers=authorization(key), timeout=PATIENCE
    )


def settled(server: WholeServer, name: str) -> dict[str, Any]:
    """Wait until a script is done or failed; return what the server tells of it."""
    until = time.monotonic() + PATIENCE
    while True:
        told: dict[str, Any] = get(server, f"/{name}").json()
        if told["state"] in ("done", "failed"):
            return told
        assert time.monotonic() < until, told
        time.sleep(0.01)


def spoken(server: WholeServer, script: Any, **fields: Any) -> tuple[dict[str, Any], bytes]:
    """Have a script spoken; return what the server tells of it, and its sound file."""
    answer = post(server, script, **fields)
    assert answer.status_code == 202, answer.text
    told = settled(server, answer.json()["id"])
    assert told["state"] == "done", told
    return told, get(server, f"/{told['id']}/audio").content
