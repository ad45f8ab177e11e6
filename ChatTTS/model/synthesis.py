"""From what the language model gives to samples: one of the two mel decoders, then the vocoder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from .dvae import DVAE, MelDecoder
from .vocoder import Vocoder


class Synthesizer:
    """Frames to samples, through the Decoder (from hidden states) or the DVAE (from codes).

    Everything here is local in time: a sample depends on ``reach`` mel frames on each side.

    Args:
        mel_decoder: the Decoder, or the DVAE where codes are to be used.
        vocoder: mel to samples.
        turns: held while samples are computed, by all who need the same cores.
    """

    def __init__(
        self,
        mel_decoder: MelDecoder,
        vocoder: Vocoder,
        turns: AbstractContextManager[None] | None = None,
    ) -> None:
        self.mel_decoder = mel_decoder
        self.vocoder = vocoder
        self._turns = nullcontext() if turns is None else turns
        self.hop = vocoder.config.mel.hop_length

    @property
    def reach(self) -> int:
        """Mel frames on each side of a sample that it depends on."""
        return self.mel_decoder.reach + self.vocoder.reach

    def frames(self, ids: Tensor, hiddens: Tensor) -> Tensor:
        """Of a delta's codes [n, num_vq] and hidden states [n, hidden], those that are used."""
        return ids if isinstance(self.mel_decoder, DVAE) else hiddens

    def length(self, frames: int) -> int:
        """Samples of a whole utterance of so many frames."""
        return max(0, 2 * frames - 1) * self.hop

    @torch.inference_mode()
    def mel(self, frames: Tensor) -> Tensor:
        """Frames [n, num_vq or hidden] to log-mel [n_mels, 2 n]."""
        columns = frames.T.unsqueeze(0).to(self.mel_decoder.coef.device)
        if isinstance(self.mel_decoder, DVAE):
            return self.mel_decoder.decode(columns)[0]
        return self.mel_decoder(columns.float())[0]

    @torch.inference_mode()
    def samples(self, frames: Tensor) -> Tensor:
        """Frames [n, num_vq or hidden], n > 0, to float32 samples [(2 n - 1) * hop] on the CPU."""
        with self._turns:
            return self.vocoder(self.mel(frames).unsqueeze(0))[0].float().cpu()
