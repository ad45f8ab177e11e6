"""The decoder of captured launches, beyond the contract of all streaming decoders.

That contract is tested in ``test_streaming_decoder.py``.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ChatTTS.model.synthesis.layer_operations import kernel_operations
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput

from ...support.capture_tools import EagerCapturer, ForgetfulCapturer
from ...support.decoder_tools import (
    SHAPES,
    by_torch,
    cuda_decoder,
    in_company,
    little,
    modules,
    some_frames,
    streamed,
    whole,
)

pytestmark = pytest.mark.filterwarnings("ignore:At least one mel filterbank")


class Counting(EagerCapturer):
    """A capturer that also counts the replays.

    Attributes:
        after_replay: called behind each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replays = 0
        self.after_replay: Callable[[], object] = lambda: None

    def capture(self, work: Callable[[], Any], warm_up: Any = None) -> Any:
        graph: Any = super().capture(work, warm_up)

        def replay() -> None:
            self.replays += 1
            type(graph).replay(graph)
            self.after_replay()

        graph.replay = replay
        return graph


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("count", [70, 140])
def test_work_is_linear(count: int, size: int) -> None:
    """Each frame is in one launch; the launches that flush the end do not depend on the length."""
    mel_decoder, vocoder = little()
    capturer, reach = Counting(), mel_decoder.reach + vocoder.reach
    device = cuda_decoder(mel_decoder, vocoder, capturer)
    device.warm_up()
    streamed(device, some_frames(mel_decoder, count).split(size), reach, hop=10)
    assert capturer.replays == count // size - 1 + math.ceil((size + reach // 2) / 8)


def test_a_batch_is_one_launch() -> None:
    mel_decoder, vocoder = little()
    capturer = Counting()
    device = cuda_decoder(mel_decoder, vocoder, capturer)
    device.warm_up(SHAPES.sizes)
    for count, launches in ((1, 1), (3, 1), (4, 1), (5, 2)):
        capturer.replays = 0
        device.advance(
            [DecoderInput(device.begin(), some_frames(mel_decoder, 3)) for _ in range(count)]
        )
        assert capturer.replays == launches


def test_no_call_waits_for_a_capture() -> None:
    """Launches that are not captured are done without a graph."""
    mel_decoder, vocoder = little()
    capturer = Counting()
    device, frames = cuda_decoder(mel_decoder, vocoder, capturer), some_frames(mel_decoder, 8)
    device.warm_up((1, 2))
    device.warm_up((2,))
    assert capturer.captures == 6  # three chunks for each of the two
    torch.set_float32_matmul_precision("high")
    try:
        for count in (1, 2, 3, 4):
            states = [device.begin() for _ in range(count)]
            capturer.replays = 0
            begun = device.advance([DecoderInput(state, frames[:2]) for state in states])
            assert bool(capturer.replays) == (count < 3)
            rest = device.advance([DecoderInput(state, frames[2:], last=True) for state in states])
            for pieces in zip(begun, rest, strict=True):
                expected = by_torch(mel_decoder, vocoder, frames)
                torch.testing.assert_close(torch.cat(pieces), expected, rtol=0, atol=2e-5)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert capturer.captures == 6


def test_graphs_change_no_bit() -> None:
    """Whether none, all, or more and more launches are captured, also beside others' frames."""
    mel_decoder, vocoder = little()
    utterances = [some_frames(mel_decoder, count) for count in (1, 5, 9, 17, 30, 40)]
    none, capturer = cuda_decoder(mel_decoder, vocoder), Counting()
    ever_more = cuda_decoder(mel_decoder, vocoder, capturer)
    completed = cuda_decoder(mel_decoder, vocoder)
    while completed.capture_next():
        pass
    capturer.after_replay = ever_more.capture_next
    ever_more.warm_up()
    for seed in range(2):
        expected = in_company(none, utterances, seed)
        for decoder in (completed, ever_more):
            for samples, other in zip(in_company(decoder, utterances, seed), expected, strict=True):
                assert torch.equal(samples, other)
    assert capturer.captures == len(SHAPES.pairs)


@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_all_launches_can_be_captured(count: int) -> None:
    """Those of the most utterances and frames, too: nothing is left to single operators."""
    mel_decoder, vocoder = little()
    capturer = Counting()
    device = cuda_decoder(mel_decoder, vocoder, capturer)
    device.warm_up((1,))
    while device.capture_next():
        pass
    assert capturer.captures == len(SHAPES.pairs)
    for frames in (1, 3, 8, 20):
        capturer.replays = 0
        states = [device.begin() for _ in range(count)]
        device.advance([DecoderInput(state, some_frames(mel_decoder, frames)) for state in states])
        assert capturer.replays == len(list(SHAPES.plan([frames] * count)))


def test_a_capture_waits_for_no_call_and_writes_nothing_that_calls_use() -> None:
    """It is made between a launch and the reading of the rows that the launch keeps."""
    mel_decoder, vocoder = little()
    frames, capturer = some_frames(mel_decoder, 12), Counting()
    device = cuda_decoder(mel_decoder, vocoder, capturer)
    device.warm_up((1,))
    made: list[int] = []

    def capture_in_a_thread() -> None:
        before = device._kept._version
        thread = threading.Thread(target=device.capture_next, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "a capture must not wait for a call"
        made.append(device._kept._version - before)

    capturer.after_replay = capture_in_a_thread
    state, before = device.begin(), device._kept._version
    pieces = [
        device.advance([DecoderInput(state, part, last=last)])[0]
        for part, last in ((frames[:4], False), (frames[4:], True))
    ]
    assert device._kept._version > before  # a write is seen
    assert set(made) == {0}
    expected = by_torch(mel_decoder, vocoder, frames)
    torch.testing.assert_close(torch.cat(pieces), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.slow
def test_no_bit_of_the_kernels_depends_on_pieces_or_company(dtype: torch.dtype) -> None:
    """Launches of all shapes give the samples that an utterance has alone, as a whole."""
    pytest.importorskip("triton")
    mel_decoder, vocoder = little()
    decoder = cuda_decoder(mel_decoder, vocoder, dtype=dtype, operations=kernel_operations())
    assert decoder.exact
    long, short = (some_frames(mel_decoder, count) for count in (7, 2))
    expected = whole(decoder, long)
    if dtype is torch.float32:
        reference = by_torch(mel_decoder, vocoder, long)
        torch.testing.assert_close(expected, reference, rtol=0, atol=2e-5)
    state, other = decoder.begin(), decoder.begin()
    found = []
    for number, frame in enumerate(long.split(1), 1):
        beside = [] if number % 2 else [DecoderInput(other, short)]
        own = DecoderInput(state, frame, last=number == len(long))
        found.append(decoder.advance([*beside, own])[-1])
    assert torch.equal(torch.cat(found), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_smaller_weights_stay_near(dtype: torch.dtype) -> None:
    mel_decoder, vocoder = modules(True)
    frames = some_frames(mel_decoder, 30)
    expected = by_torch(mel_decoder, vocoder, frames)
    samples = whole(cuda_decoder(mel_decoder, vocoder, dtype=dtype, shapes=None), frames)
    assert 0 < (samples - expected).square().mean() < 1e-3 * expected.square().mean()


def test_products_have_all_their_bits() -> None:
    """Products keep full float32, whatever precision the process allows elsewhere."""
    seen = []

    class Watching(EagerCapturer):
        def capture(self, work: Callable[[], Any], warm_up: Any = None) -> Any:
            seen.append(torch.get_float32_matmul_precision())
            return super().capture(work, warm_up)

    device = cuda_decoder(*little(), Watching())
    torch.set_float32_matmul_precision("high")
    try:
        device.warm_up()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert set(seen) == {"highest"}


def test_what_launches_read_outlives_their_capture() -> None:
    capturer = ForgetfulCapturer()
    decoder = cuda_decoder(*little(), capturer=capturer)
    decoder.warm_up((1, 2))
    assert capturer.captures == len(SHAPES.chunks) * 2
    assert capturer.lost() == 0
