"""The voice of a call: its speaker vector, sample prompt and adapter."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import VoiceError
from ..model.lora.names import chosen_adapter
from ..model.speaker import decode_sample
from ..params import InferCodeParams
from ..text.main_language import main_language
from .model import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Voice:
    """A voice: a speaker vector, a sample with its transcript, both, or neither.

    Attributes:
        speaker: float32 [hidden].
        sample: codes, int64 [frames, num_codebooks].
        transcript: the words of the sample; without a sample, words before the text.
        adapter: the name of the adapter that speaks, or ``None``.
    """

    speaker: NDArray[np.float32] | None = None
    sample: NDArray[np.int64] | None = None
    transcript: str | None = None
    adapter: str | None = None


def resolve_voice(model: Model, params: InferCodeParams) -> Voice:
    """Return the voice of ``params``, else the checkpoint's default speaker, else an empty voice.

    Raises:
        VoiceError: a string or vector is no voice of this model.
        ConfigError: no adapter of that name is loaded.
    """
    defaults = model.config.defaults
    speaker = params.spk_emb
    adapter = chosen_adapter(params.adapter, model.gpt.adapters)
    if speaker is None and params.spk_smp is None:
        trained = None if adapter is None else model.gpt.adapters[adapter].speaker
        speaker = defaults.speaker if trained is None else trained
    if isinstance(speaker, str):
        speaker = str.__str__(speaker)  # a plain string: it becomes a key of a shared cache
        speaker = defaults.speakers.get(speaker, speaker)
    sample = None
    if params.spk_smp is not None:
        embed = model.config.embed
        string = params.spk_smp
        sample = model.samples.get_or_make(
            string, lambda: decode_sample(string, embed.num_vq, embed.end_of_speech)
        )
        if not defaults.samples_trained:
            logger.warning(
                "this checkpoint never learned to follow sample prompts (spk_smp): expect wrong or "
                "empty speech, or use a speaker (spk_emb), or a full ChatTTS checkpoint"
            )
        if not params.txt_smp:
            logger.warning("spk_smp without txt_smp: the voice needs the sample's exact transcript")
    elif params.txt_smp:
        logger.warning("txt_smp without spk_smp: it is spoken as the beginning of each text")
    return Voice(_vector(model, speaker), sample, params.txt_smp, adapter)


def text_speaker(
    model: Model, params: InferCodeParams, text: str, lang: object = None
) -> str | None:
    """Return the name of the checkpoint's speaker that the language of a text chooses.

    ``None`` is for parameters that name a voice, and for a checkpoint without a default speaker.

    Args:
        lang: of the text, as ``Chat.infer`` takes it.

    Raises:
        ConfigError: no adapter of that name is loaded.
    """
    defaults = model.config.defaults
    if params.spk_emb is not None or params.spk_smp is not None or defaults.speaker is None:
        return None
    if chosen_adapter(params.adapter, model.gpt.adapters) is not None:
        return None
    if not defaults.language_speakers:
        return defaults.speaker
    return defaults.speaker_of(main_language(text, lang))


def with_speaker(model: Model, voice: Voice, speaker: str) -> Voice:
    """Return a voice with a named speaker of the checkpoint."""
    return replace(voice, speaker=_vector(model, model.config.defaults.speakers[speaker]))


def _vector(model: Model, speaker: Any) -> NDArray[np.float32] | None:
    """Return the vector of a speaker; an error names the checkpoint's own speakers."""
    if speaker is None:
        return None
    try:
        if isinstance(speaker, str):
            return model.vectors.get_or_make(speaker, lambda: model.speaker.vector(speaker))
        return model.speaker.vector(speaker)
    except VoiceError as error:
        names = ", ".join(model.config.defaults.speakers)
        if not names:
            raise
        raise VoiceError(f"{error}; the speakers that this checkpoint knows: {names}") from error
