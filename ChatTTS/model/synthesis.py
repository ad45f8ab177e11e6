"""From what the language model gives to samples: one of the two mel decoders, then the vocoder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from .dvae import DVAE, MelDecoder
from .incremental import State, begin
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
        columns = self._columns(frames).unsqueeze(0)
        if isinstance(self.mel_decoder, DVAE):
            return self.mel_decoder.decode(columns)[0]
        return self.mel_decoder(columns)[0]

    @torch.inference_mode()
    def samples(self, frames: Tensor) -> Tensor:
        """Frames [n, num_vq or hidden], n > 0, to float32 samples [(2 n - 1) * hop] on the CPU."""
        with self._turns:
            return self.vocoder(self.mel(frames).unsqueeze(0))[0].float().cpu()

    def begin(self) -> State:
        """The state of a new utterance, for :meth:`advance`.

        Raises:
            ConfigError: the vocoder cannot compute in pieces.
        """
        return begin(self.mel_decoder, self.vocoder)

    @torch.inference_mode()
    def advance(self, state: State, frames: Tensor | None, *, last: bool = False) -> Tensor:
        """The next frames of an utterance to the samples that became final.

        After ``n`` frames in all, ``max(0, 2 n - reach) * hop`` samples are out; after the last
        frame :meth:`length` of them, the same as those of :meth:`samples` up to rounding.

        Args:
            state: of this utterance; it goes on by these frames.
            frames: [n, num_vq or hidden], or ``None`` for none.
            last: whether the utterance ends here.

        Returns:
            float32 on the CPU, often empty.

        Raises:
            ChatTTSError: the utterance has ended already.
        """
        with self._turns:
            columns = None if frames is None or not len(frames) else self._columns(frames)
            hops = state.push(columns, last=last)
            return (
                torch.empty(0, dtype=torch.float32, device="cpu")
                if hops is None
                else hops.T.flatten().float().cpu()
            )

    def _columns(self, frames: Tensor) -> Tensor:
        """Frames as the mel decoder takes them: [num_vq, n] codes or [hidden, n] float32."""
        columns = frames.T.to(self.mel_decoder.coef.device)
        return columns if isinstance(self.mel_decoder, DVAE) else columns.float()
