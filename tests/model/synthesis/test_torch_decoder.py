"""The decoder in torch, beyond the contract of all streaming decoders: no frame is computed twice.

That contract is tested in ``test_streaming_decoder.py``.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from ChatTTS.core import Chat
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput
from ChatTTS.model.synthesis.synthesizer import Synthesizer
from ChatTTS.model.synthesis.torch_decoder import TorchStreamingDecoder

from ...support.decoder_tools import HOP, modules, some_frames, spoken_frames, streamed


@pytest.mark.slow
@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("name", ["model-a", "model-b", "bundled"])
def test_only_rounding_is_left(bundled: Chat, name: str, use_decoder: bool) -> None:
    """In float64, pieces and the whole differ only by the rounding of the samples."""
    if name == "bundled":
        own = (bundled.decoder if use_decoder else bundled.dvae), bundled.vocos
        frames = spoken_frames(bundled, "hiddens" if use_decoder else "ids", 75)
    else:
        own = modules(use_decoder, name)
        frames = some_frames(own[0], 75)
    mel_decoder, vocoder = copy.deepcopy(own)
    synthesizer = Synthesizer(mel_decoder.double(), vocoder.double())
    decoder = TorchStreamingDecoder(synthesizer.mel_decoder, synthesizer.vocoder)
    whole = synthesizer.samples(frames)
    joined = streamed(decoder, frames.split(8), synthesizer.reach)
    torch.testing.assert_close(joined, whole, rtol=0, atol=1e-7)
    assert len(whole) == synthesizer.length(75) == 149 * HOP
    assert synthesizer.final(75) == (150 - synthesizer.reach) * HOP


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Count the frames that each kind of layer gives."""
    counts: dict[str, int] = {}

    def add(kind: str, frames: int) -> None:
        counts[kind] = counts.get(kind, 0) + frames

    class Counter(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name == "conv1d":
                add("depthwise" if args[1].shape[1] == 1 else "product", result.shape[-1])
            elif name == "linear":
                add("product", result.numel() // result.shape[-1])
            elif name == "layer_norm":
                add("norm", result.numel() // result.shape[-1])
            return result

    with Counter():
        yield counts


@pytest.mark.parametrize("use_decoder", [True, False])
@pytest.mark.parametrize("size", [1, 7, 24])
def test_no_frame_is_computed_twice(size: int, use_decoder: bool) -> None:
    synthesizer = Synthesizer(*modules(use_decoder))
    decoder = TorchStreamingDecoder(synthesizer.mel_decoder, synthesizer.vocoder)
    for count in (20, 100):
        frames = some_frames(synthesizer.mel_decoder, count)
        with counted() as offline:
            synthesizer.samples(frames)
        with counted() as online:
            streamed(decoder, frames.split(size), synthesizer.reach)
        assert online == offline
        # Linear in the length: every layer gives two frames for each.
        assert all(frames_of % (2 * count) == 0 for frames_of in offline.values())


def test_a_batch_computes_no_more_than_its_utterances() -> None:
    decoder, frames = TorchStreamingDecoder(*modules(True)), some_frames(modules(True)[0], 110)
    counts = []
    for is_together in (False, True):
        states = [decoder.begin() for _ in range(4)]
        with counted() as work:
            for part in frames.split(10):
                pushes = [DecoderInput(state, part[: 2 + 2 * i]) for i, state in enumerate(states)]
                for batch in [pushes] if is_together else [[push] for push in pushes]:
                    decoder.advance(batch)
        counts.append(work)
    alone, together = counts
    # The cheap depthwise convolutions also run where two utterances meet.
    assert together.pop("depthwise") < 3 * alone.pop("depthwise")
    assert together == alone
