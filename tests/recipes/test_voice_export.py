"""The exported checkpoint: the package computes the results of the trained networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.config import Config, ConvNetConfig, MelConfig, VocosConfig
from ChatTTS.config.front_ends import front_end_named
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.synthesis.vocoder import Vocoder
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance
from recipes.voice import export
from recipes.voice.batches import speech_batch
from recipes.voice.checkpoints import Position, save
from recipes.voice.codec import CODEC
from recipes.voice.decoder import decoder_config
from recipes.voice.gpt import SETTINGS
from recipes.voice.language_model import NUM_CODES, SIZES, GPTSizes, SpeechModel
from recipes.voice.prompts import Prompts
from recipes.voice.run import Run
from recipes.voice.styles import CAST, COORDINATES, VOICES, mixture, speaker_vector
from recipes.voice.texts import CHARACTERS
from recipes.voice.training import Budget
from recipes.voice.vocoder import VOCODER

from ..support.bundled_voice import BUNDLED
from ..support.recipe_tools import SMALL, make_item

TINY = GPTSizes(hidden=32, inner=48, heads=2, layers=2, positions=256)
TEXT = "Hi you."


@pytest.fixture(scope="module")
def parts() -> Iterator[export.Parts]:
    """Small parts of random weights."""
    torch.manual_seed(0)
    places = np.random.default_rng(0).standard_normal((len(VOICES), COORDINATES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "CODEC", SMALL)
        yield export.Parts(
            SpeechModel(TINY).eval(),
            DVAE(SMALL, MelConfig()).eval(),
            MelDecoder(ConvNetConfig(idim=16, odim=16, hidden=16, n_layer=1, bn_dim=16), 100),
            Vocoder(VocosConfig(dim=16, intermediate_dim=16, num_layers=1)),
            places.astype(np.float32),
        )


@pytest.fixture(scope="module")
def exported(parts: export.Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a checkpoint, whose language model then has weights that are rounded alike."""
    folder = tmp_path_factory.mktemp("run")
    export.export(parts, folder / "asset")
    parts.gpt.load_state_dict({k: v.half().float() for k, v in parts.gpt.state_dict().items()})
    return folder


@pytest.fixture(scope="module")
def chat(exported: Path) -> Chat:
    found = Chat()
    found.load_or_raise("custom", custom_path=exported, device="cpu", use_vllm=False)
    return found


def symbols_of(text: str) -> tuple[str, ...]:
    """Return the symbols that the front end makes of a text without tags."""
    return tuple(front_end_named("phonemes").spoken(text).text.replace("<", "").split(">")[:-1])


def test_the_package_computes_what_was_trained(chat: Chat, parts: export.Parts) -> None:
    params = chat.InferCodeParams(max_new_token=12, min_new_token=12, show_tqdm=False)
    updates = list(
        SpeechPass(
            chat._loaded,
            [Utterance(0, 0, TEXT)],
            params,
            0,
            batch_size=1,
            cancelled=Cancellation(),
        ).updates()
    )
    codes = torch.cat([update.delta.ids for update in updates]).numpy()
    expected = torch.cat([update.delta.hiddens for update in updates])
    assert codes.shape == (12, 4)
    clara = (mixture(CAST["clara"].weights) @ parts.places).astype(np.float32)
    item = make_item(symbols_of(TEXT), 12)
    item = replace(item, codes=codes.astype(np.int16), speed=5, place=clara)
    (hiddens,) = parts.gpt.hiddens(speech_batch([Prompts().speech(item)], NUM_CODES))
    # The package rounds speakers to float16.
    torch.testing.assert_close(hiddens, expected, rtol=0.01, atol=0.01)
    logits = parts.gpt.embed.code_logits(hiddens)
    torch.testing.assert_close(chat.embed.code_logits(hiddens), logits, rtol=0.01, atol=0.01)


def test_voices_are_the_cast_and_random_speakers_lie_in_their_space(
    chat: Chat, parts: export.Parts
) -> None:
    assert list(chat.config.defaults.speakers) == list(CAST)
    for name, string in chat.config.defaults.speakers.items():
        place = mixture(CAST[name].weights) @ parts.places
        expected = speaker_vector(place, TINY.hidden)
        np.testing.assert_allclose(chat.speaker.vector(string), expected, atol=1e-3)
    drawn = chat.speaker.vector(chat.sample_random_speaker())
    assert not drawn[COORDINATES + 1 :].any()
    assert np.count_nonzero(drawn) == COORDINATES + 1


def test_a_checkpoint_that_is_too_large_is_refused(
    parts: export.Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MOST_BYTES", 100_000)
    with pytest.raises(AssetError, match="make a part smaller"):
        export.export(parts, tmp_path / "asset")
    assert not (tmp_path / "asset").exists()


def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    present = {"codec": "a", "gpt": "b"}
    run = Run(tmp_path, tmp_path, torch.device("cpu"), 1, {"decoder": Budget(steps=1)}, 1)
    state = run.state("decoder")
    part = torch.nn.Linear(2, 2)

    def trained_on(origin: dict[str, str]) -> None:
        save(state, Position(), {"part": part}, {"part": part.state_dict()}, {}, origin)
        export._check_origin(run, "decoder", present)

    trained_on({})
    trained_on(present)
    with pytest.raises(AssetError, match="'decoder' learned from another gpt"):
        trained_on({**present, "gpt": "another"})


@pytest.mark.parametrize("size", SIZES)
def test_the_sizes_that_are_trained_fit_into_the_package(size: str) -> None:
    parts = (
        SpeechModel(SIZES[size]),
        DVAE(CODEC, MelConfig()),
        MelDecoder(decoder_config(SIZES[size].hidden), 100),
        Vocoder(VOCODER),
    )
    numbers = sum(p.numel() for part in parts for p in part.parameters())
    # Windows and filters are in float32, and the tokenizer and headers need room.
    assert 2 * numbers + 600_000 < export.MOST_BYTES


def test_guided_heads_are_exported(exported: Path, parts: export.Parts) -> None:
    heads = Config.from_file(exported / "asset" / "config.json").defaults.alignment_heads
    assert heads == tuple(parts.gpt.guided(SETTINGS.guided_heads))
    assert len(heads) > 1


@pytest.mark.smoke
def test_the_bundled_voice_is_one_of_this_recipe() -> None:
    (sizes,) = (each for each in SIZES.values() if each.config == BUNDLED.gpt)
    defaults = BUNDLED.defaults
    assert tuple(defaults.speakers) == tuple(CAST)
    assert (defaults.speaker, defaults.pronunciation) == (next(iter(CAST)), "phonemes")
    assert defaults.language_speakers == export.language_speakers()
    assert defaults.language is None, "it speaks two"
    assert defaults.characters == CHARACTERS
    assert defaults.alignment_heads == tuple(SpeechModel(sizes).guided(SETTINGS.guided_heads))
