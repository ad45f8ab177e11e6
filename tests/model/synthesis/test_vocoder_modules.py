"""The vocoder's modules, compared with those of vocos where that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ChatTTS.config import Config, MelConfig, VocosConfig
from ChatTTS.errors import AssetError, ConfigError
from ChatTTS.model.synthesis.vocoder import Vocoder

from ...support.places import DATA, ROOT
from ...support.reference import vocos

SMALL = VocosConfig(MelConfig(n_fft=64, hop_length=16, n_mels=12), 24, 31, 3)
FOLDERS = {
    "bundled": ROOT / "ChatTTS" / "bundled",
    **{name: DATA / name for name in ("model-a", "model-b")},
}


def theirs(config: VocosConfig) -> Any:
    """Return the vocoder of vocos, with new weights."""
    peer, mel = vocos(), config.mel
    # In our order, in which random numbers are drawn for the weights.
    features = peer.feature_extractors.MelSpectrogramFeatures(
        mel.sample_rate, mel.n_fft, mel.hop_length, mel.n_mels, mel.padding
    )
    backbone = peer.models.VocosBackbone(
        mel.n_mels, config.dim, config.intermediate_dim, config.num_layers
    )
    head = peer.heads.ISTFTHead(config.dim, mel.n_fft, mel.hop_length, mel.padding)
    return peer.Vocos(features, backbone, head)


def same_state(ours: nn.Module, other: nn.Module) -> bool:
    first, second = ours.state_dict(), other.state_dict()
    return list(first) == list(second) and all(map(torch.equal, first.values(), second.values()))


def test_the_same_tensors_and_start_values() -> None:
    torch.manual_seed(3)
    other = theirs(SMALL)
    torch.manual_seed(3)
    assert same_state(Vocoder(SMALL), other)


@pytest.mark.parametrize("name", FOLDERS)
@torch.inference_mode()
def test_the_samples_of_vocos(name: str) -> None:
    asset: Path = FOLDERS[name] / "asset"
    config = Config.from_file(asset / "config.json").vocos
    ours, other = Vocoder(config).eval(), theirs(config).eval()
    tensors = load_file(asset / "Vocos.safetensors")
    ours.load_state_dict(tensors)
    other.load_state_dict(tensors)
    assert same_state(ours, other)
    generator = torch.Generator().manual_seed(5)
    samples = 0.1 * torch.randn(2, 12_000, generator=generator)
    assert torch.equal(ours.feature_extractor(samples), other.feature_extractor(samples))
    for frames in (2, 3, 7, 93):
        mel = 3 * torch.randn(2, config.mel.n_mels, frames, generator=generator)
        mel[0, :, frames // 2 :] += 40  # louder than magnitudes may be
        found, wanted = ours.decode(mel), other.decode(mel)
        assert torch.equal(found, wanted)
        assert found.shape == (2, (frames - 1) * config.mel.hop_length)


def test_gradients_of_vocos() -> None:
    torch.manual_seed(3)
    ours, other = Vocoder(SMALL), theirs(SMALL)
    other.load_state_dict(ours.state_dict())
    mel = torch.randn(1, 12, 9)

    def gradients(module: Any) -> list[Tensor]:
        module.head(module.backbone(mel)).square().sum().backward()
        return [parameter.grad for parameter in module.parameters()]

    assert all(map(torch.equal, gradients(ours), gradients(other)))


def test_other_paddings_are_refused() -> None:
    with pytest.raises(ConfigError, match="padding is center, not 'same'"):
        Vocoder(VocosConfig(MelConfig(padding="same")))


@pytest.mark.parametrize(("value", "what"), [(0.0, "no inverse transform"), (torch.nan, "NaN")])
def test_a_window_that_gives_no_samples_is_refused(value: float, what: str) -> None:
    vocoder = Vocoder(SMALL)
    vocoder.check_window(Path("Vocos.safetensors"))
    vocoder.head.istft.window.fill_(value)
    with pytest.raises(AssetError, match=f"Vocos.safetensors: head.istft.window gives {what}"):
        vocoder.check_window(Path("Vocos.safetensors"))
