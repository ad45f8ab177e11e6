"""Recordings as the model reads them: normalised transcripts, and codes of the codec."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import AssetError, NothingToSpeakError
from ..model.dvae import DVAE
from ..model.tokenizer import Tokenizer
from ..text.normalizer import Normalizer
from ..text.prepare import prepare
from ..utils.progress import progress
from .recordings import LeftOut, Recording, Recordings

FRAME_SAMPLES = 512
"""Samples of a frame."""

_MOST_UNKNOWN = 0.1  # share of the letters of a transcript
_SHOWN_LETTERS = 6
# Codes that use fewer than so many values come from an encoder without weights of its own.
_LEAST_VALUES = 2


@dataclass(frozen=True, eq=False)
class CodedRecording:
    """A recording that the language model can read.

    Attributes:
        name: of the recording.
        text: what is said, as the model reads it.
        codes: int64 [frames, num_codebooks].
    """

    name: str
    text: str
    codes: NDArray[np.int64]

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.codes) * FRAME_SAMPLES / 24_000


def encode_recordings(
    recordings: Recordings,
    *,
    dvae: DVAE,
    normalizer: Normalizer,
    tokenizer: Tokenizer,
    show_tqdm: bool = False,
) -> tuple[list[CodedRecording], Recordings]:
    """Normalise the transcripts and encode the sound.

    Returns:
        The coded recordings, and ``recordings`` with those left out whose transcripts the
        checkpoint cannot read.

    Raises:
        VoiceError: all were left out.
        AssetError: the codec's encoder was never trained.
    """
    readable: list[tuple[Recording, str]] = []
    faults: list[LeftOut] = []
    for recording in recordings.kept:
        try:
            readable.append((recording, _readable(recording.text, normalizer, tokenizer)))
        except _UnreadableError as error:
            faults.append(LeftOut(recording.name, str(error)))
    left = recordings.without(faults).checked()
    coded = [
        CodedRecording(recording.name, text, _codes(recording, dvae))
        for recording, text in _shown(readable, show_tqdm)
    ]
    if max(len(np.unique(each.codes)) for each in coded) < _LEAST_VALUES:
        raise AssetError(
            "the codec of this checkpoint gives the same code for every sound: its encoder has no "
            "weights of its own. Take a checkpoint with the whole codec (`chattts download`)"
        )
    return coded, left


class _UnreadableError(Exception):
    """A transcript that the checkpoint cannot read; the message is the reason."""


def _readable(text: str, normalizer: Normalizer, tokenizer: Tokenizer) -> str:
    letters = [letter for letter in text if letter.isalpha()]
    unknown = [letter for letter in letters if not _is_known(letter, tokenizer)]
    if len(unknown) > _MOST_UNKNOWN * len(letters):
        some = " ".join(sorted(set(unknown))[:_SHOWN_LETTERS])
        raise _UnreadableError(
            f"{len(unknown)} of the {len(letters)} letters of its transcript are unknown to this "
            f"checkpoint ({some}): it does not speak this language"
        )
    try:
        return prepare(text, normalizer, split_text=False)[0]
    except NothingToSpeakError:
        raise _UnreadableError(
            "its transcript has nothing that this checkpoint can speak"
        ) from None


def _is_known(letter: str, tokenizer: Tokenizer) -> bool:
    """Return whether a letter is known, or the one that is left of it without its accents."""
    plain = unicodedata.normalize("NFKD", letter.lower())[:1]
    return tokenizer.knows(letter.lower()) or tokenizer.knows(plain)


def _codes(recording: Recording, dvae: DVAE) -> NDArray[np.int64]:
    with torch.inference_mode():
        samples = torch.from_numpy(recording.samples).to(dvae.coef.device)
        codes = dvae.encode(samples.unsqueeze(0))[0].cpu().numpy()
    frames: NDArray[np.int64] = codes.T.astype(np.int64)
    return frames


def _shown(items: list[tuple[Recording, str]], show: bool) -> Iterator[tuple[Recording, str]]:
    with progress("encode", "recording", show, total=len(items)) as bar:
        for item in items:
            yield item
            bar.update()
