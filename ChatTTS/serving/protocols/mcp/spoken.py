"""Speak the texts of a tool's call into one sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from mcp.server.mcpserver.exceptions import ToolError

from ....audio.marking import marked
from ....audio.samples import SAMPLE_RATE, Samples
from ....config.mark import mark_of
from ....errors import NothingToSpeakError, named_parts
from ....text.main_language import main_language
from ...errors import ServingError, UnspeakableError
from ...requests.request import new_request_id, new_seed
from ...speech.config import RunConfig
from ...speech.service import SpeechService

_PAUSE = np.zeros(round(0.5 * SAMPLE_RATE), np.float32)  # between two texts
CLIENT = "mcp"


@dataclass(frozen=True)
class Spoken:
    """The result of speaking texts.

    Attributes:
        seconds: of sound.
        left_out: the letters and words that the voice cannot speak, each once.
    """

    seconds: float
    left_out: tuple[str, ...]

    def with_left_out(self, text: str) -> str:
        """Return ``text`` and, if there is any, what was left out."""
        if not self.left_out:
            return text
        return f"{text}; the voice cannot speak {named_parts(self.left_out)}, which is left out"


async def speak(
    service: SpeechService,
    texts: Sequence[str],
    config: RunConfig,
    take: Callable[[Samples], None],
    *,
    reads_ssml: bool = True,
) -> Spoken:
    """Speak texts one after another, with pauses between them.

    A single text gives the samples that REST gives for it. Of several, those that the voice cannot
    speak are left out.

    Args:
        take: called in a worker thread with each piece of sound, float32 (n,) at 24 kHz.
        reads_ssml: whether a text that begins with ``<speak`` is SSML.

    Returns:
        What was spoken, with its seconds before the tempo.

    Raises:
        ServingError: a text is refused: it cannot be spoken, or not now; or the voice can speak
            none of them.
        ToolError: a text failed in its turn, which the service has counted already.
    """
    left_out: dict[str, None] = {}
    refusal: UnspeakableError | ToolError | None = None
    seed = new_seed() if config.seed is None else config.seed
    request_id, number, count = new_request_id(), 0, 0
    language = None  # that chooses the voice
    if len(texts) > 1:
        language = await service.in_parsing_thread(lambda: main_language("\n".join(texts)))
    with service.hold():
        for index, text in enumerate(texts):
            request = config.request(
                text,
                seed,
                guard=service.guard_of(None, is_whole=True),
                may_be_silent=True,
                reads_ssml=reads_ssml,
                client=CLIENT,
                interface=CLIENT,
                request_id=f"{request_id}.{index}",
                first_utterance=number,
                continues=index > 0,
                voice_language=language,
                is_first=index == 0,
                is_last=index + 1 == len(texts),
            )
            speech = service.speak(request)
            try:
                async with speech:
                    if count:
                        count += len(_PAUSE)
                        await service.in_thread(partial(take, _PAUSE))
                    async for piece in speech:
                        count += len(piece.samples)
                        await service.in_thread(partial(take, piece.samples))
                speech.check_complete()
                number = speech.next_utterance
                left_out |= dict.fromkeys(speech.left_out)
            except UnspeakableError as error:
                refusal = refusal or (ToolError(str(error)) if speech.was_counted else error)
                left_out |= dict.fromkeys(_left_out_of(error))
            except ServingError as error:
                if speech.was_counted:
                    raise ToolError(str(error)) from error
                raise
    if refusal is not None and not count:
        raise refusal
    return Spoken(count / SAMPLE_RATE, tuple(left_out))


async def encoded(
    service: SpeechService,
    texts: Sequence[str],
    config: RunConfig,
    *,
    reads_ssml: bool = True,
) -> tuple[bytes, Spoken]:
    """Return a sound file of texts with the server's mark and the day, and what was spoken.

    Raises:
        ServingError, ToolError: as :func:`speak`.
    """
    mark = service.settings.mark
    dated = mark and mark_of(mark)
    encoder = await service.in_thread(config.encoder)
    parts: list[bytes] = []

    def take(samples: Samples) -> None:
        parts.append(encoder.push(samples))

    spoken = await speak(service, texts, config, take, reads_ssml=reads_ssml)

    def whole() -> bytes:
        parts.append(encoder.finish())
        file = encoder.as_file(b"".join(parts))
        return file if dated is None else marked(file, config.response_format, dated)

    data = await service.in_thread(whole)
    return data, replace(spoken, seconds=spoken.seconds / config.speed)


def _left_out_of(error: UnspeakableError) -> tuple[str, ...]:
    cause = error.__cause__
    return cause.left_out if isinstance(cause, NothingToSpeakError) else ()
