"""Frames to samples in recorded passes: against whole torch modules, in any pieces and company."""

import copy
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from ChatTTS.core import Chat
from ChatTTS.errors import ChatTTSError, ConfigError
from ChatTTS.model.chain import Push
from ChatTTS.model.cuda.chain import DeviceChain
from ChatTTS.model.cuda.graphs import CudaRecorder, EagerRecorder, Recorder
from ChatTTS.model.cuda.passes import PassShapes
from ChatTTS.model.cuda.stages import vocoder_stages
from ChatTTS.model.dvae import MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.incremental import TorchChain
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
    some_frames,
    streamed,
    whole,
)
from ...support.chat_tools import TEXT, Recording, speak
from ...support.kernel_tools import DEVICE
from ...support.recorder_tools import ForgetfulRecorder

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")

# Small, so that a few frames already take several passes.
SHAPES = PassShapes(sizes=(1, 2, 4), chunks=(1, 3, 8), most_frames=24)


class Counting(EagerRecorder):
    """Also counts what is replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.replays = 0

    def record(self, work: Callable[[], Any]) -> Any:
        recording = super().record(work)

        def replay() -> None:
            self.replays += 1
            type(recording).replay(recording)

        recording.replay = replay
        return recording


def a_recorder() -> Recorder:
    return EagerRecorder() if DEVICE.type == "cpu" else CudaRecorder(DEVICE, advice="a test")


def on_device(
    mel_decoder: MelDecoder,
    vocoder: Vocoder,
    recorder: Recorder | None = None,
    dtype: torch.dtype = torch.float32,
    shapes: PassShapes | None = SHAPES,
) -> DeviceChain:
    mel_decoder, vocoder = (copy.deepcopy(part).to(DEVICE) for part in (mel_decoder, vocoder))
    stages = vocoder_stages(vocoder, dtype)
    return DeviceChain(mel_decoder, stages, recorder or a_recorder(), dtype=dtype, shapes=shapes)


@cache
def chain(use_decoder: bool = True) -> DeviceChain:
    return on_device(*modules(use_decoder))


@cache
def little() -> tuple[MelDecoder, Vocoder]:
    return random_modules(hop=10, overlap=4, mels=9, width=19)


@cache
def little_chain() -> DeviceChain:
    return on_device(*little())


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shapes", [SHAPES, None])
@pytest.mark.parametrize("use_decoder", [True, False])
def test_samples_are_those_of_the_modules(use_decoder: bool, shapes: PassShapes | None) -> None:
    mel_decoder, vocoder = modules(use_decoder)
    device = on_device(mel_decoder, vocoder, shapes=shapes)
    for count in LENGTHS:
        frames = some_frames(mel_decoder, count)
        expected = by_torch(mel_decoder, vocoder, frames)
        samples = whole(device, frames)
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
    device = on_device(mel_decoder, bundled.vocos, shapes=None)
    assert expected.abs().max() > 1e-2
    # A trained voice turns roundings into single samples that are off by as much, in torch too.
    torch.testing.assert_close(whole(device, frames), expected, rtol=0, atol=4e-4)
    reach = mel_decoder.reach + bundled.vocos.reach
    parts = streamed(device, frames.split(7), reach)
    torch.testing.assert_close(parts, expected, rtol=0, atol=4e-4)


@pytest.mark.parametrize(
    ("hop", "overlap", "mels", "width"),
    [(16, 4, 16, 32), (10, 4, 9, 19), (25, 2, 3, 8), (7, 6, 3, 50)],
)
def test_other_sizes(hop: int, overlap: int, mels: int, width: int) -> None:
    mel_decoder, vocoder = random_modules(hop, overlap, mels, width)
    device, reach = on_device(mel_decoder, vocoder), mel_decoder.reach + vocoder.reach
    for count in (1, 3, 30):
        frames = some_frames(mel_decoder, count)
        expected = by_torch(mel_decoder, vocoder, frames)
        close(whole(device, frames), expected)
        close(streamed(device, [*frames.split(4), frames[:0]], reach, hop), expected)


@pytest.mark.parametrize("use_decoder", [True, False])
def test_pieces_are_the_whole(use_decoder: bool) -> None:
    mel_decoder, vocoder = modules(use_decoder)
    device, reach = chain(use_decoder), mel_decoder.reach + vocoder.reach
    for seed, count in enumerate(LENGTHS):
        frames = some_frames(mel_decoder, count, seed)
        expected = by_torch(mel_decoder, vocoder, frames)
        choices = [[frames, frames[:0]], *(pieces(frames, dice(seed, most)) for most in (3, 20))]
        for parts in choices:
            close(streamed(device, parts, reach), expected)


def test_an_utterance_may_end_at_any_frame() -> None:
    mel_decoder, vocoder = little()
    device, reach = little_chain(), mel_decoder.reach + vocoder.reach
    for count in range(1, 2 * reach):
        frames = some_frames(mel_decoder, count)
        expected = by_torch(mel_decoder, vocoder, frames)
        close(streamed(device, pieces(frames, dice(count, 9)), reach, hop=10), expected)


def test_utterances_of_any_age_share_a_batch() -> None:
    mel_decoder, vocoder = little()
    device = little_chain()
    utterances = [some_frames(mel_decoder, n, seed=n) for n in (1, 2, 3, 25, 40, 41, 64, 80)]
    for samples, frames in zip(in_company(device, utterances, 2), utterances, strict=True):
        close(samples, by_torch(mel_decoder, vocoder, frames))


def test_what_stands_beside_does_not_leak() -> None:
    """NaN in one utterance is heard in no other, nor in those that come later."""
    mel_decoder, vocoder = little()
    device = on_device(mel_decoder, vocoder)
    frames = some_frames(mel_decoder, 30)
    sick = torch.full_like(frames, torch.nan)
    for last in (False, True):
        parts = (sick, frames, sick[:9], sick)
        pushes = [Push(device.begin(), part, last=last) for part in parts]
        ill, well, *_ = device.advance(pushes)
        assert ill.isnan().any()
        assert len(well)
        close(well, by_torch(mel_decoder, vocoder, frames)[: len(well)])
    close(whole(device, frames[:7]), by_torch(mel_decoder, vocoder, frames[:7]))


def test_copies_go_their_own_ways() -> None:
    mel_decoder, vocoder = little()
    frames = some_frames(mel_decoder, 90)
    for samples, way in copies_going_their_own_ways(little_chain(), frames):
        close(samples, by_torch(mel_decoder, vocoder, way))


def test_early_ends_of_copies_leave_their_originals_alone() -> None:
    """What a low-latency beginning does: the end is tried out on copies, in one batch."""
    mel_decoder, vocoder = little()
    device, torchs = little_chain(), TorchChain(mel_decoder, vocoder)
    frames = [some_frames(mel_decoder, 40, seed) for seed in range(3)]
    for other in (device, torchs):
        states = [other.begin() for _ in frames]
        outs = []
        for at in range(0, 40, 5):
            pushes = [Push(s, f[at : at + 5]) for s, f in zip(states, frames, strict=True)]
            outs += other.advance(pushes)
            outs += other.advance(
                [
                    Push(s.copy(), f[at + 4 : at + 5].expand(4, -1), last=True)
                    for s, f in zip(states, frames, strict=True)
                ]
            )
        outs += other.advance([Push(state, None, last=True) for state in states])
        if other is device:
            found = outs
    for mine, expected in zip(found, outs, strict=True):
        close(mine, expected)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("count", [70, 140])
def test_work_is_linear(count: int, size: int) -> None:
    """Each frame is in one pass; those that bring the end out do not depend on the length."""
    mel_decoder, vocoder = little()
    recorder, reach = Counting(), mel_decoder.reach + vocoder.reach
    device = on_device(mel_decoder, vocoder, recorder)
    streamed(device, some_frames(mel_decoder, count).split(size), reach, hop=10)
    assert recorder.replays == count // size - 1 + math.ceil((size + reach // 2) / 8)


def test_a_batch_is_one_pass() -> None:
    mel_decoder, vocoder = little()
    recorder = Counting()
    device = on_device(mel_decoder, vocoder, recorder)
    for count, passes in ((1, 1), (3, 1), (4, 1), (5, 2)):
        recorder.replays = 0
        device.advance([Push(device.begin(), some_frames(mel_decoder, 3)) for _ in range(count)])
        assert recorder.replays == passes


def test_only_what_is_needed_is_recorded() -> None:
    mel_decoder, vocoder = little()
    recorder = Counting()
    device, frames = on_device(mel_decoder, vocoder, recorder), some_frames(mel_decoder, 8)
    assert recorder.captures == 0
    for _ in range(2):
        device.advance([Push(device.begin(), frames[:1])])
        assert recorder.captures == 1
    device.warm_up((1, 2))
    assert recorder.captures == 6  # for each, three chunks
    for count in (1, 2, 5, 8):
        device.advance([Push(device.begin(), frames[:count], last=True) for _ in range(2)])
    assert recorder.captures == 6


def test_nothing_happens_where_a_pass_cannot_be_recorded() -> None:
    mel_decoder, vocoder = little()
    frames = some_frames(mel_decoder, 20)

    class Full(EagerRecorder):
        is_full = False

        def record(self, work: Callable[[], Any]) -> Any:
            if self.is_full:
                raise ConfigError("no memory")
            return super().record(work)

    recorder = Full()
    device = on_device(mel_decoder, vocoder, recorder)
    state = device.begin()
    first = device.advance([Push(state, frames[:3])])
    recorder.is_full = True
    with pytest.raises(ConfigError, match="no memory"):
        device.advance([Push(state, frames[3:], last=True)])
    recorder.is_full = False
    rest = device.advance([Push(state, frames[3:], last=True)])
    close(torch.cat(first + rest), by_torch(mel_decoder, vocoder, frames))


def test_callers_of_other_threads_wait_for_each_other() -> None:
    device = little_chain()
    frames = [some_frames(little()[0], 30, seed) for seed in range(4)]
    expected = [by_torch(*little(), own) for own in frames]
    with ThreadPoolExecutor(4) as threads:
        for samples, wanted in zip(
            threads.map(lambda own: whole(device, own), frames * 2), expected * 2, strict=True
        ):
            close(samples, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_smaller_weights_stay_near(dtype: torch.dtype) -> None:
    mel_decoder, vocoder = modules(True)
    frames = some_frames(mel_decoder, 30)
    expected = by_torch(mel_decoder, vocoder, frames)
    samples = whole(on_device(mel_decoder, vocoder, dtype=dtype, shapes=None), frames)
    assert 0 < (samples - expected).square().mean() < 1e-3 * expected.square().mean()


def test_a_state_that_has_ended_takes_nothing() -> None:
    device, frames = little_chain(), some_frames(little()[0], 20)
    state = device.begin()
    before = state.copy()
    device.advance([Push(state, frames[:5], last=True)])
    assert state.ended
    assert not before.ended
    going = device.begin()
    for ended in (state, state.copy()):
        for more in (frames[:1], None):
            with pytest.raises(ChatTTSError, match="begin a new state"):
                device.advance([Push(going, frames[:5]), Push(ended, more, last=more is None)])
    close(device.advance([Push(going, frames, last=True)])[0], by_torch(*little(), frames))
    assert len(device.advance([Push(before, frames[:5], last=True)])[0]) == 9 * 10


def test_pushes_that_make_no_sense_are_refused() -> None:
    device, frames = chain(), some_frames(modules(True)[0], 6)
    state = device.begin()
    with pytest.raises(ChatTTSError, match="pushed once at a time"):
        device.advance([Push(state, frames), Push(state, frames)])
    with pytest.raises(ChatTTSError, match="another chain"):
        device.advance([Push(state, frames), Push(chain(False).begin(), frames)])
    for wrong in (frames[:, :-2], frames[0], frames[None]):
        with pytest.raises(ChatTTSError, match=r"frames \[n, 64\]"):
            device.advance([Push(state, frames), Push(device.begin(), wrong)])
    with pytest.raises(ChatTTSError, match=r"frames \[n, 4\]"):
        chain(False).advance([Push(chain(False).begin(), frames)])
    with pytest.raises(IndexError):
        chain(False).advance([Push(chain(False).begin(), torch.full((1, 4), 625))])
    expected = by_torch(*modules(True), frames)
    close(device.advance([Push(state, frames, last=True)])[0], expected)


def test_nothing_may_be_pushed() -> None:
    device, frames = little_chain(), some_frames(little()[0], 30)
    assert device.advance([]) == []
    for nothing in (None, frames[:0]):
        state = device.begin()
        assert device.advance([Push(state, nothing)])[0].shape == (0,)
        assert device.advance([Push(state, nothing, last=True)])[0].shape == (0,)
        assert state.ended
    state = device.begin()
    samples = []
    for part in (None, frames[:20], None, frames[:0], frames[20:], None):
        samples += device.advance([Push(state, part)])
    samples += device.advance([Push(state, None, last=True)])
    close(torch.cat(samples), by_torch(*little(), frames))


def test_frames_of_other_types_and_places_are_taken_and_left_alone() -> None:
    device, frames = little_chain(), some_frames(little()[0], 8).bfloat16()
    before = frames.clone()
    expected = whole(device, frames.float())
    wide = frames.repeat(1, 2)[:, : frames.shape[1]]
    for same in (frames, frames.double(), frames.to(DEVICE), wide):
        close(whole(device, same), expected)
    pushes = [Push(device.begin(), own, last=True) for own in (frames, frames.to(DEVICE))]
    for samples in device.advance(pushes):
        close(samples, expected)
    assert torch.equal(frames, before)


def test_a_state_does_not_grow() -> None:
    device, state = little_chain(), little_chain().begin()
    assert state.kept_bytes == 0
    sizes = set()
    for part in some_frames(little()[0], 60).split(10):
        device.advance([Push(state, part)])
        sizes |= {state.kept_bytes, state.copy().kept_bytes}
    assert len(sizes) == 1
    assert 0 < sizes.pop() < 100_000
    device.advance([Push(state, None, last=True)])
    assert state.kept_bytes == 0


def test_magnitudes_are_limited_alike() -> None:
    mel_decoder, vocoder = modules(True)
    vocoder = copy.deepcopy(vocoder)
    vocoder.head.out.bias.data[:513:2] += 9  # every second one is beyond what vocos allows
    frames = some_frames(mel_decoder, 20)
    expected = by_torch(mel_decoder, vocoder, frames)
    largest = expected.abs().max().item()
    assert largest > 1
    samples = whole(on_device(mel_decoder, vocoder), frames)
    torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5 * largest)


def test_a_vocoder_whose_blocks_have_no_scale() -> None:
    mel_decoder, vocoder = copy.deepcopy(little())
    for block in vocoder.backbone.convnext:
        block.gamma = None
    frames = some_frames(mel_decoder, 20)
    expected = by_torch(mel_decoder, vocoder, frames)
    close(whole(on_device(mel_decoder, vocoder), frames), expected)


@pytest.mark.parametrize(("n_fft", "hop"), [(768, 256), (1024, 300), (256, 256)])
def test_transforms_that_do_not_fit_are_refused(n_fft: int, hop: int) -> None:
    vocoder = copy.deepcopy(modules(True)[1])
    vocoder.head.istft.n_fft, vocoder.head.istft.hop_length = n_fft, hop
    with pytest.raises(ConfigError, match="even multiple"):
        vocoder_stages(vocoder)


def test_products_have_all_their_bits() -> None:
    """Whatever the process allows itself elsewhere."""
    seen = []

    class Watching(EagerRecorder):
        def record(self, work: Callable[[], Any]) -> Any:
            seen.append(torch.get_float32_matmul_precision())
            return super().record(work)

    device = on_device(*little(), Watching())
    torch.set_float32_matmul_precision("high")
    try:
        device.warm_up()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert set(seen) == {"highest"}


def test_what_passes_read_outlives_their_recording() -> None:
    recorder = ForgetfulRecorder()
    chain = on_device(*little(), recorder=recorder)
    chain.warm_up((1, 2))
    assert recorder.captures == len(SHAPES.chunks) * 2
    assert recorder.lost() == 0
