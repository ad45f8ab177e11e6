"""The sequences that the language model reads: a prompt of symbols, then frames of codes.

They are the prompts of inference: `[Stts][spk_emb]...[speed_n]` with the transcript of a voice
sample, if there is one, then what is said, and `[Ptts]`.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ChatTTS.model.tokenizer import refine_prompt
from ChatTTS.text.pronunciation.alphabet import ALPHABET, as_tokens
from ChatTTS.voice_learning.sequences import CodeSequence

from .coded import Coded
from .refining import RefinePair
from .styles import speaker_vector
from .vocabulary import CONTROLS, phoneme_tokenizer


@dataclass(frozen=True, eq=False)
class Sequence(CodeSequence):
    """Text ids, then frames of codes, with what only this recipe knows of them.

    Attributes:
        speaker: the first coordinates of the speaker's vector, float32 [coordinates + 1]; None
            without a speaker.
        spoken: int64 [m, 2], first and last text position that is spoken in each frame.
        sounds: int64 [m, 2], the id of the symbol of each frame, and that of the next symbol.
    """

    speaker: NDArray[np.float32] | None = None
    spoken: NDArray[np.int64] | None = None
    sounds: NDArray[np.int64] | None = None


class Prompts:
    """Builds sequences.

    Args:
        tokenizer: of texts for the refine pass; its ids are those of all sequences.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer or phoneme_tokenizer()
        of = self._tokenizer.token_to_id
        self._ids = {symbol: of(as_tokens(symbol)) for symbol in ALPHABET}
        self._ids |= {tag: of(tag) for tag in CONTROLS}

    def speech(self, item: Coded, *, named: bool = True, sample: Coded | None = None) -> Sequence:
        """Return the sequence of an utterance after its prompt.

        Args:
            item: the utterance.
            named: whether the prompt contains the speaker.
            sample: an utterance that the prompt contains as a sample of the voice.
        """
        transcript = () if sample is None else sample.symbols
        head = ("[Stts]", "[spk_emb]" if named else "[empty_spk]", *transcript)
        head = (*head, f"[speed_{item.speed}]")
        symbols = (*head, *item.symbols, "[Ptts]")
        ids = np.array([self._ids[symbol] for symbol in symbols], np.int64)
        parts = [(item, len(head))] if sample is None else [(sample, 2), (item, len(head))]
        return Sequence(
            ids=ids,
            codes=np.concatenate([part.codes for part, _ in parts]).astype(np.int64),
            prompt_length=len(ids) + (0 if sample is None else len(sample.codes)),
            slot=1 if named else None,
            speaker=speaker_coordinates(item) if named else None,
            spoken=np.concatenate([spoken_positions(part, begin) for part, begin in parts]),
            sounds=np.concatenate([self._sounds(part) for part, _ in parts]),
        )

    def refine(self, pair: RefinePair, num_codebooks: int = 4) -> Sequence:
        """Return the sequence of a plain text with the refined text as the answer."""
        given = self._encoded(refine_prompt(pair.text, pair.prompt))
        answer = [*self._encoded(pair.refined), self._ids["[Ebreak]"]]
        return Sequence(
            ids=np.array([*given, *answer], np.int64),
            codes=np.zeros((0, num_codebooks), np.int64),
            prompt_length=len(given),
        )

    def _sounds(self, item: Coded) -> NDArray[np.int64]:
        """Return the id of each frame's symbol and of the one behind it, int64 [frames, 2]."""
        ids = np.array([self._ids[symbol] for symbol in (*item.symbols, "[Ptts]")], np.int64)
        latest = latest_symbols(item)
        return np.stack([ids[latest], ids[latest + 1]], axis=1)

    def _encoded(self, text: str) -> Items[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def speaker_coordinates(item: Coded) -> NDArray[np.float32]:
    """Return the part of the speaker's vector that is not 0, float32 [coordinates + 1]."""
    return speaker_vector(item.place, len(item.place) + 1)


def latest_symbols(item: Coded) -> NDArray[np.int64]:
    """Return the index of the symbol that is spoken in each frame, int64 [frames]."""
    frames = np.arange(len(item.codes))
    found: NDArray[np.int64] = np.searchsorted(item.starts, frames, side="right") - 1
    return found.clip(0)


def spoken_positions(item: Coded, begin: int) -> NDArray[np.int64]:
    """Return the first and last text position that each frame speaks, int64 [frames, 2].

    Symbols that begin in the same frame are spoken together.

    Args:
        item: the utterance.
        begin: position of its first symbol.
    """
    latest = latest_symbols(item)
    first = np.searchsorted(item.starts, item.starts[latest], side="left")
    return np.stack([first, latest], axis=1).astype(np.int64) + begin
