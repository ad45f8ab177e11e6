"""The vocoder: log-mel to samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...config import VocosConfig
from ...errors import AssetError, ConfigError, shown
from ...weights.tensor_file import RESTORE
from ..mel import LogMel
from .vocoder_modules import ISTFT, ISTFTHead, VocosBackbone

_FEATURE_FLOOR = 1e-7  # of this model's mel features, which it is not given when it speaks


class Vocoder(nn.Module):
    """Vocos (Siuzdak, 2023): ConvNeXt blocks on mel frames, then an inverse Fourier transform.

    Raises:
        ConfigError: the frames are not centred.
    """

    def __init__(self, config: VocosConfig) -> None:
        super().__init__()
        mel = config.mel
        if mel.padding != ISTFT.padding:
            raise ConfigError(f"a vocoder's padding is {ISTFT.padding}, not {shown(mel.padding)}")
        self.config = config
        self.feature_extractor = LogMel(mel, _FEATURE_FLOOR)
        self.backbone = VocosBackbone(
            mel.n_mels, config.dim, config.intermediate_dim, config.num_layers
        )
        self.head = ISTFTHead(config.dim, mel.n_fft, mel.hop_length)

    @property
    def reach(self) -> int:
        """Mel frames on each side that the samples of one frame depend on."""
        mel = self.config.mel
        return 3 + 3 * self.config.num_layers + mel.n_fft // (2 * mel.hop_length)

    @property
    def overlap(self) -> int:
        """Hops in a frame of the transform.

        Raises:
            ConfigError: the transform cannot be computed in pieces.
        """
        transform: Any = self.head.istft
        n_fft, hop = int(transform.n_fft), int(transform.hop_length)
        overlap, rest = divmod(n_fft, hop)
        if transform.padding != "center" or rest or overlap % 2:
            raise ConfigError(
                "decoding in pieces needs a vocoder with centre padding and an n_fft that is an "
                f"even multiple of hop_length, not {transform.padding!r}, {n_fft} and {hop}; "
                "decode whole utterances with this one"
            )
        return overlap

    @torch.inference_mode()
    def check_window(self, file: Path) -> None:
        """Refuse a window whose frames cannot be summed to samples.

        Raises:
            AssetError: ``file`` holds such a window.
        """
        transform: Any = self.head.istft
        silence = transform.window.new_zeros(1, transform.n_fft // 2 + 1, 2).to(torch.complex64)
        try:
            samples = transform(silence)
        except RuntimeError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise AssetError(
                f"{file}: head.istft.window gives no inverse transform with hop_length "
                f"{transform.hop_length} ({reason}); {RESTORE}"
            ) from error
        if not samples.isfinite().all():
            raise AssetError(f"{file}: head.istft.window gives NaN for silence; {RESTORE}")

    def forward(self, mel: Tensor) -> Tensor:
        """Decode log-mel [B, n_mels, M] to samples [B, (M - 1) * hop]."""
        return cast(Tensor, self.head(self.backbone(mel)))

    @torch.inference_mode()
    def decode(self, mel: Tensor) -> Tensor:
        """Decode log-mel [B, n_mels, M] to samples; scripts call it by this name."""
        return cast(Tensor, self(mel.to(next(self.parameters()).device)))
