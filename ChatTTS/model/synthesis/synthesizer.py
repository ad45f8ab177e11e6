"""Frames of the language model to samples: one of the two mel decoders, then the vocoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from ..cuda.capture_thread import Capturable
from ..dvae import DVAE, MelDecoder
from .cuda_decoder import CudaStreamingDecoder
from .streaming_decoder import DecoderInput, DecoderState, StreamingDecoder
from .torch_decoder import TorchStreamingDecoder
from .vocoder import Vocoder


class Synthesizer:
    """Frames to samples, through the Decoder (from hidden states) or the DVAE (from codes).

    Everything here is local in time: a sample depends on ``reach`` mel frames on each side.

    Args:
        mel_decoder: the Decoder, or the DVAE where codes are to be used.
        vocoder: mel to samples.
        decoder: both of them on kernels; by default the modules are used.
    """

    def __init__(
        self,
        mel_decoder: MelDecoder,
        vocoder: Vocoder,
        decoder: StreamingDecoder | None = None,
    ) -> None:
        self.mel_decoder = mel_decoder
        self.vocoder = vocoder
        self.hop = vocoder.config.mel.hop_length
        self.samples_per_frame = 2 * self.hop
        self._given = decoder

    @cached_property
    def reach(self) -> int:
        """Mel frames on each side of a sample that it depends on."""
        return self.mel_decoder.reach + self.vocoder.reach

    @property
    def is_exact(self) -> bool:
        """Return whether samples in pieces are those of the whole to the last bit."""
        return self._given is not None and self._given.exact

    @property
    def by_launches(self) -> bool:
        """Return whether some tens of frames cost about as much as one: see the decoder's."""
        return self._decoder.by_launches

    @property
    def capturable(self) -> Capturable | None:
        """Return the decoder, if it has launches that are captured."""
        return self._given if isinstance(self._given, CudaStreamingDecoder) else None

    def frames(self, ids: Tensor, hiddens: Tensor) -> Tensor:
        """Return codes [n, num_codebooks] or hidden states [n, hidden], as the decoder reads."""
        return ids if isinstance(self.mel_decoder, DVAE) else hiddens

    def length(self, frames: int) -> int:
        """Return the number of samples of a whole utterance, by its frames."""
        return max(0, 2 * frames - 1) * self.hop

    def final(self, frames: int) -> int:
        """Return how many samples do not depend on what follows these frames."""
        return max(0, 2 * frames - self.reach) * self.hop

    @torch.inference_mode()
    def mel(self, frames: Tensor) -> Tensor:
        """Decode frames [n, num_codebooks or hidden] to log-mel [n_mels, 2 n]."""
        columns, coef = frames.T.unsqueeze(0), self.mel_decoder.coef
        if isinstance(self.mel_decoder, DVAE):
            return self.mel_decoder.decode(columns.to(coef.device))[0]
        mel: Tensor = self.mel_decoder(columns.to(coef))
        return mel[0]

    def samples(self, frames: Tensor) -> Tensor:
        """Decode n > 0 frames [n, num_codebooks or hidden] to CPU samples [(2 n - 1) * hop]."""
        return self.launch_samples(frames)()

    @torch.inference_mode()
    def launch_samples(self, frames: Tensor) -> Callable[[], Tensor]:
        """Begin to do as :meth:`samples`; return what waits for the samples and gives them."""
        if self._given is not None:
            state = self._given.begin()
            pending = self._given.launch([DecoderInput(state, frames, last=True)])
            return lambda: pending()[0]
        samples: Tensor = self.vocoder(self.mel(frames).unsqueeze(0))[0].float().cpu()
        return lambda: samples

    @cached_property
    def _decoder(self) -> StreamingDecoder:
        return self._given or TorchStreamingDecoder(self.mel_decoder, self.vocoder)

    def begin(self) -> DecoderState:
        """Return the state of a new utterance, for :meth:`advance`.

        Raises:
            ConfigError: the vocoder cannot compute in pieces.
        """
        return self._decoder.begin()

    def advance(self, inputs: Sequence[DecoderInput]) -> list[Tensor]:
        """Decode the next frames of utterances to the samples that became final.

        After ``n`` frames of an utterance :meth:`final` samples are out, after its last frame
        :meth:`length`. They equal those of :meth:`samples`, up to rounding where the synthesizer
        is not exact.

        Raises:
            ChatTTSError: an utterance has ended already, or is in two inputs.
        """
        return self._decoder.advance(inputs)

    def launch(self, inputs: Sequence[DecoderInput]) -> Callable[[], list[Tensor]]:
        """Begin to do as :meth:`advance`; return what waits for the samples and gives them.

        Raises:
            ChatTTSError: as :meth:`advance`.
        """
        return self._decoder.launch(inputs)
