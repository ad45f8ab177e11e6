"""Sequences of a prompt and codes, and their layout in tensors.

A batch is padded on the right. The model is causal, so no position is influenced by the padding
after it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..model.embed import Embed
from ..model.tokenizer import Tokenizer, code_prompt

IGNORED = -100
"""The target of a position that losses ignore."""

T = TypeVar("T", bound="CodeBatch")


@dataclass(frozen=True, eq=False)
class CodeSequence:
    """Text ids, then frames of codes; the positions after the prompt are predicted.

    Attributes:
        ids: int64 [n].
        codes: int64 [m, num_codebooks], beginning with the frames of a voice sample, if any.
        prompt_length: number of positions of the prompt.
        slot: index of the speaker's position in ``ids``, or None.
    """

    ids: NDArray[np.int64]
    codes: NDArray[np.int64]
    prompt_length: int
    slot: int | None = None

    def __len__(self) -> int:
        return len(self.ids) + len(self.codes)


def code_sequence(
    tokenizer: Tokenizer, text: str, codes: NDArray[np.int64], *, prompt: str = ""
) -> CodeSequence:
    """Return the sequence of an utterance after the prompt that inference gives it with a speaker.

    Args:
        text: what is said, as the model reads it.
        codes: int64 [frames, num_codebooks].
        prompt: control tags before the text, such as ``[speed_5]``.

    Raises:
        TextError: the tokenizer cannot read the text.
    """
    read = tokenizer.prompt(code_prompt(text, prompt, speaker=True))
    return CodeSequence(
        read.text, codes, len(read.text), slot=int(np.flatnonzero(read.speaker_slots)[0])
    )


@dataclass(frozen=True, eq=False)
class CodeBatch:
    """Sequences of speech, [B, L] positions.

    Attributes:
        ids: text ids, int64 [B, L]; 0 elsewhere.
        codes: code frames that the model reads, int64 [B, L, num_codebooks]; 0 elsewhere.
        is_code: bool [B, L], whether the position is a code frame.
        is_slot: bool [B, L], whether the position is the speaker's.
        targets: codes to predict, including the end, int64 [B, L, num_codebooks]; ``IGNORED``
            elsewhere.
    """

    ids: Tensor
    codes: Tensor
    is_code: Tensor
    is_slot: Tensor
    targets: Tensor

    def to(self: T, device: torch.device | str) -> T:
        """Return a copy on ``device``."""
        return type(self)(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    @property
    def tokens(self) -> int:
        """The number of positions, padding included."""
        return self.ids.numel()


def code_batch(
    sequences: Items[CodeSequence], end: int, read: Items[NDArray[np.int64]] | None = None
) -> CodeBatch:
    """Lay out sequences.

    Args:
        end: the code that ends an utterance.
        read: for each sequence, frames that the model reads in place of its own.
    """
    size, length = len(sequences), max(map(len, sequences))
    num_codebooks = sequences[0].codes.shape[1]
    ids = np.zeros((size, length), np.int64)
    codes = np.zeros((size, length, num_codebooks), np.int64)
    is_code = np.zeros((size, length), np.bool_)
    is_slot = np.zeros_like(is_code)
    targets = np.full((size, length, num_codebooks), IGNORED, np.int64)
    for row, s in enumerate(sequences):
        n, whole = len(s.ids), len(s)
        ids[row, :n] = s.ids
        codes[row, n:whole] = s.codes if read is None else read[row]
        is_code[row, n:whole] = True
        if s.slot is not None:
            is_slot[row, s.slot] = True
        # Each position predicts the next one.
        targets[row, s.prompt_length - 1 : whole - 1] = s.codes[s.prompt_length - n :]
        targets[row, whole - 1] = end
    return CodeBatch(*map(torch.from_numpy, (ids, codes, is_code, is_slot, targets)))


def embed_batch(embed: Embed, batch: CodeBatch, speakers: Tensor | None = None) -> Tensor:
    """Return the vectors [B, L, hidden] that the Llama reads.

    Args:
        speakers: [B, hidden] or [1, hidden], the vector at the speaker's position of each sequence;
            gradients reach it. ``None`` leaves the embedding of ``[spk_emb]`` there.
    """
    x = torch.where(batch.is_code[..., None], embed.embed_codes(batch.codes), embed.text(batch.ids))
    if speakers is None:
        return x
    return torch.where(batch.is_slot[..., None], speakers[:, None].to(x.dtype), x)


def codebook_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each codebook in each frame, in nats, float32 [n, num_codebooks].

    Args:
        logits: float32 [n, num_codebooks, codes and the end].
        targets: int64 [n, num_codebooks].
    """
    # Of rows, since a softmax across an inner axis takes several times as long on a GPU.
    losses = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return losses.view(targets.shape)


def groups_of_similar_length(lengths: Items[int], most: int) -> list[list[int]]:
    """Group indices by similar length, each group at most ``most`` long with its padding.

    An item that is longer than that has a group of its own.
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if groups and lengths[index] * (len(groups[-1]) + 1) <= most:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
