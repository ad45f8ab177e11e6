"""A request, and what it must be before an engine takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...errors import ConfigError, TextError, VoiceError
from ..draws import DrawKey, Pass
from ..tokenizer import Prompt
from .sampling_params import SamplingParams

# A draw's counter has so many places for the samples of a prompt.
_MAX_SAMPLES = 2**16


@dataclass(frozen=True)
class EngineRequest:
    """One prompt and all that its answer depends on.

    Attributes:
        request_id: no other unfinished request may have it.
        key: of sample 0; sample i takes ``key.sample + i``. Its kind says whether the answer is
            frames of codes or text.
        priority: lower ones go first, where the engine's policy is ``priority``.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    key: DrawKey
    priority: float = 0

    @property
    def num_given(self) -> int:
        """Samples that the caller is given."""
        return 1 if self.sampling.best else self.sampling.n

    def lanes(self, model: Config) -> int:
        """How many ids each position of the answer has."""
        return model.gpt.num_vq if self.key.kind is Pass.CODE else 1

    def check(self, model: Config) -> None:
        """Raise for the first thing that the model cannot work with.

        Raises:
            TextError: no text, unknown token ids, or too many positions.
            VoiceError: a speaker vector or sample codes that are not of this model.
            ConfigError: sampling settings that do not fit the kind of answer, or a draw key that
                draws cannot be made from.
        """
        _check_text(self.prompt, model)
        _check_voice(self.prompt, model)
        given, wanted = len(self.sampling.temperature), self.lanes(model)
        if given != wanted:
            raise ConfigError(f"temperature has {given} values; this pass draws {wanted}")
        _check_key(self.key)
        first, past = self.key.sample, self.key.sample + self.sampling.n
        if first < 0 or past > _MAX_SAMPLES:
            raise ConfigError(
                f"samples {first} to {past - 1} are asked for, and a seed has those from 0 to "
                f"{_MAX_SAMPLES - 1}: take another seed for more"
            )


def _check_key(key: DrawKey) -> None:
    # Whole numbers of numpy are bounded, and 64 bits of a seed are too many for them.
    for name in ("seed", "utterance", "sample", "attempt"):
        value = getattr(key, name)
        if not isinstance(value, int):
            raise ConfigError(f"{name} of a draw key must be an int, not {value!r}")
    for name, past in (("utterance", 2**32), ("attempt", 2**16)):
        value = getattr(key, name)
        if not 0 <= value < past:
            raise ConfigError(f"{name} of a draw key must be from 0 to {past - 1}, not {value}")


def _check_text(prompt: Prompt, model: Config) -> None:
    if not len(prompt):
        raise TextError("the prompt is empty: it needs at least one token")
    positions = model.gpt.max_position_embeddings
    if len(prompt) >= positions:
        raise TextError(
            f"the prompt has {len(prompt)} positions and the model {positions}: shorten the text "
            "or the sample prompt"
        )
    if prompt.text.ndim != 1:
        raise TextError(f"text ids have the shape {prompt.text.shape}; they must be one row")
    known = model.gpt.num_text_tokens
    stranger = _outside(prompt.text, known)
    if stranger is not None:
        raise TextError(
            f"unknown token {stranger}: text ids go from 0 to {known - 1}; make them with this "
            "checkpoint's tokenizer"
        )


def _check_voice(prompt: Prompt, model: Config) -> None:
    if len(prompt.codes):
        width, known = model.gpt.num_vq, model.gpt.num_audio_tokens - 1
        if prompt.codes.ndim != 2 or prompt.codes.shape[1] != width:
            raise VoiceError(
                f"sample codes have the shape {prompt.codes.shape}; this model needs "
                f"(frames, {width})"
            )
        stranger = _outside(prompt.codes, known)
        if stranger is not None:
            raise VoiceError(f"unknown code {stranger}: sample codes go from 0 to {known - 1}")
    if prompt.speaker_slots.shape != prompt.text.shape:
        raise VoiceError(
            f"speaker_slots has the shape {prompt.speaker_slots.shape}; it needs one value for "
            f"each of the {len(prompt.text)} text ids"
        )
    if prompt.speaker is None:
        return
    hidden = model.gpt.hidden_size
    if prompt.speaker.shape != (hidden,):
        raise VoiceError(
            f"the speaker vector has the shape {prompt.speaker.shape} and this model needs "
            f"({hidden},): it belongs to another model"
        )
    if not np.isfinite(prompt.speaker).all():
        raise VoiceError("the speaker vector is not finite; make it again")


def _outside(ids: NDArray[Any], count: int) -> Any:
    """The first of ``ids`` that is no whole number from 0 to ``count`` - 1, or ``None``."""
    strange = ids if ids.dtype.kind not in "iu" else ids[(ids < 0) | (ids >= count)]
    return strange.flat[0] if strange.size else None
