"""Find the attention heads of a checkpoint that follow the text, from sentences that it speaks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..config import MOST_HEADS, AlignmentHeads
from ..errors import GenerationError
from ..model.generation import Cancellation, Delta, FinishReason
from ..model.lora.names import BASE
from ..model.tokenizer import spoken_part
from ..params import InferCodeParams
from ..text.emphasis import has_emphasis
from ..utils.progress import progress
from .alignment.head_scores import HeadChoice, ScoredHead, choose_heads, score_heads
from .model import Model
from .sample_sentences import sample_sentences
from .speech_pass import SpeechPass
from .utterance import Utterance

logger = logging.getLogger(__name__)

_SEEDS = 3
# Twice what a slow speaker needs for a sample sentence: eight seconds.
_MAX_FRAMES = 384
# The best heads alone, from which the choice is made. Attention of all others is dropped early.
_CANDIDATES = 16

# A sample sentence and a seed, by their numbers.
_Key = tuple[int, int]


@dataclass(frozen=True)
class _Speech:
    """A sentence as it was spoken.

    Attributes:
        codes: int64 [frames, num_codebooks].
        attention: over the sentence and its end, float32 [frames, heads, columns].
        has_ended: whether the model found its end.
    """

    codes: NDArray[np.int64]
    attention: NDArray[np.float32]
    has_ended: bool


@dataclass(frozen=True)
class _Candidate:
    """A head with its attention in each speech, float32 [frames, columns]."""

    scored: ScoredHead
    attention: Mapping[_Key, NDArray[np.float32]]


def alignment_heads(model: Model, cancelled: Cancellation, *, show: bool = True) -> AlignmentHeads:
    """Return the attention heads that the times of words are found from.

    A checkpoint that names none is searched for them, once, which takes a while.

    Args:
        show: whether to show the progress on a terminal.

    Returns:
        Pairs of a layer and a head; none if ``cancelled`` was set during the search.

    Raises:
        EngineUnavailableError: a search is needed, and the engine gives no attention.
        GenerationError: the checkpoint speaks none of the sample sentences.
    """
    if model.alignment_heads:
        return model.alignment_heads

    def search() -> AlignmentHeads | None:
        logger.info(
            "this checkpoint names no attention heads for word times: searching for them, once"
        )
        choice = find_heads(model, cancelled, show=show)
        return None if choice is None else keep_heads(model, choice).heads

    return model.searched_heads.get(search, cancelled) or ()


def can_emphasise(model: Model, texts: Sequence[str]) -> bool:
    """Return whether texts have marks of emphasis, and the times of words are known for them.

    A warning says so where they are not: then the words are spoken as any others.
    """
    if not any(has_emphasis(text) for text in texts):
        return False
    if model.alignment_heads and model.gpt.gives_attention:
        return True
    logger.warning(
        "emphasis has no effect: %s",
        "no attention heads are known for word times; run `chattts align`"
        if model.gpt.gives_attention
        else "the engine does not give the attention from which word times are found",
    )
    return False


def keep_heads(model: Model, choice: HeadChoice) -> HeadChoice:
    """Use a choice from now on and store it; return it with its file."""
    kept = replace(choice, file=model.searched_heads.put(choice.heads, choice))
    logger.log(
        logging.WARNING if kept.is_poor else logging.INFO,
        "attention heads for word times: %s (score %.2f; %s)",
        kept.verdict,
        kept.joint.total,
        "not stored" if kept.file is None else f"in {kept.file}",
    )
    return kept


def find_heads(model: Model, cancelled: Cancellation, *, show: bool = True) -> HeadChoice | None:
    """Let the model speak sample sentences, and choose the heads that follow their text best.

    Args:
        show: whether to show the progress on a terminal.

    Returns:
        The choice, or ``None`` if ``cancelled`` was set before it was made.

    Raises:
        EngineUnavailableError: the engine gives no attention.
        GenerationError: the model speaks none of the sentences.
    """
    gpt = model.config.gpt
    heads = [(i, k) for i in range(gpt.num_hidden_layers) for k in range(gpt.num_attention_heads)]
    parts = [heads[i : i + MOST_HEADS] for i in range(0, len(heads), MOST_HEADS)]
    sentences = sample_sentences(model.config.defaults.language)
    candidates: list[_Candidate] = []
    codes: dict[_Key, NDArray[np.int64]] | None = None
    total = len(parts) * len(sentences) * _SEEDS
    with progress("finding attention heads", "sentence", show, total) as bar:
        for part in parts:
            speeches = _speeches(model, sentences, tuple(part), cancelled, bar)
            if speeches is None:
                return None
            codes = _common(codes, speeches)
            candidates = _best([*candidates, *_candidates(part, speeches)])
    attention = [
        np.stack([candidate.attention[key] for candidate in candidates], axis=1)
        for key in codes or ()
    ]
    if not attention:
        raise GenerationError(
            "attention heads for word times are found from what the checkpoint speaks, and it "
            "spoke none of the sample sentences: leave word_times out, or name the heads in "
            "defaults.alignment_heads of asset/config.json"
        )
    return choose_heads([candidate.scored for candidate in candidates], attention)


def _speeches(
    model: Model,
    sentences: Sequence[str],
    heads: AlignmentHeads,
    cancelled: Cancellation,
    bar: Any,
) -> dict[_Key, _Speech] | None:
    """Speak all sentences with all seeds; return ``None`` if cancelled.

    A speech without an end is left out, unless none has one.
    """
    defaults = model.config.defaults
    voices: list[str | None] = [*defaults.speakers] or [None]
    found = {}
    for seed in range(_SEEDS):
        params = InferCodeParams(
            spk_emb=voices[seed % len(voices)],
            max_new_token=_MAX_FRAMES,
            show_tqdm=False,
            adapter=BASE,  # the choice is kept for the checkpoint, whatever is loaded beside it
        )
        utterances = [Utterance(number, 0, text) for number, text in enumerate(sentences)]
        updates = SpeechPass(
            model,
            utterances,
            params.with_defaults(defaults.code),
            seed,
            batch_size=len(utterances),
            cancelled=cancelled,
            alignment_heads=heads,
        ).updates()
        deltas: dict[int, list[Delta]] = {number: [] for number in range(len(sentences))}
        for update in updates:
            gained = deltas[update.utterance.text_index]
            if update.is_restart:
                gained.clear()
            gained.append(update.delta)
            if update.delta.finish is not None:
                bar.update()
        if cancelled.is_set():
            return None
        for number, gained in deltas.items():
            columns = len(model.tokenizer.offsets(spoken_part(sentences[number]))) + 1
            if any(len(delta.ids) for delta in gained):
                found[number, seed] = _speech(gained, columns)
    ended = {key: speech for key, speech in found.items() if speech.has_ended}
    return ended or found


def _speech(deltas: Sequence[Delta], columns: int) -> _Speech:
    attention = [delta.attention for delta in deltas if delta.attention is not None]
    return _Speech(
        torch.cat([delta.ids for delta in deltas]).numpy(),
        torch.cat(attention)[:, :, -columns:].numpy(),
        deltas[-1].finish is FinishReason.STOP,
    )


def _common(
    earlier: Mapping[_Key, NDArray[np.int64]] | None, speeches: Mapping[_Key, _Speech]
) -> dict[_Key, NDArray[np.int64]]:
    """Return the codes of the speeches that are as they were for the heads before.

    With ``batch_invariant=False`` a sentence may be spoken in another way the next time. Heads of
    different speeches cannot be scored together.
    """
    return {
        key: speech.codes
        for key, speech in speeches.items()
        if earlier is None or (key in earlier and np.array_equal(earlier[key], speech.codes))
    }


def _candidates(
    heads: Sequence[tuple[int, int]], speeches: Mapping[_Key, _Speech]
) -> list[_Candidate]:
    """Return the scored heads of some speeches; none without speeches."""
    if not speeches:
        return []
    scores = score_heads([speech.attention for speech in speeches.values()])
    return [
        _Candidate(
            ScoredHead(layer, head, score),
            {key: speech.attention[:, index] for key, speech in speeches.items()},
        )
        for index, ((layer, head), score) in enumerate(zip(heads, scores, strict=True))
    ]


def _best(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the best candidates, best first, with attention of their own."""
    ranked = sorted(candidates, key=lambda each: each.scored.score.total, reverse=True)
    return [
        _Candidate(each.scored, {key: weights.copy() for key, weights in each.attention.items()})
        for each in ranked[:_CANDIDATES]
    ]
