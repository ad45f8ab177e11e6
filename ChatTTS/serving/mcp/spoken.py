"""Speak the texts of a tool's call into one sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...audio.samples import SAMPLE_RATE, Samples
from ..encoding import Encoder, Format
from ..request_logs import log_request
from ..requests import SpeechRequest, new_request_id, new_seed
from ..service import SpeechService

_PAUSE = np.zeros(round(0.5 * SAMPLE_RATE), np.float32)  # between two texts
CLIENT = "mcp"


@dataclass(frozen=True)
class Wish:
    """The settings of a text's speech; ``SpeechRequest`` describes the fields."""

    voice: str | None = None
    seed: int | None = None
    speed: float = 1.0


async def speak(
    service: SpeechService,
    texts: Sequence[str],
    wish: Wish,
    take: Callable[[Samples], None],
    *,
    reads_ssml: bool = True,
) -> float:
    """Speak texts one after another, with pauses between them.

    A single text gives the samples that REST gives for it.

    Args:
        take: called in a worker thread with each piece of sound, float32 (n,) at 24 kHz.
        reads_ssml: whether a text that begins with ``<speak`` is SSML.

    Returns:
        The seconds of sound, before the tempo.

    Raises:
        ServingError: a text cannot be spoken, or not now.
    """
    seed = new_seed() if wish.seed is None else wish.seed
    request_id, number, count = new_request_id(), 0, 0
    with service.hold():
        for index, text in enumerate(texts):
            request = SpeechRequest(
                text,
                voice=wish.voice or None,
                speed=wish.speed,
                seed=seed,
                is_seeded=wish.seed is not None,
                guard=service.guard_of(None, is_whole=True),
                may_be_silent=True,
                reads_ssml=reads_ssml,
                client=CLIENT,
                request_id=f"{request_id}.{index}",
                first_utterance=number,
                continues=index > 0,
            )
            speech = service.speak(request)
            try:
                async with speech:
                    if index:
                        count += len(_PAUSE)
                        await service.in_thread(partial(take, _PAUSE))
                    async for piece in speech:
                        count += len(piece.samples)
                        await service.in_thread(partial(take, piece.samples))
                speech.check_complete()
                number += 0 if speech.is_silent else speech.utterances
            finally:
                if speech.record.latency is not None:
                    with_text = service.settings.log_texts
                    log_request(speech.record, CLIENT, with_text=with_text)
    return count / SAMPLE_RATE


async def encoded(
    service: SpeechService,
    texts: Sequence[str],
    wish: Wish,
    format: Format,
    *,
    reads_ssml: bool = True,
) -> tuple[bytes, float]:
    """Return a sound file of texts, and its seconds; raises as :func:`speak`."""
    encoder = await service.in_thread(partial(Encoder, format, speed=wish.speed))
    parts: list[bytes] = []

    def take(samples: Samples) -> None:
        parts.append(encoder.push(samples))

    seconds = await speak(service, texts, wish, take, reads_ssml=reads_ssml)

    def whole() -> bytes:
        parts.append(encoder.finish())
        return encoder.as_file(b"".join(parts))

    return await service.in_thread(whole), seconds / wish.speed
