"""The exported checkpoint: the package computes the results of the trained networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS.config import Config, ConvNetConfig, MelConfig, VocosConfig
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError
from ChatTTS.model.dvae import DVAE, MelDecoder
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.vocoder import Vocoder
from ChatTTS.pipeline.frame_generation import Utterance, speak
from recipes.bundled_voice import export, speakers
from recipes.bundled_voice.batches import speech_batch
from recipes.bundled_voice.checkpoints import Position, save
from recipes.bundled_voice.codec import CODEC
from recipes.bundled_voice.decoder import decoder_config
from recipes.bundled_voice.gpt import NUM_CODES, GPTSettings, GPTSizes, SpeechModel
from recipes.bundled_voice.prompts import Prompts
from recipes.bundled_voice.run import Run
from recipes.bundled_voice.training import Budget
from recipes.bundled_voice.types import VOICES
from recipes.bundled_voice.vocabulary import tokenizer
from recipes.bundled_voice.vocoder import VOCODER

from ..support.places import ROOT
from ..support.recipe_tools import make_codec, make_item

SIZES = GPTSizes(hidden=32, inner=48, heads=2, layers=2, positions=256)
PROMPTS = Prompts(tokenizer())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SpeechModel]:
    """A checkpoint of random weights, and its language model with weights rounded alike."""
    torch.manual_seed(0)
    codec, config = make_codec()
    model = SpeechModel(SIZES).eval()
    decoder = MelDecoder(ConvNetConfig(idim=16, odim=16, hidden=16, n_layer=1, bn_dim=16), 100)
    vocoder = Vocoder(VocosConfig(dim=16, intermediate_dim=16, num_layers=1))
    folder = tmp_path_factory.mktemp("run")
    export.export(export.Parts(model, codec, decoder, vocoder, config), folder / "asset")
    model.load_state_dict({k: v.half().float() for k, v in model.state_dict().items()})
    return folder, model


def test_the_package_computes_what_was_trained(exported: tuple[Path, SpeechModel]) -> None:
    folder, model = exported
    chat = Chat()
    chat.load_or_raise("custom", custom_path=folder, device="cpu")
    params = chat.InferCodeParams(max_new_token=12, min_new_token=12, show_tqdm=False)
    updates = list(
        speak(
            chat._loaded,
            [Utterance(0, 0, "hi you.")],
            params,
            0,
            batch_size=1,
            first_alone=False,
            cancelled=Cancellation(),
        )
    )
    codes = torch.cat([update.delta.ids for update in updates]).numpy()
    expected = torch.cat([update.delta.hiddens for update in updates])
    assert codes.shape == (12, 4)
    item = replace(make_item("hi you.", 12), codes=codes.astype(np.int16), speed=5)
    (hiddens,) = model.hiddens(speech_batch([PROMPTS.speech(item)], NUM_CODES))
    # The package rounds speakers to float16.
    torch.testing.assert_close(hiddens, expected, rtol=0.01, atol=0.01)
    logits = model.embed.code_logits(hiddens)
    torch.testing.assert_close(chat.embed.code_logits(hiddens), logits, rtol=0.01, atol=0.01)


def test_exported_voices_are_corners_and_random_speakers_lie_among_them(
    exported: tuple[Path, SpeechModel],
) -> None:
    chat = Chat()
    chat.load_or_raise("custom", custom_path=exported[0], device="cpu")
    assert list(chat.config.defaults.speakers) == list(VOICES)
    for voice, string in chat.config.defaults.speakers.items():
        vector = chat.speaker.vector(string)
        np.testing.assert_allclose(vector[:4], speakers.voice_speaker(voice).point, atol=1e-3)
    drawn = chat.speaker.vector(chat.sample_random_speaker())
    assert not drawn[4:].any()
    assert np.count_nonzero(drawn[:4]) == 4


def test_a_checkpoint_that_is_too_large_is_refused(
    exported: tuple[Path, SpeechModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, config = make_codec()
    parts = export.Parts(
        exported[1],
        codec,
        MelDecoder(ConvNetConfig(), 100),
        Vocoder(VocosConfig(dim=16, intermediate_dim=16, num_layers=1)),
        config,
    )
    monkeypatch.setattr(export, "MOST_BYTES", 1_000_000)
    with pytest.raises(AssetError, match="make a part smaller"):
        export.export(parts, tmp_path / "asset")
    assert not (tmp_path / "asset").exists()


def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    present = {"codec": "a", "gpt": "b"}
    run = Run(tmp_path, torch.device("cpu"), 1, [], {"decoder": Budget(steps=1)}, adversarial=False)
    export._check_origins(run, present)  # a part without an origin
    state = run.state("decoder")
    part = torch.nn.Linear(2, 2)
    for origin in ({}, present):
        save(state, Position(), {"part": part}, {"part": part.state_dict()}, {}, origin)
        export._check_origins(run, present)
    save(
        state,
        Position(),
        {"part": part},
        {"part": part.state_dict()},
        {},
        {**present, "gpt": "another"},
    )
    with pytest.raises(AssetError, match="'decoder' learned from another gpt"):
        export._check_origins(run, present)


def test_the_sizes_that_are_trained_fit_into_the_package() -> None:
    parts = (
        SpeechModel(GPTSizes()),
        DVAE(CODEC, MelConfig()),
        MelDecoder(decoder_config(GPTSizes().hidden), 100),
        Vocoder(VOCODER),
    )
    numbers = sum(p.numel() for part in parts for p in part.parameters())
    # Windows and filters are in float32, and the tokenizer and headers need room.
    assert 2 * numbers + 600_000 < export.MOST_BYTES


@pytest.mark.smoke
def test_the_bundled_voice_names_its_guided_heads() -> None:
    bundled = Config.from_file(ROOT / "ChatTTS" / "bundled" / "asset" / "config.json")
    model = SpeechModel(GPTSizes())
    assert (model.sizes.layers, model.sizes.heads) == (
        bundled.gpt.num_hidden_layers,
        bundled.gpt.num_attention_heads,
    )
    guided = tuple(model.guided(GPTSettings.guided_heads))
    assert bundled.defaults.alignment_heads == guided == ((2, 0), (2, 1), (3, 0), (3, 1))


def test_guided_heads_are_exported(exported: tuple[Path, SpeechModel]) -> None:
    folder, model = exported
    heads = Config.from_file(folder / "asset" / "config.json").defaults.alignment_heads
    assert heads == tuple(model.guided(GPTSettings.guided_heads))
    assert len(heads) > 1
