"""Frames to samples on the CPU kernels: against whole torch modules, and bit for bit in pieces."""

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import nn

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError, ConfigError
from ChatTTS.model.chain import Push
from ChatTTS.model.code_tables import CodeTables
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.native.build import BuildError
from ChatTTS.model.native.chain import NativeChain, NativeState, VocoderLayers
from ChatTTS.model.native.convnext import accelerate
from ChatTTS.model.native.library import KINDS, Team
from ChatTTS.model.vocoder import Vocoder

from ...support.chain_tools import (
    HOP,
    LENGTHS,
    by_torch,
    copies_going_their_own_ways,
    dice,
    in_company,
    modules,
    pieces,
    random_modules,
    small,
    some_frames,
    streamed,
    whole,
)
from ...support.chat_tools import TEXT, Recording, speak


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    try:
        team()
    except BuildError as error:
        if "no C++ compiler" in str(error):
            pytest.skip(str(error))
        raise


@cache
def team(size: int = 2) -> Team:
    return Team(size)


def on_kernels(
    mel_decoder: MelDecoder, vocoder: Vocoder, kind: str = "float32", threads: int = 2
) -> NativeChain:
    fast = copy.deepcopy(mel_decoder), copy.deepcopy(vocoder)
    for module in fast:
        accelerate(module, team(threads), kind)
    return NativeChain(*fast, team(threads))


@cache
def chain(use_decoder: bool = True, kind: str = "float32", threads: int = 2) -> NativeChain:
    return on_kernels(*modules(use_decoder), kind, threads)


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", ["model-a", "model-b"])
def test_samples_are_those_of_the_modules(name: str, use_decoder: bool) -> None:
    mel_decoder, vocoder = modules(use_decoder, name)
    native = on_kernels(mel_decoder, vocoder)
    for count in LENGTHS:
        frames = some_frames(mel_decoder, count)
        expected = by_torch(mel_decoder, vocoder, frames)
        samples = whole(native, frames)
        assert samples.dtype == torch.float32
        assert len(samples) == (2 * count - 1) * HOP
        assert expected.abs().max() > 1e-2
        torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["hiddens", "ids"])
def test_samples_of_the_bundled_voice(bundled: Chat, name: str) -> None:
    with Recording(bundled) as seen:
        speak(bundled, TEXT, min_new_token=60, max_new_token=60)
    steps = bundled.gpt.generate(seen.requests[:1], Cancellation())
    frames = torch.cat([getattr(delta, name) for step in steps for delta in step])
    mel_decoder = bundled.decoder if name == "hiddens" else bundled.dvae
    expected = by_torch(mel_decoder, bundled.vocos, frames)
    native = on_kernels(mel_decoder, bundled.vocos)
    assert expected.abs().max() > 1e-2
    # A trained voice turns roundings into single samples that are off by as much, in torch too.
    torch.testing.assert_close(whole(native, frames), expected, rtol=0, atol=4e-4)
    reach = mel_decoder.reach + bundled.vocos.reach
    assert torch.equal(streamed(native, frames.split(7), reach), whole(native, frames))


@pytest.mark.filterwarnings("ignore:At least one mel filterbank")
@pytest.mark.parametrize(
    ("hop", "overlap", "mels", "width"),
    [(16, 4, 16, 32), (10, 4, 9, 19), (25, 2, 3, 8), (7, 6, 3, 50)],
)
def test_other_sizes(hop: int, overlap: int, mels: int, width: int) -> None:
    mel_decoder, vocoder = random_modules(hop, overlap, mels, width)
    native = on_kernels(mel_decoder, vocoder)
    for count in (3, 30):
        frames = some_frames(mel_decoder, count)
        samples = whole(native, frames)
        expected = by_torch(mel_decoder, vocoder, frames)
        assert samples.shape == expected.shape == ((2 * count - 1) * hop,)
        torch.testing.assert_close(samples, expected, rtol=0, atol=2e-5)
        state = native.begin()
        parts = [Push(state, part) for part in frames.split(4)]
        joined = [native.advance([part])[0] for part in [*parts, Push(state, None, last=True)]]
        assert torch.equal(torch.cat(joined), samples)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_decoder", [True, False])
def test_bits_do_not_depend_on_the_pieces(use_decoder: bool, kind: str) -> None:
    mel_decoder, vocoder = modules(use_decoder)
    native, reach = chain(use_decoder, kind), mel_decoder.reach + vocoder.reach
    for seed, count in enumerate(LENGTHS):
        frames = some_frames(mel_decoder, count, seed)
        expected = whole(native, frames)
        choices = [frames.split(1), [frames, frames[:0]]]
        choices += [pieces(frames, dice(seed, most)) for most in (3, 12, 60)]
        for parts in choices:
            assert torch.equal(streamed(native, parts, reach), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_decoder", [True, False])
def test_bits_do_not_depend_on_threads(use_decoder: bool, kind: str) -> None:
    mel_decoder, _ = modules(use_decoder)
    frames = some_frames(mel_decoder, 70)
    for parts in ([frames], frames.split(9), frames[:12].split(1)):
        first, second, third = (
            torch.cat([native.advance([Push(state, part)])[0] for part in parts])
            for native in (chain(use_decoder, kind, threads) for threads in (1, 2, 3))
            for state in [native.begin()]
        )
        assert torch.equal(first, second)
        assert torch.equal(first, third)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_decoder", [True, False])
def test_bits_do_not_depend_on_what_is_pushed_beside(use_decoder: bool, kind: str) -> None:
    mel_decoder, _ = modules(use_decoder)
    native = chain(use_decoder, kind)
    utterances = [some_frames(mel_decoder, n, seed=n) for n in (1, 2, 3, 25, 40, 41, 64, 80)]
    expected = [whole(native, frames) for frames in utterances]
    for samples, wanted in zip(in_company(native, utterances, kind), expected, strict=True):
        assert torch.equal(samples, wanted)


def test_callers_of_other_threads_wait_for_each_other() -> None:
    native = chain()
    frames = [some_frames(modules(True)[0], 30, seed) for seed in range(4)]
    expected = [whole(native, own) for own in frames]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            for samples, wanted in zip(
                threads.map(lambda own: whole(native, own), frames), expected, strict=True
            ):
                assert torch.equal(samples, wanted)


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_smaller_kinds_stay_near(kind: str) -> None:
    mel_decoder, vocoder = modules(True)
    frames = some_frames(mel_decoder, 50)
    expected, samples = by_torch(mel_decoder, vocoder, frames), whole(chain(True, kind), frames)
    assert 0 < (samples - expected).square().mean() < 1e-3 * expected.square().mean()


def test_copies_go_their_own_ways() -> None:
    native = chain()
    for samples, frames in copies_going_their_own_ways(native, some_frames(modules(True)[0], 90)):
        assert torch.equal(samples, whole(native, frames))


def test_a_state_that_has_ended_takes_nothing() -> None:
    native, frames = chain(), some_frames(modules(True)[0], 20)
    state = native.begin()
    before = state.copy()
    native.advance([Push(state, frames[:5], last=True)])
    assert state.ended
    assert not before.ended
    going = native.begin()
    for ended in (state, state.copy()):
        for more in (frames[:1], None):
            with pytest.raises(ChatTTSError, match="begin a new state"):
                native.advance([Push(going, frames[:5]), Push(ended, more, last=more is None)])
    # The one beside it has not moved.
    assert torch.equal(native.advance([Push(going, frames, last=True)])[0], whole(native, frames))
    assert len(native.advance([Push(before, frames[:5], last=True)])[0]) == 9 * HOP


def test_pushes_that_make_no_sense_are_refused() -> None:
    native, frames = chain(), some_frames(modules(True)[0], 20)
    state = native.begin()
    with pytest.raises(ChatTTSError, match="pushed once at a time"):
        native.advance([Push(state, frames), Push(state, frames)])
    with pytest.raises(ChatTTSError, match="another chain"):
        native.advance([Push(state, frames), Push(chain(False).begin(), frames)])
    for wrong in (frames[:, :-2], frames[0], frames[None]):
        with pytest.raises(ChatTTSError, match=r"frames \[n, 64\]"):
            native.advance([Push(native.begin(), wrong), Push(state, wrong)])
    with pytest.raises(ChatTTSError, match=r"frames \[n, 4\]"):
        chain(False).advance([Push(chain(False).begin(), frames)])
    assert torch.equal(native.advance([Push(state, frames, last=True)])[0], whole(native, frames))


def test_nothing_may_be_pushed() -> None:
    native, frames = chain(), some_frames(modules(True)[0], 30)
    assert native.advance([]) == []
    for nothing in (None, frames[:0]):
        state = native.begin()
        assert native.advance([Push(state, nothing)])[0].shape == (0,)
        assert native.advance([Push(state, nothing, last=True)])[0].shape == (0,)
        assert state.ended
    state = native.begin()
    samples = []
    for part in (None, frames[:20], None, frames[:0], frames[20:], None):
        samples += native.advance([Push(state, part)])
    samples += native.advance([Push(state, None, last=True)])
    assert torch.equal(torch.cat(samples), whole(native, frames))


def test_frames_of_other_types_are_taken_and_left_alone() -> None:
    native, frames = chain(), some_frames(modules(True)[0], 8).bfloat16()
    before = frames.clone()
    expected = whole(native, frames.float())
    wide = torch.empty(8, 2 * frames.shape[1]).copy_(frames.repeat(1, 2))
    for same in (frames, frames.double(), wide[:, ::1][:, : frames.shape[1]]):
        assert torch.equal(whole(native, same), expected)
    assert torch.equal(frames, before)


@pytest.mark.parametrize("use_decoder", [True, False])
def test_a_state_does_not_grow(use_decoder: bool) -> None:
    native, state = chain(use_decoder), chain(use_decoder).begin()
    size = state.kept_bytes
    for part in some_frames(modules(use_decoder)[0], 60).split(10):
        native.advance([Push(state, part)])
        assert state.kept_bytes == state.copy().kept_bytes == size
    assert 0 < size < 100_000


def test_magnitudes_are_limited_alike() -> None:
    mel_decoder, vocoder = modules(True)
    vocoder = copy.deepcopy(vocoder)
    vocoder.head.out.bias.data[:513:2] += 9  # every second one is beyond what vocos allows
    frames = some_frames(mel_decoder, 20)
    expected = by_torch(mel_decoder, vocoder, frames)
    largest = expected.abs().max().item()
    assert largest > 1
    samples = whole(on_kernels(mel_decoder, vocoder), frames)
    torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("name", ["out_conv.weight", "decoder.conv_in.0.bias", "coef"])
def test_a_nan_weight_is_heard(name: str) -> None:
    mel_decoder, vocoder = modules(True)
    mel_decoder = copy.deepcopy(mel_decoder)
    mel_decoder.state_dict()[name].view(-1)[3] = torch.nan
    assert whole(on_kernels(mel_decoder, vocoder), some_frames(mel_decoder, 20)).isnan().any()


def test_the_weights_are_packed_copies() -> None:
    mel_decoder, vocoder = copy.deepcopy(modules(True))
    for module in (mel_decoder, vocoder):
        accelerate(module, team())
    native, frames = NativeChain(mel_decoder, vocoder, team()), some_frames(mel_decoder, 20)
    expected = whole(native, frames)
    for parameter in [*mel_decoder.parameters(), *vocoder.parameters()]:
        parameter.data.fill_(torch.nan)
    vocoder.head.istft.window.fill_(torch.nan)
    del mel_decoder, vocoder, module, parameter  # the chain alone keeps what it needs
    assert torch.equal(whole(native, frames), expected)


def test_two_chains_share_a_vocoder() -> None:
    decoder, vocoder, dvae = copy.deepcopy((*modules(True), modules(False)[0]))
    for module in (decoder, vocoder, dvae):
        accelerate(module, team())
    layers = VocoderLayers(vocoder, team())
    for mel_decoder, use_decoder in ((decoder, True), (dvae, False)):
        frames = some_frames(mel_decoder, 20)
        samples = whole(NativeChain(mel_decoder, layers, team()), frames)
        assert torch.equal(samples, whole(chain(use_decoder), frames))


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


@pytest.mark.parametrize(("n_fft", "hop"), [(768, 256), (1024, 300), (256, 256)])
def test_transforms_that_do_not_fit_are_refused(n_fft: int, hop: int) -> None:
    vocoder = copy.deepcopy(modules(True)[1])
    accelerate(vocoder, team())
    vocoder.head.istft.n_fft, vocoder.head.istft.hop_length = n_fft, hop
    with pytest.raises(ConfigError, match="even multiple"):
        VocoderLayers(vocoder, team())
    vocoder.head.istft.n_fft, vocoder.head.istft.hop_length = 1024, 256
    vocoder.head.istft.padding = "same"
    with pytest.raises(ConfigError, match="centre padding"):
        VocoderLayers(vocoder, team())


def test_modules_must_be_on_the_kernels() -> None:
    mel_decoder, vocoder = modules(True)
    with pytest.raises(ConfigError, match="accelerate"):
        NativeChain(mel_decoder, vocoder, team())
    bare: nn.Module = copy.deepcopy(vocoder)
    accelerate(bare, team())
    with pytest.raises(ConfigError, match="accelerate"):
        NativeChain(mel_decoder, bare, team())


def test_a_state_knows_its_chain() -> None:
    assert isinstance(chain().begin(), NativeState)
    assert chain().begin().copy().chain is chain()
    assert chain().exact
