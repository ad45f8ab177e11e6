"""The two passes and the decoding one by one, for scripts that join them by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model.generation import Cancellation, GenerationRequest
from ..model.random_numbers import DrawKey, Pass
from ..model.sampling_params import SamplingParams
from ..model.script_gpt import GenerationOutputs
from ..model.tokenizer import refine_prompt
from ..params import InferCodeParams, RefineTextParams
from ..pipeline.model import Model
from ..pipeline.refine_pass import keeps_words, may_refine
from ..pipeline.requests import choose_seed
from ..pipeline.speech_pass import SpeechPass
from ..pipeline.utterance import Utterance
from ..pipeline.voice import text_speaker


def code_outputs(
    model: Model,
    texts: Sequence[str],
    params: InferCodeParams,
    cancelled: Cancellation,
    *,
    stream: bool,
) -> Iterator[GenerationOutputs]:
    """Speak texts as they are, one utterance each, and yield all codes and hidden states so far.

    Args:
        stream: yield whenever ``params.stream_batch`` frames are new, instead of at the end alone.

    Raises:
        TextError, VoiceError, ConfigError: a prompt, voice or setting does not fit.
    """
    utterances = [
        Utterance(number, 0, text, speaker=text_speaker(model, params, text))
        for number, text in enumerate(texts)
    ]
    config = model.config
    ids = [[torch.empty(0, config.gpt.num_vq, dtype=torch.int64)] for _ in texts]
    hiddens = [[torch.empty(0, config.gpt.hidden_size)] for _ in texts]
    updates = SpeechPass(
        model,
        utterances,
        params,
        choose_seed(params),
        batch_size=max(1, len(utterances)),
        cancelled=cancelled,
    ).updates()
    longest = shown = 0
    for update in updates:
        row, delta = update.utterance.text_index, update.delta
        if update.is_restart:
            del ids[row][1:], hiddens[row][1:]
        ids[row].append(delta.ids)
        hiddens[row].append(delta.hiddens.float().cpu())
        longest = max(longest, sum(map(len, ids[row])))
        if stream and longest - shown >= params.stream_batch:
            yield _outputs(ids, hiddens)
            shown = longest
    if not stream or longest > shown or not longest:
        yield _outputs(ids, hiddens)


def _outputs(ids: Sequence[list[Tensor]], hiddens: Sequence[list[Tensor]]) -> GenerationOutputs:
    return GenerationOutputs([torch.cat(row) for row in ids], [], [torch.cat(r) for r in hiddens])


def refine_outputs(
    model: Model, texts: Sequence[str], params: RefineTextParams, cancelled: Cancellation
) -> GenerationOutputs:
    """Refine texts; return the ids of the answers, whose text ``tokenizer.decode`` gives.

    A text that this checkpoint cannot refine, or shall not change, is its own answer.

    Raises:
        TextError: a text is too long for the model.
    """
    own = [torch.from_numpy(model.tokenizer.ids(text)) for text in texts]
    chosen = [row for row, text in enumerate(texts) if _is_refined(model, text, params.prompt)]
    sampling, seed = SamplingParams.from_params(params, num_codebooks=1), choose_seed(params)
    requests = [
        GenerationRequest(
            model.tokenizer.prompt(refine_prompt(texts[row], params.prompt)),
            sampling,
            DrawKey(seed, Pass.REFINE),
        )
        for row in chosen
    ]
    answers: list[list[Tensor]] = [[torch.empty(0, dtype=torch.int64)] for _ in chosen]
    if requests:
        for deltas in model.gpt.generate(requests, cancelled):
            for delta in deltas:
                answers[delta.index].append(delta.ids.flatten())
    for row, answer in zip(chosen, map(torch.cat, answers), strict=True):
        if not model.config.defaults.refine_keeps_words or keeps_words(
            texts[row], model.tokenizer.decode_refined(answer.numpy()), params.prompt
        ):
            own[row] = answer
    return GenerationOutputs(own, [], [])


def _is_refined(model: Model, text: str, prompt: str) -> bool:
    spells = model.tokenizer.front_end is None or model.tokenizer.spells(text)
    return spells and may_refine(model.config.defaults, prompt)


def joined_waveforms(
    model: Model, rows: Sequence[Tensor], use_decoder: bool
) -> NDArray[np.float32]:
    """Return the samples of frames, float32 [rows, n], with silence behind the shorter ones.

    Args:
        rows: of each, hidden states [frames, hidden], or codes [frames, num_codebooks].
        use_decoder: whether they are hidden states.
    """
    synthesizer = model.synthesizer(use_decoder)

    def decode() -> list[NDArray[np.float32]]:
        return [
            synthesizer.samples(row).numpy() if len(row) else np.zeros(0, np.float32)
            for row in rows
        ]

    waveforms = model.gpt.compute_lock.run(decode)
    joined = np.zeros((len(rows), max(map(len, waveforms), default=0)), np.float32)
    for row, waveform in zip(joined, waveforms, strict=True):
        row[: len(waveform)] = waveform
    return joined
