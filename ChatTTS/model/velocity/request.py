"""The checks that a request passes before an engine adds it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...config import Config, checked_heads
from ...errors import ConfigError, GenerationError, TextError, VoiceError, shown
from ...params import NumberRule
from ..generation import GenerationRequest, Listener, check_length
from ..lora.names import check_known
from ..random_numbers import DrawKey, Pass
from ..sampling_params import SamplingParams
from ..tokenizer import Prompt

T = TypeVar("T", SamplingParams, DrawKey, Listener)

# The counter of a draw has 16 bits for the index of a sample.
_MAX_SAMPLES = 2**16
_PRIORITY = NumberRule(float, "a finite number", math.isfinite)
_LARGEST = float(np.finfo(np.float32).max)


def checked_request(
    request: GenerationRequest, model: Config, capacity: int, adapters: Collection[str] = ()
) -> GenerationRequest:
    """Return a copy of a request that fits the model and consists of plain values.

    The engine's thread reads the copy, and serves other callers as well. So nothing that the
    caller still holds may change the copy, and no method of a caller's class may run there.

    Args:
        model: the sizes of the model.
        capacity: the positions that the KV cache holds.
        adapters: the names of those that are loaded.

    Raises:
        TextError: no text, unknown token ids, or too many positions for the model.
        VoiceError: a speaker vector or sample codes that are not of this model.
        ConfigError: sampling settings that do not fit the kind of answer, an invalid draw key,
            request id, priority, alignment head or listener, or an adapter that is not loaded.
        GenerationError: too many positions for the KV cache.
    """
    prompt = _copy(request.prompt)
    _check_text(prompt, model)
    _check_voice(prompt, model)
    if len(prompt) > capacity:
        raise GenerationError(
            f"the prompt has {len(prompt)} positions and the KV cache {capacity}: raise "
            "kv_memory, or shorten the text or the sample prompt"
        )
    sampling = _own(SamplingParams, "sampling", request.sampling)
    key = _own(DrawKey, "key", request.key)
    given, wanted = len(sampling.temperature), model.gpt.num_vq if key.kind is Pass.CODE else 1
    if given != wanted:
        raise ConfigError(f"temperature has {given} values; this pass draws {wanted}")
    first, past = key.sample, key.sample + sampling.n
    if past > _MAX_SAMPLES:
        raise ConfigError(
            f"samples {first} to {past - 1} are asked for, and a seed has those from 0 to "
            f"{_MAX_SAMPLES - 1}: take another seed for more"
        )
    return GenerationRequest(
        _as_stored(prompt),
        sampling,
        key,
        checked_heads(request.alignment_heads, model.gpt),
        check_known(request.adapter, adapters),
        _plain_id(request.request_id),
        _PRIORITY.read("priority", request.priority),
        None if request.listener is None else _own(Listener, "listener", request.listener),
    )


def _copy(prompt: Prompt) -> Prompt:
    """Return a prompt with copies of the arrays, of any dtype."""
    try:
        speaker = None if prompt.speaker is None else np.array(prompt.speaker)
        return Prompt(
            np.array(prompt.text), np.array(prompt.codes), speaker, np.array(prompt.speaker_slots)
        )
    except Exception as error:  # from a class of the caller's
        raise TextError(
            f"{shown(prompt)} is not a prompt ({type(error).__name__}: {error}); make it with "
            "Tokenizer.prompt"
        ) from error


def _as_stored(prompt: Prompt) -> Prompt:
    """Return a copied prompt with the dtypes that the engine uses."""
    speaker, codes = prompt.speaker, prompt.codes if len(prompt.codes) else np.zeros((0, 0))
    return Prompt(
        prompt.text.astype(np.int64, copy=False),
        codes.astype(np.int64, copy=False),
        None if speaker is None else speaker.astype(np.float32, copy=False),
        prompt.speaker_slots.astype(np.bool_, copy=False),
    )


def _own(kind: type[T], name: str, given: Any) -> T:
    """Return settings of exactly this class: it is frozen, and checked when it is made."""
    if type(given) is kind:
        return given
    if not isinstance(given, kind):
        raise ConfigError(f"{name} must be {kind.__name__}, not {shown(given)}")
    return kind(**{f.name: getattr(given, f.name) for f in fields(kind)})


def _plain_id(given: str) -> str:
    if not isinstance(given, str):
        raise ConfigError(f"request_id must be text, not {shown(given)}")
    return str.__str__(given)


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
