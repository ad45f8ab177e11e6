"""The decoders of a checkpoint that is placed on CUDA; its modules are on the CPU here."""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from ChatTTS.errors import ConfigError
from ChatTTS.loading import synthesizers as loading
from ChatTTS.model.cuda.graphs import GraphCapturer
from ChatTTS.model.devices.placement import Placement
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.synthesis.cuda_decoder import CudaStreamingDecoder
from ChatTTS.model.synthesis.launch_shapes import LaunchShapes
from ChatTTS.model.synthesis.vocoder import Vocoder

from ...support.capture_tools import EagerCapturer
from ...support.decoder_tools import by_torch, modules, some_frames


def load_synthesizers(
    monkeypatch: pytest.MonkeyPatch,
    vocoder: Vocoder,
    capturer: Callable[[], GraphCapturer] = EagerCapturer,
    dtype: torch.dtype = torch.float32,
) -> tuple[Any, Any]:
    """Load the synthesizers of a placement on CUDA, with their modules on the CPU."""
    monkeypatch.setattr(loading, "CudaGraphCapturer", lambda device, advice: capturer())
    monkeypatch.setattr(loading, "_CAPTURED_FIRST", (1,))
    cuda = torch.device("cuda")
    return loading.load_synthesizers(
        modules(True)[0],
        cast(DVAE, modules(False)[0]),
        vocoder,
        Placement(cuda, dtype, cuda),
        EngineOptions(),
        has_kernels=False,
    )


def test_on_cuda_both_ways_are_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, use_decoder in zip(
        load_synthesizers(monkeypatch, modules(True)[1]), (True, False), strict=True
    ):
        assert isinstance(own._given, CudaStreamingDecoder)
        assert not own.is_exact
        frames = some_frames(own.mel_decoder, 12)
        expected = by_torch(*modules(use_decoder), frames)
        torch.testing.assert_close(own.samples(frames), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch_invariant", [None, True, False])
def test_rows_stand_alone_where_kernels_run(
    monkeypatch: pytest.MonkeyPatch, batch_invariant: bool | None
) -> None:
    pytest.importorskip("triton")
    cuda = torch.device("cuda")
    placement = Placement(cuda, torch.float32, cuda)
    options = EngineOptions(batch_invariant=batch_invariant)
    assert not loading._layer_operations(placement, options).exact  # no GPU is there
    monkeypatch.setattr(loading, "why_no_kernels", lambda device: None)
    is_exact = batch_invariant is not False
    assert loading._layer_operations(placement, options).exact is is_exact


def test_the_rest_is_left_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    capturers: list[EagerCapturer] = []

    def capturer() -> EagerCapturer:
        capturers.append(EagerCapturer())
        return capturers[-1]

    own = load_synthesizers(monkeypatch, modules(True)[1], capturer)
    shapes = LaunchShapes()
    first = sum(size in loading._CAPTURED_FIRST for size, _ in shapes.pairs)
    assert [each.captures for each in capturers] == [first] * 2
    assert [each.capturable for each in own] == [each._given for each in own]
    assert [each.capturable.left for each in own] == [len(shapes.pairs) - first] * 2


def test_a_vocoder_that_is_not_centred_is_used_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    vocoder = copy.deepcopy(modules(True)[1])
    vocoder.head.istft.padding = "same"
    for own in load_synthesizers(monkeypatch, vocoder):
        assert own._given is None
    assert "decoded whole, not in pieces" in caplog.text


def test_a_model_of_less_than_float32_gets_a_decoder_of_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors, exact = [], load_synthesizers(monkeypatch, modules(True)[1])
    less = load_synthesizers(monkeypatch, modules(True)[1], dtype=torch.bfloat16)
    for own, precise in zip(less, exact, strict=True):
        frames = some_frames(own.mel_decoder, 12)
        errors.append((own.samples(frames) - precise.samples(frames)).abs().max().item())
    from_hiddens, from_codes = errors
    assert 1e-5 < from_hiddens < 1e-2
    assert 0 < from_codes < 1e-5  # the DVAE stays in float32, the vocoder has fewer bits


def test_too_little_memory_is_no_reason_to_go_on_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(EagerCapturer):
        def capture(self, work: Callable[[], Any], warm_up: Any = None) -> Any:
            raise ConfigError("1 MiB of 2 MiB are free")

    with pytest.raises(ConfigError, match="MiB"):
        load_synthesizers(monkeypatch, modules(True)[1], Full)
