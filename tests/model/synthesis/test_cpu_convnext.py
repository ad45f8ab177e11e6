"""Stacks of ConvNeXt blocks on the CPU kernels against the torch blocks that they stand for."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.dvae import DVAE, ConvNeXtBlock, MelDecoder
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.synthesis.cpu_convnext import ConvNeXtStack, accelerate
from ChatTTS.model.synthesis.synthesizer import Synthesizer
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.model.synthesis.vocoder_modules import VocosBlock

from ...support.decoder_tools import kernel_team, small, spoken_frames
from ...support.places import DATA

LENGTHS = (1, 2, 13, 14, 200)

# Largest difference from torch where three blocks of random weights give values of up to about 5.
TOLERANCES = {"float32": 1e-5, "bfloat16": 2e-2}


@pytest.fixture(scope="module")
def team() -> Team:
    return kernel_team(2)


def ours(channels: int) -> nn.Module:
    return ConvNeXtBlock(channels)


def of_vocoder(channels: int, intermediate: int | None = None) -> nn.Module:
    return VocosBlock(channels, intermediate or 3 * channels, 0.3)


def randomised(block: nn.Module, generator: torch.Generator) -> nn.Module:
    for parameter in block.parameters():
        spread = 0.3 if parameter.dim() == 1 else parameter[0].numel() ** -0.5
        parameter.data.normal_(0, spread, generator=generator)
    return block


def some_blocks(make: Callable[..., nn.Module], channels: int, count: int = 3) -> list[nn.Module]:
    generator = torch.Generator().manual_seed(channels)
    return [randomised(make(channels), generator) for _ in range(count)]


def inputs(channels: int, frames: int, batch: int = 1) -> Tensor:
    return torch.randn(batch, channels, frames, generator=torch.Generator().manual_seed(7))


@torch.inference_mode()
def by_torch(blocks: list[nn.Module], x: Tensor) -> Tensor:
    y: Tensor = nn.Sequential(*blocks)(x)
    return y


@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize("frames", LENGTHS)
@pytest.mark.parametrize(
    ("make", "channels"), [(ours, 64), (ours, 37), (of_vocoder, 96), (of_vocoder, 5)]
)
def test_a_stack_equals_its_blocks(
    team: Team, make: Callable[..., nn.Module], channels: int, frames: int, kind: str
) -> None:
    blocks, x = some_blocks(make, channels), inputs(channels, frames, batch=2)
    before = x.clone()
    y = ConvNeXtStack(blocks, team, kind)(x)
    assert y.shape == x.shape
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, by_torch(blocks, x), rtol=0, atol=TOLERANCES[kind])
    assert torch.equal(x, before)


def test_full_width(team: Team) -> None:
    blocks, x = some_blocks(ours, 512, count=2), inputs(512, 50)
    y = ConvNeXtStack(blocks, team)(x)
    torch.testing.assert_close(y, by_torch(blocks, x), rtol=0, atol=1e-5)


def test_blocks_with_an_odd_inner_size(team: Team) -> None:
    blocks = [randomised(of_vocoder(24, 31), torch.Generator().manual_seed(1))]
    x = inputs(24, 9)
    for kind, tolerance in TOLERANCES.items():
        y = ConvNeXtStack(blocks, team, kind)(x)
        torch.testing.assert_close(y, by_torch(blocks, x), rtol=0, atol=tolerance)


def test_views_and_other_types_are_taken(team: Team) -> None:
    stack, x = ConvNeXtStack(some_blocks(ours, 32), team), inputs(32, 20)
    view = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(stack(view), stack(x))
    assert torch.equal(stack(x.double()), stack(x))
    assert stack(x[:, :, :0]).shape == (1, 32, 0)


def test_gelu_is_exact_to_a_millionth(team: Team) -> None:
    # With a norm of zero weight, the first product gives its bias, and the second passes it on.
    points = torch.linspace(-14, 14, 2048)
    block: Any = of_vocoder(2048, intermediate=2048)
    for parameter in block.parameters():
        parameter.data.zero_()
    block.pwconv1.bias.data.copy_(points)
    block.pwconv2.weight.data.copy_(torch.eye(2048))
    block.gamma.data.fill_(1)
    y = ConvNeXtStack([block], team)(torch.zeros(1, 2048, 1))[0, :, 0]
    exact = nn.functional.gelu(points.double())
    assert (y - exact).abs().max() < 1e-6


@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize("make", [ours, of_vocoder])
def test_a_frame_depends_on_its_reach_alone(
    team: Team, make: Callable[..., nn.Module], kind: str
) -> None:
    blocks, x = some_blocks(make, 40), inputs(40, 200)
    first_block: Any = blocks[0]
    (dilation,) = first_block.dwconv.dilation
    reach = len(blocks) * 3 * dilation
    stack = ConvNeXtStack(blocks, team, kind)
    whole = stack(x)
    for first, last in ((0, 1), (0, 50), (60, 61), (61, 103), (150, 200), (199, 200)):
        start, end = max(0, first - reach), min(200, last + reach)
        part = stack(x[:, :, start:end])[:, :, first - start : last - start]
        assert torch.equal(part, whole[:, :, first:last])
    # With one frame less of context, the frame differs.
    short = stack(x[:, :, 61 - reach : 103])
    assert not torch.equal(short[:, :, reach + 41], whole[:, :, 102])


@pytest.mark.parametrize("kind", TOLERANCES)
def test_bits_do_not_depend_on_threads_or_batch(kind: str, team: Team) -> None:
    blocks, x = some_blocks(ours, 40), inputs(40, 131, batch=3)
    outputs = [ConvNeXtStack(blocks, Team(size), kind)(x) for size in (1, 2, 3)]
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    alone = ConvNeXtStack(blocks, team, kind)
    for row in range(3):
        assert torch.equal(alone(x[row : row + 1])[0], outputs[0][row])


def test_nan_in_the_input_stays_within_reach(team: Team) -> None:
    x = inputs(32, 40)
    stack = ConvNeXtStack(some_blocks(ours, 32, count=1), team)
    whole = stack(x)
    x[0, 5, 20] = torch.nan
    y = stack(x)
    touched = range(20 - 6, 20 + 7, 2)  # every second frame: the dilation is 2
    for frame in range(40):
        if frame in touched:
            assert y[0, :, frame].isnan().all()
        else:
            assert torch.equal(y[0, :, frame], whole[0, :, frame])


@pytest.mark.parametrize("kind", TOLERANCES)
@pytest.mark.parametrize(
    "name", ["dwconv.weight", "norm.weight", "pwconv1.weight", "pwconv2.bias", "weight"]
)
def test_a_nan_weight_is_seen(team: Team, kind: str, name: str) -> None:
    blocks = some_blocks(ours, 32)
    blocks[1].get_parameter(name).data.view(-1)[3] = torch.nan
    assert ConvNeXtStack(blocks, team, kind)(inputs(32, 20)).isnan().any()


def test_the_weights_are_packed_copies(team: Team) -> None:
    blocks, x = some_blocks(ours, 32), inputs(32, 20)
    stack = ConvNeXtStack(blocks, team)
    expected = stack(x)
    for block in blocks:
        for parameter in block.parameters():
            parameter.data.fill_(torch.nan)
    assert not list(stack.parameters())
    assert torch.equal(stack.half()(x), expected)  # nothing in it can be cast or moved


def adaptive() -> nn.Module:
    block = ours(16)
    block.norm = nn.GroupNorm(1, 16)  # its result depends on more than the frame
    return block


def approximate() -> nn.Module:
    block = ours(16)
    block.act = nn.GELU(approximate="tanh")
    return block


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "all of one shape"),
        ([ours(16), ours(32)], "all of one shape"),
        ([nn.Linear(3, 3)], "Linear is not a ConvNeXt block"),
        ([adaptive()], "LayerNorm"),
        ([approximate()], "exact GELU"),
    ],
)
def test_other_blocks_are_refused(team: Team, blocks: list[nn.Module], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConvNeXtStack(blocks, team)


def test_other_kinds_and_inputs_are_refused(team: Team) -> None:
    with pytest.raises(ConfigError, match="float16"):
        ConvNeXtStack([ours(16)], team, "float16")
    stack = ConvNeXtStack([ours(16)], team)
    for x in (torch.zeros(1, 15, 4), torch.zeros(16, 4)):
        with pytest.raises(ConfigError, match="16, frames"):
            stack(x)


def both(mel_decoder: MelDecoder, vocoder: Vocoder, team: Team) -> tuple[Synthesizer, Synthesizer]:
    """Return the modules in torch, and their copies on the kernels."""
    fast = copy.deepcopy(mel_decoder), copy.deepcopy(vocoder)
    for module in fast:
        accelerate(module, team)
    return Synthesizer(mel_decoder, vocoder), Synthesizer(*fast)


@pytest.mark.parametrize("name", ["model-a", "model-b"])
def test_waveforms_of_the_conformance_models(name: str, team: Team) -> None:
    model, expected = small(name), load_file(DATA / name / "expected.safetensors")
    for module, frames in ((model.decoder, "both_hiddens_0"), (model.dvae, "both_ids_0")):
        plain, fast = both(module, model.vocos, team)
        samples, wanted = (s.samples(expected[frames]) for s in (fast, plain))
        assert wanted.abs().max() > 1e-2
        torch.testing.assert_close(samples, wanted, rtol=0, atol=1e-5)


@torch.inference_mode()
def exact_samples(mel_decoder: MelDecoder, vocoder: Vocoder, frames: Tensor) -> Tensor:
    """Return the samples in float64, of frames as :class:`Synthesizer` takes them."""
    columns = frames.T.unsqueeze(0)
    if isinstance(mel_decoder, DVAE):
        columns = mel_decoder.vq_layer.embed(columns)
    decoder, vocoder = copy.deepcopy(mel_decoder).double(), copy.deepcopy(vocoder).double()
    samples: Tensor = vocoder(decoder(columns.double()))
    return samples[0]


def rms(values: Tensor) -> float:
    return values.double().square().mean().sqrt().item()


@pytest.mark.slow
def test_waveforms_of_the_bundled_voice(bundled: Chat, team: Team) -> None:
    # A trained voice turns float32's roundings into single samples that are off by up to 1e-4, in
    # torch as well: so the measure is how far each is from float64.
    for module, name in ((bundled.decoder, "hiddens"), (bundled.dvae, "ids")):
        frames = spoken_frames(bundled, name)
        exact = exact_samples(module, bundled.vocos, frames)
        plain, fast = (s.samples(frames) for s in both(module, bundled.vocos, team))
        for samples in (plain, fast):
            assert rms(samples - exact) < 1e-4 * rms(exact)  # 80 dB below the voice


def test_the_codec_gives_the_same_codes(standard: Chat, team: Team) -> None:
    fast = copy.deepcopy(standard.dvae)
    accelerate(fast, team, "bfloat16")
    samples = inputs(1, 12_000)[0] * 0.1
    with torch.inference_mode():
        assert torch.equal(fast.encode(samples), standard.dvae.encode(samples))
