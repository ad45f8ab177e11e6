"""The stages that need only sound: codec and vocoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.config import QuantizerConfig, VocosConfig
from ChatTTS.model.dvae import DVAE
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.model.vector_quantizer import VectorQuantizer
from recipes.voice.adversary import Discriminator
from recipes.voice.checkpoints import load_average
from recipes.voice.codec import CodecSettings, CodecTask, copied, quantize, start_codec
from recipes.voice.features import MEL, log_mel, samples_of
from recipes.voice.pieces import FLOOR, Trimmed, audible, drawn_pieces, spread
from recipes.voice.styles import VOICES
from recipes.voice.takes import TEACHER_FRAME, Line, Take
from recipes.voice.training import Budget, Moment, Schedule, generator_for
from recipes.voice.vocoder import VocoderSettings, VocoderTask

from ..support.recipe_tools import CPU, SMALL, lines, tones, trained

GROUPED = replace(SMALL, vq=QuantizerConfig(dim=32, G=4, R=1))


def take(samples: np.ndarray, before: int, after: int) -> Take:
    frames = np.array([before, len(samples) // TEACHER_FRAME - before - after, after], np.int32)
    weights = np.zeros(len(VOICES), np.float32)
    return Take(Line("a", "en", "A"), weights, 1.0, samples.astype(np.float32), frames)


@pytest.fixture(scope="module")
def corpus() -> list[Take]:
    """Tones of whole frames, with two frames of silence at both ends."""
    found = []
    for tone in tones():
        samples = tone[: len(tone) // TEACHER_FRAME * TEACHER_FRAME].copy()
        samples[: 2 * TEACHER_FRAME] = samples[-2 * TEACHER_FRAME :] = 0
        found.append(take(samples, 2, 2))
    return found


@pytest.mark.smoke
def test_what_cannot_be_heard_is_at_one_level() -> None:
    mel = torch.tensor([-11.5, -6.5, -5.5, 2.0])
    assert audible(mel).tolist() == [FLOOR, FLOOR, -5.5, 2.0]
    silence, speech = torch.zeros(1, 4096), 0.1 * torch.randn(1, 4096)
    assert (audible(log_mel()(silence)) == FLOOR).all()
    assert (audible(log_mel()(speech)) > FLOOR).all()
    assert (audible(log_mel()(speech / 10_000)) == FLOOR).float().mean() > 0.9


def test_most_of_the_silence_at_both_ends_is_cut_off() -> None:
    samples = np.arange(40 * TEACHER_FRAME)
    trimmed = Trimmed.of(take(samples, 10, 7)).samples
    assert trimmed[0] == 6 * TEACHER_FRAME
    assert trimmed[-1] == 37 * TEACHER_FRAME - 1
    assert np.array_equal(Trimmed.of(take(samples, 3, 0)).samples, samples)


def test_pieces_are_a_function_of_the_generator(corpus: list[Take]) -> None:
    one, same, other = (drawn_pieces(corpus, 5, 6, generator_for(CPU, n)) for n in (1, 1, 2))
    assert one.shape == (5, samples_of(6))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def quantizer() -> VectorQuantizer:
    torch.manual_seed(0)
    return VectorQuantizer(GROUPED.vq)


def test_quantize_is_what_the_package_computes() -> None:
    module, features = quantizer(), 4 * torch.randn(2, 32, 9)
    found, codes, unbounded = quantize(module, features)
    torch.testing.assert_close(found, module.embed(module(features)))
    assert torch.equal(codes, module(features))
    assert len(codes.unique()) > 10
    assert unbounded.shape == (2, 9, 16)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_flipped_levels_move_by_one(share: float) -> None:
    module, features = quantizer(), 4 * torch.randn(64, 32, 9)
    generator = generator_for(CPU, 1)
    clean, dirty = quantize(module, features)[0], quantize(module, features, share, generator)[0]
    moved = (clean - dirty)[:, :8].abs().amax(dim=1) > 1e-5
    # A group has four levels. Outer ones, two fifths of them, stay half of the time.
    assert moved.float().mean() == pytest.approx(1 - (1 - 0.8 * share) ** 4, abs=0.08)


def test_gradients_flow_through_the_codes() -> None:
    module, features = quantizer(), torch.randn(2, 32, 9, requires_grad=True)
    found, _, _ = quantize(module, features, 0.1, generator_for(CPU, 1))
    torch.autograd.backward(found.square().sum())
    assert features.grad is not None
    assert (features.grad.abs().sum(dim=1) > 0).all()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())


def codec_of(corpus: list[Take]) -> DVAE:
    torch.manual_seed(0)
    codec = DVAE(GROUPED, MEL)
    codec.coef.copy_(spread(corpus))
    start_codec(codec, drawn_pieces(corpus, 6, 10, generator_for(CPU, 0)))
    return codec


def codec_task(corpus: list[Take]) -> CodecTask:
    return CodecTask(
        codec_of(corpus), None, corpus, CPU, 0, CodecSettings(frames=10, batch=3, rate=5e-3)
    )


def test_a_new_codec_uses_many_codes_and_gives_mels_as_loud_as_speech(corpus: list[Take]) -> None:
    codec = codec_of(corpus)
    samples = drawn_pieces(corpus, 6, 10, generator_for(CPU, 1))
    codes = codec.encode(samples)
    assert codes.shape == (6, 4, 10)
    assert min(len(codebook.unique()) for codebook in codes.transpose(0, 1)) > 10
    decoded = codec.decode(codes).detach()
    assert float(decoded.std()) == pytest.approx(float(codec.coef.mean()), rel=0.5)


def test_the_codec_learns_and_is_read_back(corpus: list[Take], tmp_path: Path) -> None:
    budget, schedule = Budget(steps=40), Schedule(warmup=1)
    task = codec_task(corpus)
    assert trained(task, tmp_path, budget, log_every=10, schedule=schedule, keep=0.9)
    found = lines(tmp_path, "codec")
    assert found[-1]["mel"] < 0.7 * found[0]["mel"]

    codec = DVAE(GROUPED, MEL).eval()
    load_average(tmp_path / "codec.safetensors", "codec", codec)
    samples = drawn_pieces(corpus, 6, 10, generator_for(CPU, 0))
    with torch.no_grad():
        wanted = codec.decode(codec.encode(samples))
        # In bfloat16 where that is fast, so a few values are rounded to another code.
        found_mel = copied(codec, log_mel()(samples))
        assert (found_mel - wanted).abs().mean() < 0.05 * wanted.abs().mean()


def stopped(make: Callable[[], CodecTask | VocoderTask], out: Path) -> dict[str, Tensor]:
    """Return the weights after four steps, with a stop and another process after two."""
    first, second = make(), make()
    trained(first, out, Budget(steps=4, run_minutes=0.03), clock=iter_clock(), log_every=1)
    trained(second, out, Budget(steps=4), log_every=1)
    return second.modules[second.name].state_dict()


def iter_clock() -> Callable[[], float]:
    """Return a clock on which each look takes half a second."""
    times: Iterator[float] = (count / 2 for count in range(10_000))
    return lambda: next(times)


def test_a_stopped_training_goes_on_as_if_it_had_not_been(
    corpus: list[Take], tmp_path: Path
) -> None:
    whole = codec_task(corpus)
    trained(whole, tmp_path / "whole", Budget(steps=4))
    found = stopped(lambda: codec_task(corpus), tmp_path / "stopped")
    steps = [line["step"] for line in lines(tmp_path / "stopped", "codec")]
    assert steps == [1, 2, 3, 4]
    for name, value in whole.codec.state_dict().items():
        assert torch.equal(found[name], value), name


def vocoder_task(
    corpus: list[Take], settings: VocoderSettings, copier: Callable[[Tensor], Tensor] | None = None
) -> VocoderTask:
    torch.manual_seed(0)
    vocoder = Vocoder(VocosConfig(mel=MEL, dim=16, intermediate_dim=32, num_layers=1))
    return VocoderTask(vocoder, copier, Discriminator(channels=4), corpus, CPU, 0, settings)


@pytest.mark.slow
def test_the_vocoder_learns_with_and_without_the_discriminator(
    corpus: list[Take], tmp_path: Path
) -> None:
    settings = VocoderSettings(frames=8, batch=4, judged=2, rate=5e-3, adversary_from=0.8)
    task = vocoder_task(corpus, settings)
    assert trained(task, tmp_path, Budget(steps=80), log_every=20, schedule=Schedule(warmup=1))
    found = lines(tmp_path, "vocoder")
    assert found[2]["spectral"] < 0.9 * found[0]["spectral"]
    assert "fooling" not in found[2]
    assert {"discriminator", "fooling", "matching"} <= found[3].keys()


def test_the_discriminator_hears_some_pieces_from_its_phase_on(corpus: list[Take]) -> None:
    heard: list[int] = []
    task = vocoder_task(corpus, VocoderSettings(frames=8, batch=4, judged=2, adversary_from=0.5))
    assert task.discriminator is not None
    task.discriminator.register_forward_pre_hook(lambda _, given: heard.append(len(given[0])))
    batch = task.batch(0)
    early = list(task.objectives(batch, Moment(0, 0.4, generator_for(CPU, 0))))
    assert heard == []
    late = list(task.objectives(batch, Moment(0, 0.5, generator_for(CPU, 0))))
    assert heard == [2, 2, 2, 2]
    assert "discriminator" not in early[0].optimizers
    assert late[0].optimizers == ("discriminator",)
    assert late[1].optimizers == early[0].optimizers


def test_half_of_the_mels_are_the_codecs_at_last(corpus: list[Take]) -> None:
    copied_mels: list[Tensor] = []

    def copier(mel: Tensor) -> Tensor:
        copied_mels.append(mel)
        return mel + 1

    task = vocoder_task(corpus, VocoderSettings(frames=8, batch=4, copied_from=0.5), copier)
    batch, seen = task.batch(0), []
    task.vocoder.backbone.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    for spent in (0.0, 0.9):
        list(task.objectives(batch, Moment(0, spent, generator_for(CPU, 0))))
    assert torch.equal(copied_mels[0], log_mel()(batch[:2]))
    assert torch.equal(seen[1][:2], copied_mels[0] + 1)
    assert torch.equal(seen[0], audible(log_mel()(batch)))
    assert torch.equal(seen[1][2:], seen[0][2:])
