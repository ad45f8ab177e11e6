"""The tokenizer with the interface of the published package: texts to tensors and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import VoiceError
from .tokenizer import Tokenizer


class ScriptTokenizer(Tokenizer):
    """A tokenizer that also has the published names, for scripts; no engine uses them."""

    @property
    def len(self) -> int:
        """Number of text ids, control tokens included."""
        return self.size

    @property
    def spk_emb_ids(self) -> int:
        """The id of ``[spk_emb]``."""
        return self.speaker_slot

    @property
    def break_0_ids(self) -> int:
        """The id of ``[break_0]``; lower ids of a refined answer are text."""
        return self.first_setting

    @property
    def eos_token(self) -> int:
        """The id that ends a refined answer."""
        return self.end_of_refine

    @overload
    def encode(self, text: str) -> NDArray[np.int64]: ...
    @overload
    def encode(
        self,
        text: Sequence[str],
        num_vq: int,
        prompt: Tensor | None = None,
        device: str | torch.device = "cpu",
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    def encode(
        self,
        text: str | Sequence[str],
        num_vq: int = 4,
        prompt: Tensor | None = None,
        device: str | torch.device = "cpu",
    ) -> NDArray[np.int64] | tuple[Tensor, Tensor, Tensor]:
        """Encode one text as ids [n], or decorated texts as a batch.

        Args:
            num_vq: how often each id is repeated.
            prompt: codes [num_vq, frames] that follow every text.

        Returns:
            For a batch: the ids [B, T, num_vq], padded on the left with 0; a mask of the positions
            that are not padding [B, T] int64; and a mask of those that are text [B, T] bool.

        Raises:
            VoiceError: ``prompt`` has another shape.
        """
        if isinstance(text, str):
            return self.ids(text)
        codes = torch.empty(num_vq, 0, dtype=torch.int64) if prompt is None else prompt.cpu()
        if codes.dim() != 2 or len(codes) != num_vq:
            raise VoiceError(f"prompt must be [{num_vq}, frames], not {list(codes.shape)}")
        texts = [torch.from_numpy(self.ids(t)) for t in text]
        frames = codes.shape[1]
        end = max(map(len, texts), default=0)
        ids = torch.zeros(len(texts), end + frames, num_vq, dtype=torch.int64)
        is_text = torch.zeros(len(texts), end + frames, dtype=torch.bool)
        for row, values in enumerate(texts):
            ids[row, end - len(values) : end] = values.unsqueeze(1)
            is_text[row, end - len(values) : end] = True
        ids[:, end:] = codes.T
        mask = is_text.long()
        mask[:, end:] = 1
        return ids.to(device), mask.to(device), is_text.to(device)

    def decode(self, sequences: Any, skip_special_tokens: bool = False) -> Any:
        """Decode ids to text, or several sequences of ids to a list of texts.

        Args:
            sequences: an int64 array [n], or a list or tensor of sequences.
            skip_special_tokens: leave out the control tokens.
        """
        if isinstance(sequences, np.ndarray) and sequences.ndim == 1:
            return self._decoded(sequences, skip_special_tokens)
        return [self._decoded(ids, skip_special_tokens) for ids in sequences]
