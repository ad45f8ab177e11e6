"""What codec, vocoder and Decoder are trained with: features, losses, discriminator, pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from ChatTTS.model.dvae import DVAE, MelDecoder
from recipes.voice.adversary import Discriminator, generator_losses
from recipes.voice.code_use import perplexity
from recipes.voice.features import MEL, Sound, fitted, log_mel, pieces, samples_of
from recipes.voice.losses import blurred_distance, mel_distance, spectral_distance
from recipes.voice.mel_decoder import cut_pieces, drawn_places, new_decoder
from recipes.voice.pieces import Trimmed
from recipes.voice.training import generator_for

from ..support.recipe_tools import CPU, SMALL, tones


@pytest.fixture(scope="module")
def corpus() -> list[Sound]:
    return [Trimmed(tone) for tone in tones()]


def test_a_piece_has_two_mel_frames_for_each_code_frame(corpus: list[Sound]) -> None:
    batch = pieces(corpus, 12, generator_for(CPU, 0))
    assert batch.shape == (6, samples_of(12))
    assert log_mel()(batch).shape == (6, MEL.n_mels, 24)


def test_pieces_lie_within_their_utterances_and_reach_both_ends() -> None:
    samples = np.arange(1, 40_001, dtype=np.float32)
    ramp = Trimmed(samples)
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


def test_perplexity_counts_equally_frequent_codes() -> None:
    assert perplexity(torch.tensor([3, 3, 3]), 10) == pytest.approx(1)
    assert perplexity(torch.arange(8).repeat(2), 10) == pytest.approx(8)


def test_equal_sounds_have_equal_features_in_the_discriminator() -> None:
    discriminator, samples = Discriminator(channels=4), torch.randn(1, 4096)
    _, matching = generator_losses(discriminator, samples, samples)
    assert matching == 0
    _, matching = generator_losses(discriminator, samples.roll(50), samples)
    assert matching > 0


def test_a_decoder_starts_with_the_codecs_weights_except_its_input() -> None:
    torch.manual_seed(0)
    codec = DVAE(SMALL, MEL)
    codec.coef.fill_(3)
    decoder = new_decoder(replace(SMALL.decoder, idim=20), codec)
    frames = torch.randn(2, 40, 5)
    narrow, wide = codec.decoder.conv_in[0], decoder.decoder.conv_in[0]
    assert isinstance(narrow, nn.Conv1d)
    assert isinstance(wide, nn.Conv1d)
    assert (narrow.in_channels, wide.in_channels) == (SMALL.decoder.idim, 20)
    codec.decoder.conv_in[0] = wide
    torch.testing.assert_close(decoder(frames), MelDecoder.forward(codec, frames))


def test_hidden_states_and_mels_of_a_piece_belong_together(corpus: list[Sound]) -> None:
    counts = [len(sound.samples) // 512 for sound in corpus]
    mels = [
        log_mel()(fitted(sound.samples, count)[None])[0]
        for sound, count in zip(corpus, counts, strict=True)
    ]
    # Hidden states that are pairs of mel frames.
    hiddens = [mel.T.reshape(count, -1) / 5 for mel, count in zip(mels, counts, strict=True)]
    places = drawn_places(len(corpus), generator_for(CPU, 0))
    assert all(0 <= place <= 1 for place in places)
    given, wanted, weight = cut_pieces(hiddens, mels, places, 25, CPU)
    assert given.shape == (6, 200, 25)
    assert wanted.shape == (6, MEL.n_mels, 50)
    assert weight.sum(dim=1).tolist() == [2 * min(25, count) for count in counts]
    halves = torch.stack(given.chunk(2, dim=1), dim=-1).flatten(2)  # as the decoder reads them
    torch.testing.assert_close(halves * 5, wanted)
