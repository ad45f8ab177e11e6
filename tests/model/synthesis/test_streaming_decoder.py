"""The contract of every streaming decoder: on torch, on the CPU kernels and of captured launches.

The CUDA decoder runs on a GPU where there is one, and elsewhere with a capturer that is as strict.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from torch import Tensor

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError, ConfigError
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput, StreamingDecoder
from ChatTTS.model.synthesis.torch_decoder import TorchStreamingDecoder

from ...support.decoder_tools import (
    BACKENDS,
    HOP,
    LENGTHS,
    by_torch,
    copies_going_their_own_ways,
    dice,
    in_company,
    little,
    modules,
    pieces,
    random_modules,
    some_frames,
    spoken_frames,
    streamed,
    whole,
)
from ...support.kernel_tools import DEVICE

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")

each_backend = pytest.mark.parametrize("backend", ["torch", "native", "cuda"])
on_kernels = pytest.mark.parametrize("backend", ["native", "cuda"])
each_kind = pytest.mark.parametrize("backend", ["torch", "native", "native-bfloat16", "cuda"])


@cache
def decoder_of(backend: str, use_decoder: bool = True) -> StreamingDecoder:
    return BACKENDS[backend].make(*modules(use_decoder))


@cache
def little_decoder(backend: str) -> StreamingDecoder:
    return BACKENDS[backend].make(*little())


def little_frames(count: int, seed: int = 5) -> Tensor:
    return some_frames(little()[0], count, seed)


def assert_little(backend: str, frames: Tensor, samples: Tensor) -> None:
    BACKENDS[backend].assert_decodes(little_decoder(backend), little(), frames, samples)


@pytest.mark.parametrize("backend", ["torch", "native", "cuda", "cuda-default-shapes"])
@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", ["model-a", "model-b"])
def test_samples_are_those_of_the_modules(backend: str, name: str, use_decoder: bool) -> None:
    mel_decoder, vocoder = modules(use_decoder, name)
    decoder = BACKENDS[backend].make(mel_decoder, vocoder)
    for count in LENGTHS:
        frames = some_frames(mel_decoder, count)
        expected = by_torch(mel_decoder, vocoder, frames)
        samples = whole(decoder, frames)
        assert samples.dtype == torch.float32
        assert len(samples) == (2 * count - 1) * HOP
        assert expected.abs().max() > 1e-2
        torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "native", "cuda-default-shapes"])
@pytest.mark.parametrize("name", ["hiddens", "ids"])
def test_samples_of_the_bundled_voice(bundled: Chat, backend: str, name: str) -> None:
    frames = spoken_frames(bundled, name)
    own = bundled.decoder if name == "hiddens" else bundled.dvae, bundled.vocos
    decoder = BACKENDS[backend].make(*own)
    expected, reach = by_torch(*own, frames), sum(module.reach for module in own)
    assert expected.abs().max() > 1e-2
    # A trained voice turns roundings into single samples that are off by as much, in torch too.
    for samples in (whole(decoder, frames), streamed(decoder, frames.split(7), reach)):
        BACKENDS[backend].assert_decodes(decoder, own, frames, samples, 4e-4)


@pytest.mark.slow
@each_backend
@pytest.mark.parametrize(
    ("hop", "overlap", "mels", "width"),
    [(16, 4, 16, 32), (10, 4, 9, 19), (25, 2, 3, 8), (7, 6, 3, 50)],
)
def test_other_sizes(backend: str, hop: int, overlap: int, mels: int, width: int) -> None:
    own = random_modules(hop, overlap, mels, width)
    decoder, reach = BACKENDS[backend].make(*own), sum(module.reach for module in own)
    for count in (1, 3, 30):
        frames = some_frames(own[0], count)
        state = decoder.begin()
        parts = [DecoderInput(state, part) for part in frames.split(4)]
        inputs = [*parts, DecoderInput(state, None, last=True)]
        for samples in (
            whole(decoder, frames),
            streamed(decoder, [*frames.split(4), frames[:0]], reach, hop),
            torch.cat([decoder.advance([given])[0] for given in inputs]),
        ):
            assert samples.shape == ((2 * count - 1) * hop,)
            BACKENDS[backend].assert_decodes(decoder, own, frames, samples)


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("use_decoder", [True, False])
def test_pieces_are_the_whole(backend: str, use_decoder: bool) -> None:
    own = modules(use_decoder)
    decoder, reach = decoder_of(backend, use_decoder), sum(module.reach for module in own)
    for seed, count in enumerate(LENGTHS):
        frames = some_frames(own[0], count, seed)
        choices = [frames.split(1), [frames, frames[:0]]]
        choices += [pieces(frames, dice(seed, most)) for most in (3, 12, 20, 60)]
        for parts in choices:
            samples = streamed(decoder, parts, reach)
            BACKENDS[backend].assert_decodes(decoder, own, frames, samples)


@pytest.mark.slow
@each_backend
def test_an_utterance_may_end_at_any_frame(backend: str) -> None:
    decoder, reach = little_decoder(backend), sum(module.reach for module in little())
    for count in range(1, 2 * reach):
        frames = little_frames(count)
        parts = pieces(frames, dice(count, 9))
        assert_little(backend, frames, streamed(decoder, parts, reach, hop=10))


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("use_decoder", [True, False])
def test_utterances_of_any_age_share_a_batch(backend: str, use_decoder: bool) -> None:
    own, decoder = modules(use_decoder), decoder_of(backend, use_decoder)
    utterances = [some_frames(own[0], n, seed=n) for n in (1, 2, 3, 25, 40, 41, 64, 80)]
    for samples, frames in zip(in_company(decoder, utterances, backend), utterances, strict=True):
        BACKENDS[backend].assert_decodes(decoder, own, frames, samples)


@each_backend
def test_nan_stays_in_its_utterance(backend: str) -> None:
    """NaN in one utterance is heard in no other, nor in those that come later."""
    decoder, frames = BACKENDS[backend].make(*little()), little_frames(30)
    expected = by_torch(*little(), frames)
    bad = torch.full_like(frames, torch.nan)
    for last in (False, True):
        parts = (bad, frames, bad[:9], bad)
        inputs = [DecoderInput(decoder.begin(), part, last=last) for part in parts]
        spoiled, clean, *_ = decoder.advance(inputs)
        assert spoiled.isnan().any()
        assert len(clean)
        torch.testing.assert_close(clean, expected[: len(clean)], rtol=0, atol=2e-5)
    assert_little(backend, frames[:7], whole(decoder, frames[:7]))


@each_backend
@pytest.mark.parametrize("is_little", [True, False])
def test_copies_continue_independently(backend: str, is_little: bool) -> None:
    own = little() if is_little else modules(True)
    decoder = little_decoder(backend) if is_little else decoder_of(backend)
    for samples, way in copies_going_their_own_ways(decoder, some_frames(own[0], 90)):
        BACKENDS[backend].assert_decodes(decoder, own, way, samples)


@on_kernels
def test_early_ends_of_copies_leave_their_originals_alone(backend: str) -> None:
    """A low-latency beginning does so: it ends copies of the states early, in one batch."""
    frames = [little_frames(40, seed) for seed in range(3)]
    outs: list[list[Tensor]] = []
    for decoder in (little_decoder(backend), TorchStreamingDecoder(*little())):
        states = [decoder.begin() for _ in frames]
        out: list[Tensor] = []
        for at in range(0, 40, 5):
            out += decoder.advance(
                [
                    DecoderInput(state, own[at : at + 5])
                    for state, own in zip(states, frames, strict=True)
                ]
            )
            out += decoder.advance(
                [
                    DecoderInput(state.copy(), own[at + 4 : at + 5].expand(4, -1), last=True)
                    for state, own in zip(states, frames, strict=True)
                ]
            )
        out += decoder.advance([DecoderInput(state, None, last=True) for state in states])
        outs.append(out)
    for found, expected in zip(*outs, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


@each_backend
def test_calls_of_several_threads(backend: str) -> None:
    decoder = little_decoder(backend)
    frames = [little_frames(30, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            samples = threads.map(lambda own: whole(decoder, own), frames)
            for own, found in zip(frames, samples, strict=True):
                assert_little(backend, own, found)


@each_backend
def test_a_state_that_has_ended_takes_nothing(backend: str) -> None:
    decoder, frames = little_decoder(backend), little_frames(20)
    state = decoder.begin()
    before = state.copy()
    decoder.advance([DecoderInput(state, frames[:5], last=True)])
    assert state.ended
    assert not before.ended
    going = decoder.begin()
    for ended in (state, state.copy()):
        for more in (frames[:1], None):
            with pytest.raises(ChatTTSError, match="begin a new state"):
                decoder.advance(
                    [DecoderInput(going, frames[:5]), DecoderInput(ended, more, last=more is None)]
                )
    # The other state of the batch has not moved.
    assert_little(backend, frames, decoder.advance([DecoderInput(going, frames, last=True)])[0])
    assert len(decoder.advance([DecoderInput(before, frames[:5], last=True)])[0]) == 9 * 10


@each_backend
def test_an_utterance_has_one_input_at_a_time_in_its_own_decoder(backend: str) -> None:
    decoder, frames = little_decoder(backend), little_frames(20)
    state = decoder.begin()
    with pytest.raises(ChatTTSError, match="pushed once at a time"):
        decoder.advance([DecoderInput(state, frames), DecoderInput(state, frames)])
    other = BACKENDS[backend].make(*little()).begin()
    with pytest.raises(ChatTTSError, match="another decoder"):
        decoder.advance([DecoderInput(state, frames), DecoderInput(other.copy(), frames)])
    assert_little(backend, frames, decoder.advance([DecoderInput(state, frames, last=True)])[0])


@on_kernels
def test_inputs_that_make_no_sense_are_refused(backend: str) -> None:
    decoder, from_codes = decoder_of(backend), decoder_of(backend, False)
    frames = some_frames(modules(True)[0], 20)
    state = decoder.begin()
    for wrong in (frames[:, :-2], frames[0], frames[None]):
        for inputs in (
            [DecoderInput(state, frames), DecoderInput(decoder.begin(), wrong)],
            [DecoderInput(decoder.begin(), wrong), DecoderInput(state, wrong)],
        ):
            with pytest.raises(ChatTTSError, match=r"frames \[n, 64\]"):
                decoder.advance(inputs)
    with pytest.raises(ChatTTSError, match=r"frames \[n, 4\]"):
        from_codes.advance([DecoderInput(from_codes.begin(), frames)])
    with pytest.raises(IndexError):
        from_codes.advance([DecoderInput(from_codes.begin(), torch.full((1, 4), 625))])
    (samples,) = decoder.advance([DecoderInput(state, frames, last=True)])
    BACKENDS[backend].assert_decodes(decoder, modules(True), frames, samples)


@each_backend
def test_an_input_may_be_empty(backend: str) -> None:
    decoder, frames = little_decoder(backend), little_frames(30)
    assert decoder.advance([]) == []
    for nothing in (None, frames[:0]):
        state = decoder.begin()
        assert decoder.advance([DecoderInput(state, nothing)])[0].shape == (0,)
        assert decoder.advance([DecoderInput(state, nothing, last=True)])[0].shape == (0,)
        assert state.ended
    state = decoder.begin()
    samples = []
    for part in (None, frames[:20], None, frames[:0], frames[20:], None):
        samples += decoder.advance([DecoderInput(state, part)])
    samples += decoder.advance([DecoderInput(state, None, last=True)])
    assert_little(backend, frames, torch.cat(samples))


@on_kernels
def test_frames_of_other_types_and_places_are_taken_and_left_alone(backend: str) -> None:
    decoder, frames = little_decoder(backend), little_frames(8).bfloat16()
    before = frames.clone()
    wide = frames.repeat(1, 2)[:, : frames.shape[1]]
    for same in (frames, frames.double(), frames.to(DEVICE), wide):
        assert_little(backend, frames.float(), whole(decoder, same))
    places = (frames, frames.to(DEVICE))
    inputs = [DecoderInput(decoder.begin(), own, last=True) for own in places]
    for samples in decoder.advance(inputs):
        assert_little(backend, frames.float(), samples)
    assert torch.equal(frames, before)


@each_backend
@pytest.mark.parametrize("use_decoder", [True, False])
def test_a_state_does_not_grow(backend: str, use_decoder: bool) -> None:
    decoder = decoder_of(backend, use_decoder)
    state = decoder.begin()
    first, sizes = state.kept_bytes, []
    for part in some_frames(modules(use_decoder)[0], 100).split(10):
        decoder.advance([DecoderInput(state, part)])
        assert state.copy().kept_bytes == state.kept_bytes
        sizes.append(state.kept_bytes)
    assert 0 < sizes[5] == sizes[-1] < 100_000
    if backend == "torch":
        assert first == 0  # and grows with the first frames
    else:
        assert len(set(sizes)) == 1
        assert first == (sizes[0] if backend == "native" else 0)
    decoder.advance([DecoderInput(state, None, last=True)])
    if backend == "cuda":
        assert state.kept_bytes == 0


@each_backend
def test_magnitudes_are_limited_alike(backend: str) -> None:
    mel_decoder, vocoder = modules(True)
    vocoder = copy.deepcopy(vocoder)
    vocoder.head.out.bias.data[:513:2] += 9  # every second one is beyond what is allowed
    decoder, frames = BACKENDS[backend].make(mel_decoder, vocoder), some_frames(mel_decoder, 20)
    expected = by_torch(mel_decoder, vocoder, frames)
    largest = expected.abs().max().item()
    assert largest > 1
    reach = mel_decoder.reach + vocoder.reach
    for samples in (whole(decoder, frames), streamed(decoder, frames.split(3), reach)):
        torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5 * largest)


@each_backend
@pytest.mark.parametrize("name", ["out_conv.weight", "decoder.conv_in.0.bias", "coef"])
def test_a_nan_weight_is_heard(backend: str, name: str) -> None:
    mel_decoder, vocoder = modules(True)
    mel_decoder = copy.deepcopy(mel_decoder)
    mel_decoder.state_dict()[name].view(-1)[3] = torch.nan
    decoder = BACKENDS[backend].make(mel_decoder, vocoder)
    assert whole(decoder, some_frames(mel_decoder, 20)).isnan().any()


@each_backend
@pytest.mark.parametrize(("n_fft", "hop"), [(768, 256), (1024, 300), (256, 256)])
def test_transforms_that_do_not_fit_are_refused(backend: str, n_fft: int, hop: int) -> None:
    mel_decoder, vocoder = modules(True)
    vocoder = copy.deepcopy(vocoder)
    vocoder.head.istft.n_fft, vocoder.head.istft.hop_length = n_fft, hop
    with pytest.raises(ConfigError, match="even multiple"):
        BACKENDS[backend].make(mel_decoder, vocoder)
    vocoder.head.istft.n_fft, vocoder.head.istft.hop_length = 1024, 256
    vocoder.head.istft.padding = "same"
    with pytest.raises(ConfigError, match="centre padding"):
        BACKENDS[backend].make(mel_decoder, vocoder)


@each_kind
def test_a_decoder_says_whether_it_is_exact(backend: str) -> None:
    assert decoder_of(backend).exact == BACKENDS[backend].is_exact
