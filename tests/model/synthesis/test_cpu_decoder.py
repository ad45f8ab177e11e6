"""The decoder on the CPU kernels, beyond the contract of all streaming decoders.

That contract is tested in ``test_streaming_decoder.py``.
"""

import copy
from functools import cache

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.synthesis.code_tables import CodeTables
from ChatTTS.model.synthesis.cpu_convnext import accelerate
from ChatTTS.model.synthesis.cpu_decoder import (
    NativeStreamingDecoder,
    PackedLayers,
)
from ChatTTS.model.synthesis.layers import vocoder_layers
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput

from ...support.decoder_tools import (
    by_torch,
    kernel_team,
    modules,
    native_decoder,
    small,
    some_frames,
    whole,
)


@cache
def decoder_of(
    use_decoder: bool = True, kind: str = "float32", threads: int = 2
) -> NativeStreamingDecoder:
    return native_decoder(*modules(use_decoder), kind, threads)


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.slow_for("False-*")
def test_bits_do_not_depend_on_threads(use_decoder: bool, kind: str) -> None:
    mel_decoder, _ = modules(use_decoder)
    frames = some_frames(mel_decoder, 70)
    for parts in ([frames], frames.split(9), frames[:12].split(1)):
        first, second, third = (
            torch.cat([native.advance([DecoderInput(state, part)])[0] for part in parts])
            for native in (decoder_of(use_decoder, kind, threads) for threads in (1, 2, 3))
            for state in [native.begin()]
        )
        assert torch.equal(first, second)
        assert torch.equal(first, third)


def test_bfloat16_stays_near() -> None:
    mel_decoder, vocoder = modules(True)
    frames = some_frames(mel_decoder, 50)
    expected = by_torch(mel_decoder, vocoder, frames)
    samples = whole(decoder_of(True, "bfloat16"), frames)
    assert 0 < (samples - expected).square().mean() < 1e-3 * expected.square().mean()


def test_the_weights_are_packed_copies() -> None:
    team = kernel_team(2)
    mel_decoder, vocoder = copy.deepcopy(modules(True))
    for module in (mel_decoder, vocoder):
        accelerate(module, team)
    native, frames = (
        NativeStreamingDecoder(mel_decoder, vocoder, team),
        some_frames(mel_decoder, 20),
    )
    expected = whole(native, frames)
    for parameter in [*mel_decoder.parameters(), *vocoder.parameters()]:
        parameter.data.fill_(torch.nan)
    vocoder.head.istft.window.fill_(torch.nan)
    del mel_decoder, vocoder, module, parameter  # the decoder alone keeps what it needs
    assert torch.equal(whole(native, frames), expected)


def test_two_decoders_share_a_vocoder() -> None:
    team = kernel_team(2)
    decoder, vocoder, dvae = copy.deepcopy((*modules(True), modules(False)[0]))
    for module in (decoder, vocoder, dvae):
        accelerate(module, team)
    layers = PackedLayers(vocoder_layers(vocoder), team)
    for mel_decoder, use_decoder in ((decoder, True), (dvae, False)):
        frames = some_frames(mel_decoder, 20)
        samples = whole(NativeStreamingDecoder(mel_decoder, layers, team), frames)
        assert torch.equal(samples, whole(decoder_of(use_decoder), frames))


@pytest.mark.parametrize("name", ["model-a", "model-b", "bundled"])
def test_code_tables_are_the_quantizer(name: str, bundled: Chat) -> None:
    dvae = bundled.dvae if name == "bundled" else small(name).dvae
    codes = torch.cat([some_frames(dvae, 400), torch.tensor([[0] * 4, [624] * 4])])
    tables = CodeTables(dvae.vq_layer)
    with torch.inference_mode():
        expected = dvae.vq_layer.embed(codes.T.unsqueeze(0))[0].T
    torch.testing.assert_close(tables(codes), expected, rtol=0, atol=1e-6)
    assert torch.equal(torch.cat([tables(row) for row in codes.split(1)]), tables(codes))
    with pytest.raises(IndexError):
        tables(torch.full((1, 4), 625))


def test_modules_must_be_on_the_kernels() -> None:
    team = kernel_team(2)
    mel_decoder, vocoder = modules(True)
    with pytest.raises(ConfigError, match="accelerate"):
        NativeStreamingDecoder(mel_decoder, vocoder, team)
    bare = copy.deepcopy(vocoder)
    accelerate(bare, team)
    with pytest.raises(ConfigError, match="accelerate"):
        NativeStreamingDecoder(mel_decoder, bare, team)
