"""The bundled voice's recipe: features, losses, and the stages codec, vocoder and decoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ChatTTS.config import ConvNetConfig, QuantizerConfig, VocosConfig
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.quantizer import Quantizer
from ChatTTS.model.vocoder import Vocoder
from recipes.bundled_voice.adversary import Discriminator, discriminator_loss, generator_losses
from recipes.bundled_voice.checkpoints import load_average
from recipes.bundled_voice.codec import (
    CodecSettings,
    CodecTask,
    Corruption,
    new_codec,
    perplexity,
    quantize,
    start_codes,
)
from recipes.bundled_voice.decoder import (
    DecoderSettings,
    DecoderTask,
    Remembered,
    decoder_config,
    new_decoder,
)
from recipes.bundled_voice.features import MEL, fitted, log_mel, pieces, samples_of, spread
from recipes.bundled_voice.losses import blurred_distance, mel_distance, spectral_distance
from recipes.bundled_voice.run import window
from recipes.bundled_voice.training import (
    Budget,
    Moment,
    Schedule,
    autocast,
    generator_for,
)
from recipes.bundled_voice.types import Spoken
from recipes.bundled_voice.vocoder import VocoderSettings, VocoderTask

from ..support.recipe_tools import CPU, SMALL, lines, tones, trained


@pytest.fixture(scope="module")
def corpus() -> list[Spoken]:
    return tones()


# Features and losses


def test_a_piece_has_two_mel_frames_for_each_code_frame(corpus: list[Spoken]) -> None:
    batch = pieces(corpus, 12, generator_for(CPU, 0))
    assert batch.shape == (6, samples_of(12))
    assert log_mel()(batch).shape == (6, MEL.n_mels, 24)


def test_pieces_lie_within_their_utterances_and_reach_both_ends() -> None:
    samples = np.arange(1, 40_001, dtype=np.float32)
    ramp = Spoken("a", "rms", 5, samples, np.zeros(1, dtype=np.int32), np.zeros(78, np.int8))
    begins = set()
    for step in range(60):
        (piece,) = pieces([ramp], 10, generator_for(CPU, step))
        assert torch.equal(piece.diff(), torch.ones(len(piece) - 1))
        begins.add(int(piece[0]))
    assert {1, len(samples) - samples_of(10) + 1} <= begins
    assert len(begins) > 30


def test_short_utterances_are_filled_with_silence() -> None:
    found = fitted(np.ones(100, dtype=np.float32), 3)
    assert found.shape == (samples_of(3),)
    assert found.sum() == 100


def test_windows_go_through_the_whole_corpus(corpus: list[Spoken]) -> None:
    seen = [item for step in range(3) for item in window(step, 4, corpus)]
    assert [corpus.index(item) for item in seen] == [0, 1, 2, 3, 4, 5] * 2


def test_spread_is_the_deviation_of_each_bin(corpus: list[Spoken]) -> None:
    found = spread(corpus)
    assert found.shape == (MEL.n_mels, 1)
    assert (found >= 0.1).all()
    assert found.max() < 10


def test_losses_are_zero_for_equals_and_grow() -> None:
    a = torch.randn(2, 4096, generator=generator_for(CPU, 3))
    near, far = a + 0.01 * a.roll(7), a + 0.5 * a.roll(7)
    assert spectral_distance(a, a) == 0
    assert 0 < spectral_distance(near, a) < spectral_distance(far, a)
    mel = torch.randn(2, 5, 16)
    ripple = torch.tensor([1.0, -1.0]).repeat(8)
    assert mel_distance(mel + 1, mel) == pytest.approx(1)
    assert mel_distance(mel + ripple, mel) == pytest.approx(1)
    assert blurred_distance(mel + 1, mel) == pytest.approx(1)
    assert blurred_distance(mel + ripple, mel) == pytest.approx(0, abs=1e-6)


def test_frames_without_weight_do_not_count() -> None:
    found, wanted = torch.zeros(1, 3, 4), torch.zeros(1, 3, 4)
    found[..., 2:] = 9
    found[..., 0] = 2
    weight = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    assert mel_distance(found, wanted, weight) == 1


def test_silence_gives_finite_gradients() -> None:
    samples = torch.zeros(1, 4096, requires_grad=True)
    torch.autograd.backward(spectral_distance(samples, torch.zeros(1, 4096)))
    assert samples.grad is not None
    assert torch.isfinite(samples.grad).all()


# The stages


def quantizer() -> Quantizer:
    torch.manual_seed(0)
    return Quantizer(QuantizerConfig(dim=32))


@pytest.mark.smoke
def test_quantize_is_what_the_package_computes() -> None:
    module, features = quantizer(), 4 * torch.randn(2, 32, 9)
    found, first, _ = quantize(module, features)
    codes = module(features)
    torch.testing.assert_close(found, module.embed(codes))
    assert torch.equal(first, codes[:, ::2].to(first.dtype))
    assert len(codes.unique()) > 10


def test_gradients_flow_through_the_codes() -> None:
    module, features = quantizer(), torch.randn(2, 32, 9, requires_grad=True)
    found, _, _ = quantize(module, features, Corruption(), generator_for(CPU, 1))
    torch.autograd.backward(found.square().sum())
    assert features.grad is not None
    assert (features.grad.abs().sum(dim=1) > 0).all()
    assert all(p.grad is not None and p.grad.any() for p in module.parameters())


@pytest.mark.parametrize(
    ("corruption", "changed"),
    [
        (Corruption(0, 0, 0), 0.0),
        (Corruption(1, 0, 0), 1.0),
        (Corruption(0, 1, 0), 1.0),
        (Corruption(0, 0, 1), 1.0),
        (Corruption(0, 0, 0.5), 0.5),
    ],
)
def test_corruption_changes_the_share_asked_for(corruption: Corruption, changed: float) -> None:
    module, features = quantizer(), 4 * torch.randn(64, 32, 9)
    clean, _, _ = quantize(module, features)
    dirty, _, _ = quantize(module, features, corruption, generator_for(CPU, 1))
    share = (clean != dirty)[:, :16].any(dim=1).float().mean()  # of the first group
    assert share == pytest.approx(changed, abs=0.08)


def test_dropped_residuals_leave_the_first_codes() -> None:
    module, features = quantizer(), 4 * torch.randn(3, 32, 9)
    codes = module(features)
    codes[:, 1::2] = 312  # the middle of all four levels
    dropped, _, _ = quantize(module, features, Corruption(0, 1, 0), generator_for(CPU, 1))
    torch.testing.assert_close(dropped, module.embed(codes))


def test_perplexity_counts_equally_frequent_codes() -> None:
    assert perplexity(torch.tensor([3, 3, 3]), 10) == pytest.approx(1)
    assert perplexity(torch.arange(8).repeat(2), 10) == pytest.approx(8)


def codec_of(corpus: Sequence[Spoken]) -> DVAE:
    torch.manual_seed(0)
    codec = new_codec(SMALL, spread(corpus))
    start_codes(codec, pieces(corpus, 10, generator_for(CPU, 0)))
    return codec


def test_the_codec_learns_and_is_read_back(corpus: list[Spoken], tmp_path: Path) -> None:
    settings = CodecSettings(frames=10, batch=3, rate=5e-3)
    task = CodecTask(codec_of(corpus), corpus, CPU, 0, settings)
    assert trained(
        task, tmp_path, Budget(steps=40), log_every=10, schedule=Schedule(warmup=1), keep=0.9
    )
    found = lines(tmp_path, "codec")
    assert found[-1]["mel"] < 0.7 * found[0]["mel"]
    assert found[-1]["codes_used"] > 2

    codec = DVAE(SMALL, MEL).eval()
    load_average(tmp_path / "codec.safetensors", "codec", codec)
    assert torch.equal(codec.coef, task.codec.coef)
    codes = codec.encode(pieces(corpus, 10, generator_for(CPU, 0)))
    assert codes.shape == (6, 4, 10)
    assert codec.decode(codes).shape == (6, MEL.n_mels, 20)


def test_a_new_codec_uses_many_codes(corpus: list[Spoken]) -> None:
    codes = codec_of(corpus).encode(pieces(corpus, 10, generator_for(CPU, 1)))
    assert min(len(codebook.unique()) for codebook in codes.transpose(0, 1)) > 10


def vocoder_task(corpus: list[Spoken], adversarial: bool, settings: VocoderSettings) -> VocoderTask:
    torch.manual_seed(0)
    vocoder = Vocoder(VocosConfig(mel=MEL, dim=16, intermediate_dim=32, num_layers=1))
    codec = codec_of(corpus).eval().requires_grad_(False)
    discriminator = Discriminator(channels=4) if adversarial else None
    return VocoderTask(vocoder, codec, discriminator, corpus, CPU, 0, settings)


@pytest.mark.slow
def test_the_vocoder_learns(corpus: list[Spoken], tmp_path: Path) -> None:
    settings = VocoderSettings(frames=8, batch=2, rate=5e-3, decoded_from=0.9)
    task = vocoder_task(corpus, adversarial=False, settings=settings)
    assert trained(task, tmp_path, Budget(steps=40), log_every=10, schedule=Schedule(warmup=1))
    found = lines(tmp_path, "vocoder")
    assert found[2]["spectral"] < 0.9 * found[0]["spectral"]
    assert task.codec is not None
    assert all(p.grad is None for p in task.codec.parameters())


def test_the_discriminator_takes_part_from_its_phase_on(corpus: list[Spoken]) -> None:
    settings = VocoderSettings(frames=8, batch=2, adversary_from=0.5)
    task = vocoder_task(corpus, adversarial=True, settings=settings)
    batch = task.batch(0)
    early = list(task.objectives(batch, Moment(0, 0.4, generator_for(CPU, 0))))
    assert [objective.optimizers for objective in early] == [("vocoder",)]
    late = list(task.objectives(batch, Moment(0, 0.5, generator_for(CPU, 0))))
    assert [objective.optimizers for objective in late] == [("discriminator",), ("vocoder",)]
    assert {"fooling", "matching"} <= late[1].losses.keys()
    assert task.discriminator is not None
    of_equals = discriminator_loss(task.discriminator, batch, batch)
    assert not torch.isclose(late[0].losses["discriminator"], of_equals)


def test_equal_sounds_have_equal_features_in_the_discriminator() -> None:
    discriminator, samples = Discriminator(channels=4), torch.randn(1, 4096)
    _, matching = generator_losses(discriminator, samples, samples)
    assert matching == 0
    _, matching = generator_losses(discriminator, samples.roll(50), samples)
    assert matching > 0


def judged(task: VocoderTask) -> Iterator[tuple[str, Tensor]]:
    return task.modules["discriminator"].named_parameters()


@pytest.mark.slow
def test_both_sides_of_the_adversary_step(corpus: list[Spoken], tmp_path: Path) -> None:
    settings = VocoderSettings(frames=8, batch=2, adversary_from=0.0)
    task = vocoder_task(corpus, adversarial=True, settings=settings)
    before = {name: p.detach().clone() for name, p in judged(task)}
    assert trained(task, tmp_path, Budget(steps=4), log_every=2)
    moved = [not torch.equal(before[name], p) for name, p in judged(task)]
    assert all(moved)
    assert {"discriminator", "fooling", "gradient_vocoder"} <= lines(tmp_path, "vocoder")[0].keys()


def test_the_vocoder_is_given_the_codecs_mels_at_last(corpus: list[Spoken]) -> None:
    task = vocoder_task(corpus, adversarial=False, settings=VocoderSettings(frames=8, batch=4))
    batch, seen = task.batch(0), []
    task.vocoder.backbone.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    for spent in (0.0, 0.9):
        list(task.objectives(batch, Moment(0, spent, generator_for(CPU, 0))))
    assert torch.equal(seen[0][:2], seen[1][:2])
    assert task.codec is not None
    with autocast(CPU):
        wanted = task.codec.decode(task.codec.encode(batch[2:]))
    assert seen[1].shape == seen[0].shape
    torch.testing.assert_close(seen[1][2:], wanted.float(), atol=0.1, rtol=0.05)


def hiddens(utterances: Sequence[Spoken]) -> list[Tensor]:
    """Return fake hidden states of an utterance: pairs of its mel frames."""
    found = []
    for item in utterances:
        mel = log_mel()(fitted(item.samples, item.frames)[None])[0]
        found.append(mel.T.reshape(item.frames, -1) / 5)
    return found


@pytest.mark.slow
def test_the_decoder_learns(corpus: list[Spoken], tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = decoder_config(200)
    assert config.idim == 100
    small = ConvNetConfig(idim=100, odim=24, hidden=16, n_layer=1, bn_dim=16)
    decoder = MelDecoder(small, MEL.n_mels)
    settings = DecoderSettings(frames=12, batch=3, rate=5e-3)
    task = DecoderTask(decoder, hiddens, corpus, CPU, 0, settings)
    assert trained(task, tmp_path, Budget(steps=40), log_every=10, schedule=Schedule(warmup=1))
    found = lines(tmp_path, "decoder")
    assert found[-1]["mel_l1"] < 0.7 * found[0]["mel_l1"]


def test_a_decoder_starts_with_the_codecs_weights_except_its_input() -> None:
    codec = new_codec(SMALL, torch.ones(1, MEL.n_mels, 1) * 3)
    decoder = new_decoder(replace(SMALL.decoder, idim=20), codec)
    frames = torch.randn(2, 40, 5)
    narrow, wide = codec.decoder.conv_in[0], decoder.decoder.conv_in[0]
    assert isinstance(narrow, nn.Conv1d)
    assert isinstance(wide, nn.Conv1d)
    assert (narrow.in_channels, wide.in_channels) == (SMALL.decoder.idim, 20)
    codec.decoder.conv_in[0] = wide
    torch.testing.assert_close(decoder(frames), MelDecoder.forward(codec, frames))


def test_hidden_states_and_mels_of_a_piece_belong_together(corpus: list[Spoken]) -> None:
    small = ConvNetConfig(idim=100, odim=24, hidden=16, n_layer=1, bn_dim=16)
    settings = DecoderSettings(frames=25, batch=6)
    task = DecoderTask(MelDecoder(small, MEL.n_mels), hiddens, corpus, CPU, 0, settings)
    given, mel, weight = task.cut(*task.batch(0))
    assert given.shape == (6, 200, 25)
    assert mel.shape == (6, MEL.n_mels, 50)
    assert weight.sum(dim=1).tolist() == [2 * min(25, item.frames) for item in corpus]
    halves = torch.stack(given.chunk(2, dim=1), dim=-1).flatten(2)  # as the decoder reads them
    torch.testing.assert_close(halves * 5, mel)


def test_hidden_states_are_made_once_as_long_as_there_is_room(corpus: list[Spoken]) -> None:
    corpus = [replace(item, text=str(number)) for number, item in enumerate(corpus)]
    asked: list[str] = []

    def counted(utterances: Sequence[Spoken]) -> list[Tensor]:
        asked.extend(item.text for item in utterances)
        return hiddens(utterances)

    expected = [hidden.half() for hidden in hiddens(corpus)]
    room = sum(hidden.nbytes for hidden in expected[:4])
    remembered = Remembered(counted, room)
    for order in ([2, 0, 2], [3, 1, 0], [5, 3, 4], [4, 0, 1, 2, 3, 5]):
        found = remembered([corpus[n] for n in order])
        for n, hidden in zip(order, found, strict=True):
            assert torch.equal(hidden, expected[n])
    assert asked == ["2", "0", "3", "1", "5", "4", "4", "5"]
