"""The vocoder: log-mel to samples, on the modules of the vocos package."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from ..config import VocosConfig
from .torchaudio_import import import_vocos


class Vocoder(nn.Module):
    """Vocos (Siuzdak, 2023): ConvNeXt blocks on mel frames, then an inverse Fourier transform."""

    def __init__(self, config: VocosConfig) -> None:
        super().__init__()
        vocos = import_vocos()
        mel = config.mel
        self.config = config
        self.feature_extractor = vocos.feature_extractors.MelSpectrogramFeatures(
            mel.sample_rate, mel.n_fft, mel.hop_length, mel.n_mels, mel.padding
        )
        self.backbone = vocos.models.VocosBackbone(
            mel.n_mels, config.dim, config.intermediate_dim, config.num_layers
        )
        self.head = vocos.heads.ISTFTHead(config.dim, mel.n_fft, mel.hop_length, mel.padding)

    @property
    def reach(self) -> int:
        """Mel frames on each side that the samples of one frame depend on."""
        mel = self.config.mel
        return 3 + 3 * self.config.num_layers + mel.n_fft // (2 * mel.hop_length)

    def forward(self, mel: Tensor) -> Tensor:
        """Log-mel [B, n_mels, M] to samples [B, (M - 1) * hop]."""
        return cast(Tensor, self.head(self.backbone(mel)))
