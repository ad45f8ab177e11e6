"""Utterances to the engine's requests: seeds, batches and prompts that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ..errors import TextError
from ..model.generation import GenerationRequest
from ..model.random_numbers import DrawKey
from ..model.sampling_params import SamplingParams
from ..params import RefineTextParams
from .model import Model
from .utterance import Utterance
from .voice import Voice


def choose_seed(params: RefineTextParams) -> int:
    """Return the given seed, or draw one from torch's global generator."""
    if params.manual_seed is not None:
        return int(params.manual_seed)  # numpy's whole numbers are bounded
    return int(torch.randint(2**63 - 1, ()))


def batches_of(utterances: Sequence[Utterance], size: int) -> Iterator[Sequence[Utterance]]:
    """Yield the utterances in batches of at most ``size``."""
    for start in range(0, len(utterances), size):
        yield utterances[start : start + size]


def request_of(
    model: Model,
    utterance: Utterance,
    decorated: str,
    sampling: SamplingParams,
    key: DrawKey,
    voice: Voice | None = None,
) -> GenerationRequest:
    """Return the request of an utterance.

    Args:
        decorated: its text with all that the prompt has around it.
        voice: whose speaker vector and sample the prompt gets; none by default.

    Raises:
        TextError: the prompt leaves no room for an answer.
    """
    voice = voice or Voice()
    prompt = model.tokenizer.prompt(decorated, speaker=voice.speaker, codes=voice.sample)
    limit = model.config.gpt.max_position_embeddings
    if len(prompt) >= limit:
        raise TextError(
            f"the prompt of {utterance.shown[:40]!r} has {len(prompt)} positions and the model "
            f"{limit}: shorten the text or the sample prompt, or leave split_text on"
        )
    return GenerationRequest(prompt, sampling, key)
