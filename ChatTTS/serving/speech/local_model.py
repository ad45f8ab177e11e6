"""The model in this process: a loaded ``Chat``, and threads that start and end its streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import torch

from ...audio.samples import Samples
from ...config import Config
from ...config.request_fields import CallManner
from ...core import Chat
from ...errors import EngineUnavailableError, NothingToSpeakError, NotLoadedError
from ...languages import known_languages
from ...longform.plan import checkpoint_hash, sound_identity
from ...model.tokenizer import Tokenizer
from ...model.velocity.async_llm_engine import AsyncLLMEngine
from ...model.velocity.generator import VelocityGenerator
from ...model.velocity.metrics import Metrics
from ...pipeline.streams import SpeechStream
from ...utils.locks import new_lock
from ...utils.lru import CacheCounts
from ..observe.engine_metrics import EngineState
from ..requests.jobs import RefineJob, SpeechJob

# Seed of the voice for a checkpoint without voices, so that every start has an equal voice.
_FALLBACK_SEED = 2
# Threads that prepare texts. They compute in Python, so more would only delay the event loop.
_THREADS = 2


class LocalModel:
    """A ``SpeechModel`` in this process.

    Args:
        chat: loaded, with the velocity engine; :meth:`close` unloads it.

    Raises:
        EngineUnavailableError: the ``Chat`` was loaded with another engine.
    """

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._engine = _engine(chat)
        placement = chat._loaded.placement
        is_whole = placement.quantization is None and chat._loaded.gpt.kv_cache_dtype == "auto"
        self.is_exact = placement.dtype == torch.float32 and is_whole
        self.gives_attention = chat.gives_attention
        self.fallback = _fallback(chat)
        self.adapters = chat.gpt.adapters
        self._lock = new_lock()
        self._checkpoint: str | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="serving_opening")

    @property
    def is_loaded(self) -> bool:
        """Return that the model is in memory, where it stays."""
        return True

    @property
    def unrecorded(self) -> int:
        """Return how many launches on a GPU are not recorded yet."""
        with contextlib.suppress(NotLoadedError):  # while the server shuts down
            return sum(part.left for part in self.chat._loaded.capturables)
        return 0

    @property
    def has_alignment_heads(self) -> bool:
        """Return whether heads are known from which the times of words are found."""
        return self.chat.has_loaded() and bool(self.chat.alignment_heads)

    def fingerprint(self) -> str:
        """Return what the bits of the sound depend on beside the job.

        Every file of the checkpoint is hashed at the first call, which blocks its thread.
        """
        with self._lock:
            if self._checkpoint is None:
                self._checkpoint = checkpoint_hash(self.chat._files)
        identity = sound_identity(self.chat._loaded, self._checkpoint)
        return json.dumps([identity, list(self.chat.alignment_heads)])

    @property
    def languages(self) -> tuple[str, ...]:
        """The built-in languages, and those that are registered with the ``Chat`` now."""
        return known_languages(self.chat.normalizer.normalizers)

    @property
    def config(self) -> Config:
        """The checkpoint's configuration."""
        return self.chat.config

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer."""
        return self.chat.tokenizer

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> SpeechStream:
        """Start to generate: see ``SpeechModel``."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: open_stream(self.chat, job, interrupt)
        )

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str:
        """Return the refined utterances: see ``SpeechModel``."""
        return refine(self.chat, job, interrupt)

    def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """Return the sample prompt string of a recording: see ``SpeechModel``."""
        return self.chat.sample_audio_speaker(samples, sample_rate, trim=True)

    def check_speaker(self, speaker: str) -> None:
        """Raise VoiceError if a speaker string does not belong to the checkpoint."""
        self.chat.speaker.vector(speaker)

    def metrics(self) -> Metrics:
        """Return the counts of the engine."""
        return self._engine.metrics()

    def engines(self) -> list[EngineState]:
        """Return the state of the engine."""
        return [EngineState(self.metrics())]

    def caches(self) -> Mapping[str, CacheCounts]:
        """Return the counts of the caches of voices."""
        with contextlib.suppress(NotLoadedError):  # while the server shuts down
            return self.chat.voice_caches
        return {}

    def interrupt(self) -> None:
        """End all streams and calls that run now."""
        self.chat.interrupt()

    def close(self) -> None:
        """Interrupt, and free the model."""
        self.chat.unload()
        self._threads.shutdown(wait=False)


def open_stream(chat: Chat, job: SpeechJob, interrupt: threading.Event) -> SpeechStream:
    """Start to generate the speech of a job.

    Raises:
        TextError, VoiceError, ConfigError, EngineUnavailableError: as ``Chat.stream``.
    """
    refining: dict[str, Any] = {"manual_seed": job.seed}
    if job.refine_tags:
        refining["prompt"] = job.refine_tags
    return chat.stream(
        job.text,
        low_latency=job.low_latency,
        lang=job.language,
        skip_refine_text=not job.refine,
        params_refine_text=refining,
        params_infer_code={**job.sampling, **job.voice},
        first_utterance=job.first_utterance,
        interrupt=interrupt,
        lexicon=job.lexicon,
        reads_ssml=False,
        duration=job.duration,
        **{each.name: getattr(job, each.name) for each in fields(CallManner)},
    )


def refine(chat: Chat, job: RefineJob, interrupt: threading.Event) -> str:
    """Return the refined utterances of a job, one a line.

    Raises:
        NothingToSpeakError: nothing is left of the text.
        ChatTTSError: as ``Chat.infer``.
    """
    text: str = chat.infer(
        job.text,
        lang=job.language,
        refine_text_only=True,
        params_refine_text=job.sampling,
        interrupt=interrupt,
        lexicon=job.lexicon,
    )
    if not text:
        raise NothingToSpeakError(job.text)
    return text


def _engine(chat: Chat) -> AsyncLLMEngine:
    generator = chat.gpt.engine
    if not isinstance(generator, VelocityGenerator):
        raise EngineUnavailableError(
            "the server needs the velocity engine: load the model with use_vllm=True"
        )
    return generator.engine


def _fallback(chat: Chat) -> str | None:
    """Return a speaker string for a checkpoint without voices; ``None`` for others."""
    if chat.config.defaults.speakers or not chat.config.spk_stat:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_FALLBACK_SEED)
        return chat.sample_random_speaker()
