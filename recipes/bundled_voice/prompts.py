"""Construction of the sequences that the language model reads, from utterances and refine pairs.

The package decorates the texts, so training uses exactly the prompts of inference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ChatTTS.model.tokenizer import code_prompt, refine_prompt
from ChatTTS.voice_learning.sequences import CodeSequence

from .types import RefinePair


@dataclass(frozen=True, eq=False)
class Coded:
    """An utterance of the corpus as codes.

    Attributes:
        text, voice, speed: as in ``Spoken``.
        point: the speaker, float32 [4], as ``speakers`` describes it.
        is_voice: whether the speaker is the voice itself.
        codes: int16 [frames, num_codebooks].
        starts: int32 [len(text)], the frame at which each character begins to be spoken.
        sounds: int8 [frames], the index in ``SOUNDS`` of each frame's sound.
    """

    text: str
    voice: str
    speed: int
    point: NDArray[np.float32]
    is_voice: bool
    codes: NDArray[np.int16]
    starts: NDArray[np.int32]
    sounds: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Sequence(CodeSequence):
    """Text ids, then frames of codes, with what only this recipe knows of them.

    Attributes:
        point: the speaker, float32 [4], or None.
        spoken: int64 [m, 2], first and last text position that is spoken in each frame; -1 if
            unknown.
        sounds: int64 [m, 2], the sound of each frame and the next different sound.
    """

    point: NDArray[np.float32] | None = None
    spoken: NDArray[np.int64] | None = None
    sounds: NDArray[np.int64] | None = None


class Prompts:
    """Builds sequences with one tokenizer.

    Args:
        tokenizer: the tokenizer of ``vocabulary.tokenizer``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._slot = tokenizer.token_to_id("[spk_emb]")
        self._end_of_refine = tokenizer.token_to_id("[Ebreak]")

    def speech(
        self, item: Coded, *, named: bool = True, sample: Coded | None = None, prompt: str = ""
    ) -> Sequence:
        """Return the sequence of an utterance after its prompt.

        Args:
            item: the utterance.
            named: whether the prompt contains the speaker.
            sample: an utterance that the prompt contains as a sample of the voice.
            prompt: the control tags before the text; ``[speed_n]`` of the item by default.

        Raises:
            ValueError: the text has white space around it, or nothing to speak.
        """
        transcript = None if sample is None else sample.text
        for text in (item.text, transcript):
            if text is not None and (not text or text != text.strip()):
                raise ValueError(f"{text!r} has white space around it, or nothing to speak")
        decorated = code_prompt(
            item.text, prompt or f"[speed_{item.speed}]", speaker=named, transcript=transcript
        )
        encoding = self._tokenizer.encode(decorated, add_special_tokens=False)
        ids = np.array(encoding.ids, dtype=np.int64)
        offsets = [begin for begin, _ in encoding.offsets]
        begin = len(decorated) - len("[Ptts]") - len(item.text)
        codes = [item.codes]
        spoken, sounds = [_spoken(offsets, begin, item)], [_sounds(item)]
        if sample is not None:
            codes.insert(0, sample.codes)
            begin = decorated.index("]", decorated.index("]") + 1) + 1
            spoken.insert(0, _spoken(offsets, begin, sample))
            sounds.insert(0, _sounds(sample))
        return Sequence(
            ids=ids,
            codes=np.concatenate(codes).astype(np.int64),
            given=len(ids) + (0 if sample is None else len(sample.codes)),
            slot=int(np.flatnonzero(ids == self._slot)[0]) if named else None,
            point=item.point if named else None,
            spoken=np.concatenate(spoken),
            sounds=np.concatenate(sounds),
        )

    def refine(self, pair: RefinePair, num_codebooks: int = 4) -> Sequence:
        """Return the sequence of a plain text with the refined text as the answer."""
        given = self._ids(refine_prompt(pair.text, pair.prompt))
        answer = [*self._ids(pair.refined), self._end_of_refine]
        return Sequence(
            ids=np.array([*given, *answer], dtype=np.int64),
            codes=np.zeros((0, num_codebooks), np.int64),
            given=len(given),
        )

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _spoken(offsets: list[int], begin: int, item: Coded) -> NDArray[np.int64]:
    """Return the first and last text position that each frame speaks, int64 [frames, 2].

    Tokens that begin at the same frame are spoken together.

    Args:
        offsets: where each token begins, in characters of the decorated text.
        begin: where the item's text begins in the decorated text.
        item: the utterance.
    """
    end = begin + len(item.text)
    positions = np.array([p for p, o in enumerate(offsets) if begin <= o < end], dtype=np.int64)
    starts = item.starts[[offsets[p] - begin for p in positions]]
    frames = np.arange(len(item.codes))
    latest = np.maximum(0, np.searchsorted(starts, frames, side="right") - 1)
    first = np.searchsorted(starts, starts[latest], side="left")
    return np.stack([positions[first], positions[latest]], axis=1)


def _sounds(item: Coded) -> NDArray[np.int64]:
    """Return the sound of each frame and the next different sound, int64 [frames, 2]."""
    sounds = item.sounds.astype(np.int64)
    changes = np.flatnonzero(np.diff(sounds, append=-1))  # last frames of sounds
    following = np.append(sounds[changes[:-1] + 1], 0)
    return np.stack([sounds, np.repeat(following, np.diff(changes, prepend=-1))], axis=1)
