"""A request, and the checks that it passes before an engine adds it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import AlignmentHeads, Config, checked_heads
from ...errors import ConfigError, GenerationError, TextError, VoiceError, shown
from ..adapter_names import check_known
from ..draws import DrawKey, Pass
from ..generation import check_length
from ..tokenizer import Prompt
from .sampling_params import SamplingParams

# The counter of a draw has 16 bits for the index of a sample.
_MAX_SAMPLES = 2**16
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class EngineRequest:
    """One prompt and all that its answer depends on.

    Attributes:
        request_id: unique among the unfinished requests.
        key: of sample 0's draws; sample i has ``key.sample + i``. ``key.kind`` tells whether the
            answer is frames of codes or text ids.
        priority: lower comes first, if the engine's policy is ``priority``.
        alignment_heads, adapter: see :class:`~ChatTTS.model.generation.GenerationRequest`.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    key: DrawKey
    priority: float = 0
    alignment_heads: AlignmentHeads = ()
    adapter: str | None = None

    @property
    def num_outputs(self) -> int:
        """The number of samples that the caller gets."""
        return 1 if self.sampling.best else self.sampling.n

    def checked(
        self, model: Config, capacity: int, adapters: Collection[str] = ()
    ) -> EngineRequest:
        """Return a copy that fits the model and consists of plain values.

        The engine's thread reads the copy, and serves other callers as well. So nothing that the
        caller still holds may change the copy, and no method of a caller's class may run there.

        Args:
            model: the sizes of the model.
            capacity: the positions that the key-value cache holds.
            adapters: the names of those that are loaded.

        Raises:
            TextError: no text, unknown token ids, or too many positions for the model.
            VoiceError: a speaker vector or sample codes that are not of this model.
            ConfigError: sampling settings that do not fit the kind of answer, an invalid draw key,
                request id, priority or alignment head, or an adapter that is not loaded.
            GenerationError: too many positions for the key-value cache.
        """
        prompt = _copy(self.prompt)
        _check_text(prompt, model)
        _check_voice(prompt, model)
        if len(prompt) > capacity:
            raise GenerationError(
                f"the prompt has {len(prompt)} positions and the key-value cache {capacity}: raise "
                "kv_memory, or shorten the text or the sample prompt"
            )
        sampling = _plain_sampling(self.sampling)
        _check_key(self.key)
        request = EngineRequest(
            request_id=_plain_id(self.request_id),
            prompt=_as_stored(prompt),
            sampling=sampling,
            key=_plain_key(self.key),
            priority=_plain_priority(self.priority),
            alignment_heads=checked_heads(self.alignment_heads, model.gpt),
            adapter=check_known(self.adapter, adapters),
        )
        given = len(sampling.temperature)
        wanted = model.gpt.num_vq if request.key.kind is Pass.CODE else 1
        if given != wanted:
            raise ConfigError(f"temperature has {given} values; this pass draws {wanted}")
        first, past = request.key.sample, request.key.sample + sampling.n
        if first < 0 or past > _MAX_SAMPLES:
            raise ConfigError(
                f"samples {first} to {past - 1} are asked for, and a seed has those from 0 to "
                f"{_MAX_SAMPLES - 1}: take another seed for more"
            )
        return request


def _copy(prompt: Prompt) -> Prompt:
    """Return a prompt with copies of the arrays, of any dtype."""
    try:
        speaker = None if prompt.speaker is None else np.array(prompt.speaker)
        return Prompt(
            np.array(prompt.text), np.array(prompt.codes), speaker, np.array(prompt.speaker_slots)
        )
    except Exception as error:  # from a class of the caller's
        raise TextError(
            f"{shown(prompt)} is no prompt ({type(error).__name__}: {error}); make it with "
            "Tokenizer.prompt"
        ) from error


def _as_stored(prompt: Prompt) -> Prompt:
    """Return a copy with the dtypes that the engine uses."""
    speaker = prompt.speaker
    return Prompt(
        prompt.text.astype(np.int64),
        prompt.codes.astype(np.int64) if len(prompt.codes) else np.zeros((0, 0), dtype=np.int64),
        None if speaker is None else speaker.astype(np.float32),
        prompt.speaker_slots.astype(np.bool_),
    )


def _plain_sampling(given: SamplingParams) -> SamplingParams:
    if type(given) is SamplingParams:
        return given  # immutable, and checked when it was made
    if not isinstance(given, SamplingParams):
        raise ConfigError(f"sampling must be SamplingParams, not {shown(given)}")
    return SamplingParams(**{f.name: getattr(given, f.name) for f in fields(SamplingParams)})


def _plain_id(given: str) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"request_id must be text, not {shown(given)}")
    return str.__str__(given)


def _plain_key(key: DrawKey) -> DrawKey:
    numbers = (int.__index__(n) for n in (key.utterance, key.sample, key.attempt))
    return DrawKey(int.__index__(key.seed) % 2**64, Pass(key.kind), *numbers)


def _plain_priority(given: float) -> float:
    try:
        number = float(given)
    except Exception:  # from a class of the caller's, or the number is too large
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"priority must be a finite number, not {shown(given)}")
    return number


def _check_key(key: DrawKey) -> None:
    if not isinstance(key, DrawKey) or key.kind not in tuple(Pass):
        raise ConfigError(f"the draw key is {shown(key)}; it must be a DrawKey of a Pass")
    # Not numpy's integers: a seed may have more bits than those.
    for name in ("seed", "utterance", "sample", "attempt"):
        value = getattr(key, name)
        if not isinstance(value, int):
            raise ConfigError(f"{name} of a draw key must be an int, not {shown(value)}")
    for name, past in (("utterance", 2**32), ("attempt", 2**16)):
        value = int.__index__(getattr(key, name))
        if not 0 <= value < past:
            raise ConfigError(
                f"{name} of a draw key must be from 0 to {past - 1}, not {shown(value)}"
            )


def _check_text(prompt: Prompt, model: Config) -> None:
    if prompt.text.ndim != 1:
        raise TextError(f"text ids have the shape {prompt.text.shape}; they must be one row")
    if not len(prompt):
        raise TextError("the prompt is empty: it needs at least one token")
    check_length(prompt, model.gpt.max_position_embeddings)
    known = model.gpt.num_text_tokens
    unknown = _outside(prompt.text, known)
    if unknown is not None:
        raise TextError(
            f"unknown token {unknown}: text ids go from 0 to {known - 1}; make them with this "
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
        unknown = _outside(prompt.codes, known)
        if unknown is not None:
            raise VoiceError(f"unknown code {unknown}: sample codes go from 0 to {known - 1}")
    if prompt.speaker_slots.dtype.kind not in "biu":
        raise VoiceError(
            f"speaker_slots holds {prompt.speaker_slots.dtype}; it needs true or false"
        )
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
    if prompt.speaker.dtype.kind not in "fiu":
        raise VoiceError(f"the speaker vector holds {prompt.speaker.dtype}; it needs floats")
    if not (np.abs(prompt.speaker) <= _LARGEST).all():
        raise VoiceError("the speaker vector is not finite; make it again")


def _outside(ids: NDArray[Any], count: int) -> str | None:
    """Return the first of ``ids`` that is not an integer from 0 to ``count`` - 1, as text for an
    error message, or ``None``."""
    outside = ids if ids.dtype.kind not in "iu" else ids[(ids < 0) | (ids >= count)]
    if not outside.size:
        return None
    first = outside.flat[0]
    return f"{first}" if isinstance(first, np.number) else shown(first)
