"""The stage that makes sound of hidden states: its excerpts, and who learns when."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.config import VocosConfig
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.synthesis.vocoder import Vocoder
from recipes.voice.adversary import Discriminator
from recipes.voice.codec import CODEC
from recipes.voice.coded import arranged_take, code_shards, read_codes, write_space
from recipes.voice.decoder import DecoderSettings, DecoderTask
from recipes.voice.excerpts import Excerpts, ExcerptSource
from recipes.voice.features import MEL
from recipes.voice.language_model import GPTSizes, SpeechModel
from recipes.voice.mel_judge import MelJudge
from recipes.voice.styles import COORDINATES, VOICES, StyleSpace
from recipes.voice.takes import TEACHER_FRAME, Line, Take, Takes, write_shard
from recipes.voice.training import Moment, generator_for
from recipes.voice.units import FRAME_SAMPLES

from ..support.recipe_tools import CPU

FRAMES = 12
ARRANGED = 5  # the seed of the arrangement


def takes(seed: int) -> list[Take]:
    random = np.random.default_rng(seed)
    found = []
    for index in range(3):
        frames = np.array([4, 20 + 9 * index, 14, 4], np.int32)
        noise = random.standard_normal(frames.sum() * TEACHER_FRAME).clip(-4, 4) / 5
        weights = np.eye(len(VOICES), dtype=np.float32)[index]
        line = Line("", "en", "ˈA")
        found.append(Take(line, weights, 1.0, noise.astype(np.float32), frames))
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for shard in range(3):
        write_shard(folder / "speech", shard, takes(shard))
    torch.manual_seed(0)
    codec = DVAE(CODEC, MEL).eval().requires_grad_(False)
    random = np.random.default_rng(0)
    tables = random.standard_normal((len(VOICES), 510, 64)).astype(np.float32)
    write_space(folder / "codes", StyleSpace.of(tables))
    parts = [
        code_shards(folder / "speech", folder / "codes", codec, CPU, ARRANGED, part=n, parts=2)
        for n in range(2)
    ]
    assert parts == [2, 1]
    code_shards(folder / "speech", folder / "codes", codec, CPU, ARRANGED, most=1, variant=1)
    return folder


@pytest.fixture
def source(corpus: Path) -> ExcerptSource:
    return ExcerptSource(corpus / "speech", corpus / "codes", ARRANGED, 1, 4, FRAMES)


def test_takes_reach_another_process_by_their_names(corpus: Path) -> None:
    speech = Takes(corpus / "speech", "00001")
    pickled = pickle.dumps(speech)
    assert len(pickled) < 1000
    write_shard(corpus / "speech", 9, takes(9))
    (found,) = [pickle.loads(pickled)]
    (corpus / "speech" / "00009.json").unlink()
    assert len(found) == len(speech) == 3
    assert np.array_equal(found[2].samples, speech[2].samples)


def test_an_arrangement_is_coded_once_and_variants_differ(corpus: Path) -> None:
    names = sorted(path.name for path in (corpus / "codes").glob("*.npz"))
    assert names == ["00000-1.npz", "00000.npz", "00001.npz", "00002.npz"]
    first = Takes(corpus / "speech", "00000")[0]
    one, other = (arranged_take(first, ARRANGED, 0, 0, variant) for variant in range(2))
    assert one.starts[0] != other.starts[0]


def test_excerpts_are_a_function_of_the_step(source: ExcerptSource) -> None:
    one, again, other = source(3), pickle.loads(pickle.dumps(source))(3), source(4)
    assert torch.equal(one.samples, again.samples)
    assert torch.equal(one.firsts, again.firsts)
    assert not torch.equal(one.samples, other.samples)
    assert one.samples.shape == (4, (2 * FRAMES - 1) * 256)


@pytest.mark.parametrize("each", [1, 3])
def test_hidden_states_and_sound_are_of_one_place(
    corpus: Path, source: ExcerptSource, each: int
) -> None:
    source = replace(source, each=each)
    places = np.zeros((len(VOICES), COORDINATES), np.float32)
    wholes = [
        (arranged_take(take, ARRANGED, shard, index).samples, coded.codes)
        for shard in range(3)
        for index, (take, coded) in enumerate(
            zip(
                Takes(corpus / "speech", f"{shard:05d}"),
                read_codes(corpus / "codes" / f"{shard:05d}.npz", places),
                strict=True,
            )
        )
    ]
    begins = set()
    for step in range(12):
        found = source(step)
        assert len(found.whole.ids) == -(-4 // each)
        for excerpt, row in enumerate(found.rows.tolist()):
            first = int(found.firsts[excerpt])
            # The state at a position predicts the next one, so the excerpt's codes are targets.
            codes = found.whole.targets[row, first : first + FRAMES].numpy()
            begin = first - int((found.whole.targets[row, :, 0] != -100).nonzero()[0])
            begins.add(begin)
            sound = found.samples[excerpt].numpy()
            assert any(
                np.array_equal(known[begin : begin + FRAMES], codes)
                and np.allclose(samples[begin * FRAME_SAMPLES :][: len(sound)], sound)
                for samples, known in wholes
            )
    assert len(begins) > 4


def test_utterances_must_be_long_enough(source: ExcerptSource) -> None:
    with pytest.raises(AssetError, match="no utterances of 4000 frames"):
        replace(source, frames=4000)(0)


class Recorded(DecoderTask):
    """A task whose losses are kept by the phase of the training."""

    def names(self, batch: Excerpts, spent: float) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        for objective in self.objectives(batch, Moment(0, spent, generator_for(CPU, 0))):
            torch.stack(list(objective.losses.values())).sum().backward()
            yield objective.optimizers, set(objective.losses)


def test_the_discriminators_and_the_vocoder_take_part_one_after_the_other(
    source: ExcerptSource,
) -> None:
    torch.manual_seed(0)
    model = SpeechModel(GPTSizes(hidden=32, inner=32, heads=2, layers=2)).requires_grad_(False)
    small = replace(CODEC.decoder, idim=16, hidden=16, n_layer=1, bn_dim=8)
    vocoder = Vocoder(VocosConfig(mel=MEL, dim=16, intermediate_dim=32, num_layers=1))
    decoder = MelDecoder(small, MEL.n_mels)
    settings = DecoderSettings(frames=FRAMES, batch=4, looked_from=0.3, heard_from=0.6)
    task = Recorded(model, decoder, vocoder, MelJudge(2), Discriminator(2), source, CPU, settings)
    batch = task.batch(0)
    own = ("muon", "adamw")
    mel, looks = {"mel", "blurred"}, {"looking", "matching_looks"}
    heard = {"heard_mel", "spectral", "hearing", "matching_sounds"}
    assert list(task.names(batch, 0.1)) == [(own, mel)]
    assert list(task.names(batch, 0.4)) == [(("judge",), {"judge"}), (own, mel | looks)]
    assert all(parameter.grad is None for parameter in vocoder.parameters())
    assert list(task.names(batch, 0.7)) == [
        (("judge",), {"judge"}),
        (("discriminator",), {"discriminator"}),
        ((*own, "vocoder"), mel | looks | heard),
    ]
    assert all(parameter.grad is not None for parameter in vocoder.parameters())
    assert all(parameter.grad is None for parameter in model.parameters())
    # Discriminators that begin from nothing learn alone at first.
    task.settings = replace(settings, alone=1)
    assert [own for own, _ in task.names(batch, 0.7)] == [("judge",), ("discriminator",)]
