"""Learning a speaker: the bounds of the search, checks of what does not fit, and the search."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from ChatTTS import voices
from ChatTTS.audio import save
from ChatTTS.checkpoints.assets import AssetFolder, locate
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, ConfigError, VoiceError
from ChatTTS.model.speaker import Speaker
from ChatTTS.voice_learning import speaker_search
from ChatTTS.voice_learning.coded import encode_recordings
from ChatTTS.voice_learning.fit_checks import grouping, other_speakers, wrong_transcripts
from ChatTTS.voice_learning.forecast import Forecast
from ChatTTS.voice_learning.language_model import (
    LanguageModel,
    check_encoder,
    load_language_model,
)
from ChatTTS.voice_learning.learning import usable_speakers
from ChatTTS.voice_learning.likelihood import unlikelihood, unlikelihoods
from ChatTTS.voice_learning.recordings import LeftOut, Limits, Recordings, read_recordings
from ChatTTS.voice_learning.sequences import CodeSequence, code_sequence, groups_of_similar_length
from ChatTTS.voice_learning.speaker_search import SearchSettings, SpeakerSearch, divided
from ChatTTS.voice_learning.speaker_space import SpeakerSpace
from ChatTTS.voices import SavedVoice, VoiceLibrary
from recipes.voice.evaluation import heldout
from recipes.voice.evaluation.speech_metrics import voice_print

from ..support.bundled_voice import NAMES, WIDTH
from .test_reading import RATE, put, voice

Say = Callable[..., list[np.ndarray]]

LINES = (
    "we went to the market to buy bread.",
    "she opened the window and looked out.",
    "the children play behind the house.",
    "my brother works in a small shop.",
    "it was very cold last night.",
    "please tell me when the train leaves.",
)

# For tests of all but the search.
QUICK = SearchSettings(starts=1, candidates=2, most_steps=1, every=1, positions=256)


@pytest.fixture(scope="module")
def language_model(bundled: Chat) -> LanguageModel:
    model = bundled._loaded
    placement = replace(model.placement, dtype=torch.float32, quantization=None)
    return load_language_model(locate("bundled"), model.config, placement)


@pytest.fixture(scope="module")
def said(bundled: Chat) -> Say:
    """Return lines in a voice of the bundled model."""

    @cache
    def say(speaker: str, count: int, seed: int = 3) -> list[np.ndarray]:
        params = {"spk_emb": speaker, "manual_seed": seed, "show_tqdm": False}
        found: list[np.ndarray] = bundled.infer(
            list(LINES[:count]), skip_refine_text=True, params_infer_code=params
        )
        return found

    return say


def record(folder: Path, waves: list[np.ndarray], texts: tuple[str, ...] = LINES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (wave, text) in enumerate(zip(waves, texts, strict=False)):
        save(folder / f"{number}.wav", wave)
        (folder / f"{number}.txt").write_text(text, "utf-8")
    return folder


def sequences_of(chat: Chat, folder: Path) -> tuple[list[CodeSequence], list[str]]:
    model = chat._loaded
    coded, _ = encode_recordings(
        read_recordings(folder),
        dvae=model.dvae,
        normalizer=chat.normalizer,
        tokenizer=model.tokenizer,
    )
    prompt = "[speed_5]"
    made = [code_sequence(model.tokenizer, c.text, c.codes, prompt=prompt) for c in coded]
    return made, [c.name for c in coded]


# ---------------------------------------------------------------- where speakers live


def test_random_speakers_lie_within_the_bounds_and_all_else_is_brought_there() -> None:
    std = torch.cat([torch.full((30,), 0.5), torch.zeros(10)])
    space = SpeakerSpace(torch.full((40,), 0.1), std)
    assert space.dimensions == 30
    drawn = torch.randn(4000, 30, generator=torch.Generator().manual_seed(0))
    for measure, most in (
        (drawn.abs().amax(dim=1), space.max_coordinate),
        (drawn.norm(dim=1), space.max_length),
    ):
        assert 0.985 < float((measure <= most).double().mean()) < 0.995
    far = torch.full((40,), 100.0)
    near = space.bounded(far)
    assert near.norm() == pytest.approx(space.max_length, rel=1e-5)
    assert near.abs().max() <= space.max_coordinate
    assert not near[30:].any()
    assert torch.allclose(space.bounded(near), near)
    assert space.vectors(far).norm() == pytest.approx(1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_known_voice_has_a_point(bundled: Chat, name: str) -> None:
    speaker = bundled._loaded.speaker
    space = SpeakerSpace.of(speaker, torch.device("cpu"))
    vector = speaker.vector(bundled.config.defaults.speakers[name])
    assert torch.allclose(space.vectors(space.point(vector)), torch.from_numpy(vector), atol=5e-4)


def test_what_all_speakers_share_tells_the_length_of_a_vector() -> None:
    mean, std = torch.tensor([3.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 0.7, 0.7, 0.0])
    space = SpeakerSpace(mean, std)
    for point in ([0.1, 0.0], [-2.0, 1.5]):
        wanted = torch.tensor([0.0, *point, 0.0])
        found = space.point(space.vectors(wanted).numpy())
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    # One on the other side has no such length.
    assert space.point(-space.vectors(torch.zeros(4)).numpy()).isfinite().all()


def test_without_statistics_there_is_no_space() -> None:
    with pytest.raises(VoiceError, match="spk_stat"):
        SpeakerSpace.of(Speaker(8, "", torch.device("cpu")), torch.device("cpu"))


# ---------------------------------------------------------------- what does not fit


def test_profiles_tell_people_apart() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 16)) * 0.3
    own = [one + 0.05 * rng.standard_normal(16) + rng.random() for _ in range(9)]
    names = [f"{n}.wav" for n in range(9)]
    assert other_speakers(np.stack(own), names) == []
    assert grouping(np.stack(own[:2])) is None
    own[4] = other + 0.5
    assert [each.name for each in other_speakers(np.stack(own), names)] == ["4.wav"]
    for n in (0, 2, 7):
        own[n] = other + 0.03 * rng.standard_normal(16)
    with pytest.raises(VoiceError, match=r"several people.*1\.wav.*0\.wav, 2\.wav, 4\.wav, 7\.wav"):
        other_speakers(np.stack(own), names)


@pytest.mark.slow
def test_wrong_transcripts_are_named(
    bundled: Chat,
    language_model: LanguageModel,
    said: Say,
    tmp_path: Path,
) -> None:
    waves = said("clara", 3)
    vector = torch.from_numpy(bundled.speaker.vector(bundled.config.defaults.speakers["clara"]))
    right, names = sequences_of(bundled, record(tmp_path / "right", waves))
    assert wrong_transcripts(language_model, right, names, vector) == []
    texts = (LINES[0], LINES[4], LINES[2])
    mixed, names = sequences_of(bundled, record(tmp_path / "mixed", waves, texts))
    assert [each.name for each in wrong_transcripts(language_model, mixed, names, vector)] == [
        "1.wav"
    ]
    shifted, names = sequences_of(bundled, record(tmp_path / "shifted", waves, LINES[1:4]))
    with pytest.raises(
        VoiceError, match=r"3 of 3 transcripts do not match.*0\.wav, 1\.wav, 2\.wav"
    ):
        wrong_transcripts(language_model, shifted, names, vector)


def test_a_single_sound_is_not_judged(bundled: Chat, language_model: LanguageModel) -> None:
    """Backwards it is the same."""
    vector = torch.from_numpy(bundled.speaker.vector(bundled.config.defaults.speakers["clara"]))
    codes = np.random.default_rng(0).integers(625, size=(50, 4))
    only = code_sequence(bundled._loaded.tokenizer, "mm", codes, prompt="[speed_5]")
    assert wrong_transcripts(language_model, [only], ["0.wav"], vector) == []


def test_music_noise_and_hours_are_refused(tmp_path: Path) -> None:
    time = np.arange(3 * RATE) / RATE
    chords = sum(
        np.sin(2 * np.pi * note * k * time) / k for note in (220, 277, 330) for k in (1, 2, 3)
    )
    put(tmp_path, "a", "la la la.")
    save(tmp_path / "a.wav", (0.1 * chords * (1 + np.sin(9 * time))).astype(np.float32))
    with pytest.raises(VoiceError, match=r"a\.wav: it sounds like music"):
        read_recordings(tmp_path)
    save(tmp_path / "a.wav", np.random.default_rng(0).normal(0, 0.1, 3 * RATE))
    with pytest.raises(VoiceError, match=r"a\.wav: it is noisy"):
        read_recordings(tmp_path)
    save(tmp_path / "a.wav", voice(3.0)[::3], 8000)
    with pytest.raises(VoiceError, match=r"a\.wav: it has 8000 samples a second"):
        read_recordings(tmp_path)
    put(tmp_path, "b", seconds=20.0)
    with pytest.raises(VoiceError, match=r"more than 0\.2 minutes"):
        read_recordings(tmp_path, limits=Limits(most_total=12.0))
    put(tmp_path, "c", seconds=2.0)
    taken = read_recordings(tmp_path, limits=Limits(most_total=12.0, enough=5.0))
    assert [each.name for each in taken.kept] == ["b.wav"]
    assert taken.left_out[-1].name == "c.wav and all after it (1)"


def test_a_checkpoint_without_an_encoder_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = locate("bundled")
    check_encoder(folder)
    tensors = load_file(folder.dvae)
    (tmp_path / "asset").mkdir()
    save_file(
        {n: t for n, t in tensors.items() if not n.startswith("encoder.")},
        tmp_path / "asset" / "DVAE.safetensors",
    )
    with pytest.raises(AssetError, match=r"DVAE\.safetensors has no encoder"):
        check_encoder(AssetFolder(tmp_path, "custom"))


def test_all_that_is_left_out_is_told() -> None:
    empty = Recordings((), tuple(LeftOut(f"{n}.wav", "it is short") for n in range(7)))
    with pytest.raises(VoiceError, match=r"0\.wav: it is short; .*; and 2 more"):
        empty.checked()


# ---------------------------------------------------------------- the search


def test_the_last_frames_of_a_single_recording_are_held_out() -> None:
    only = CodeSequence(np.arange(5), np.arange(80).reshape(20, 4), 5, 1)
    division = divided([only], 0, SearchSettings())
    assert len(division.learned[0].codes) == 15
    assert (division.held[0].prompt_length, len(division.held[0].codes)) == (20, 20)
    many = divided([only] * 10, 0, SearchSettings())
    assert (len(many.learned), len(many.held)) == (8, 2)


def test_a_search_makes_held_out_speech_likelier_and_repeats(
    bundled: Chat,
    language_model: LanguageModel,
    said: Say,
    tmp_path: Path,
) -> None:
    made, _ = sequences_of(bundled, record(tmp_path, said("clara", 3)))
    space = SpeakerSpace.of(bundled._loaded.speaker, language_model.device)
    settings = SearchSettings(most_steps=4, every=2, positions=256)
    division = divided(made, 1, settings)
    start = space.drawn(1, 5)[0]
    search = SpeakerSearch(language_model, space, division, 1, settings)
    found, again = search.run([start]), search.run([start])
    assert found.held < found.start_held - 0.02
    assert torch.equal(found.point, again.point)
    assert [look.step for look in found.looks] == [0, 2, 4]
    assert math.isnan(found.looks[0].learned)
    assert torch.allclose(space.bounded(found.point), found.point)
    vector = space.vectors(found.point)
    held = unlikelihood(language_model, division.held, [vector] * len(division.held))
    assert held == pytest.approx(found.held)
    assert all(not p.requires_grad and p.grad is None for p in language_model.parameters())


@pytest.mark.slow
def test_the_likeliest_start_goes_on_alone(
    bundled: Chat, language_model: LanguageModel, said: Say, tmp_path: Path
) -> None:
    made, _ = sequences_of(bundled, record(tmp_path, said("edith", 3)))
    space = SpeakerSpace.of(bundled._loaded.speaker, language_model.device)
    settings = SearchSettings(trial=2, most_steps=4, every=1, positions=256, progress=-1.0)
    starts = list(space.drawn(3, 5))
    search = SpeakerSearch(language_model, space, divided(made, 1, settings), 1, settings)
    found = search.run(starts)
    counts = [sum(look.start == n and look.step > 0 for look in found.looks) for n in range(3)]
    assert sorted(counts) == [2, 2, 4]
    assert sum(counts) == settings.steps(3)
    best = counts.index(4)
    assert [look.start for look in found.looks[-2:]] == [best, best]
    assert found.held == min(look.held for look in found.looks if look.start == best)


def test_a_forecast_is_corrected_when_the_work_takes_longer() -> None:
    now, told = [100.0], list[str]()
    forecast = Forecast(100.0, "it", told.append, clock=lambda: now[0])
    for _ in range(9):  # twice as slow
        now[0] += 20
        forecast.advance(10.0)
    assert told == [
        "it takes at most about 2 minutes",
        "it takes longer than was measured, as other programs use the processor: at most about "
        "3 minutes more",
    ]


def test_the_likelihood_is_that_of_generation(bundled: Chat, language_model: LanguageModel) -> None:
    """One sequence alone and beside a longer one, and as the engine's own Llama computes it."""
    tokenizer = bundled._loaded.tokenizer
    rng = np.random.default_rng(0)
    made = [
        code_sequence(tokenizer, text, rng.integers(625, size=(n, 4)), prompt="[speed_5]")
        for text, n in ((LINES[0], 6), (LINES[1], 11))
    ]
    vector = torch.from_numpy(bundled.speaker.vector(bundled.config.defaults.speakers["clara"]))
    both, frames = unlikelihoods(language_model, made, [vector, vector])
    alone, _ = unlikelihoods(language_model, made[:1], [vector])
    assert frames.tolist() == [6, 11]
    assert both[0] == pytest.approx(alone[0], rel=1e-5)
    assert 5.0 < both[0] < 16.0  # random codes: 6.4 nats if nothing were known of them


def test_learning_needs_a_known_voice_to_begin_at_one(bundled: Chat, tmp_path: Path) -> None:
    put(tmp_path, "a")
    with pytest.raises(VoiceError, match="seconds must be"):
        voices.learn(bundled, tmp_path, seconds=0)
    with pytest.raises(VoiceError, match=r"1 of 1 transcripts do not match"):
        voices.learn(bundled, tmp_path, show_tqdm=False, from_sample=True)


@pytest.mark.thorough
def test_a_random_speaker_is_recovered_from_its_speech(
    bundled: Chat,
    language_model: LanguageModel,
    said: Say,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(11)
    true = bundled.sample_random_speaker()
    folder = record(tmp_path / "recordings", said(true, 6))
    news: list[str] = []
    found = voices.learn(bundled, folder, say=news.append, show_tqdm=False)
    assert found.held < found.held_before
    assert "at most" in news[-1]
    # Sentences that were not learned are as likely as with the speaker that said them.
    made, _ = sequences_of(bundled, record(tmp_path / "new", said(true, 6, seed=8)))
    nats = [
        unlikelihood(language_model, made, [bundled.speaker.vector(string)] * len(made))
        for string in (true, found.before, found.speaker)
    ]
    assert nats[2] < min(nats[1], nats[0] + 0.02)
    # Like any other string: in both engines, in streams and in the library.
    library = VoiceLibrary(tmp_path / "voices")
    library.save(SavedVoice("anna", WIDTH, "bundled", speaker=found.speaker))
    params = {**library.load("anna").parameters(WIDTH), "manual_seed": 1, "show_tqdm": False}
    whole = bundled.infer(LINES[0], skip_refine_text=True, params_infer_code=params)[0]
    pieces = list(bundled.stream(LINES[0], skip_refine_text=True, params_infer_code=params))
    joined = np.concatenate([piece.samples for piece in pieces])
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() < 1e-3
    monkeypatch.setattr(speaker_search, "SearchSettings", lambda: QUICK)
    nearest = voices.learn(
        bundled, folder, from_sample=True, library=library, say=news.append, show_tqdm=False
    )
    assert nearest.began_at == "anna"
    assert found.plot(tmp_path / "curve.png").stat().st_size > 5000


@pytest.mark.slow
def test_two_people_are_refused_unless_the_caller_knows_better(
    bundled: Chat, said: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves = [*said("clara", 3), *said("edith", 6)[3:]]
    folder = record(tmp_path, waves)
    with pytest.raises(VoiceError, match=r"several people.*one_speaker"):
        voices.learn(bundled, folder, show_tqdm=False)
    monkeypatch.setattr(speaker_search, "SearchSettings", lambda: QUICK)
    found = voices.learn(bundled, folder, show_tqdm=False, one_speaker=True, from_sample=True)
    assert len(found.recordings.kept) == 6


@pytest.mark.slow
def test_two_voices_are_told_apart_and_their_sound_agrees(
    bundled: Chat, language_model: LanguageModel, tmp_path: Path
) -> None:
    """Voice prints know nothing of the model, and divide its sentences as the likelihoods do."""
    texts = tuple(heldout.everyday()[60:68])
    waves = [
        bundled.infer(
            [text],
            skip_refine_text=True,
            params_infer_code={
                "spk_emb": "edith" if number in (1, 4, 6) else "clara",
                "manual_seed": 1,
                "show_tqdm": False,
            },
        )[0]
        for number, text in enumerate(texts)
    ]
    made, _ = sequences_of(bundled, record(tmp_path, waves, texts))
    speaker = bundled._loaded.speaker
    space = SpeakerSpace.of(speaker, language_model.device)
    known = bundled.config.defaults.speakers.values()
    points = [space.point(speaker.vector(string)) for string in known]
    profiles = [
        unlikelihoods(language_model, made, [space.vectors(point)] * len(made))[0]
        for point in (*points, *space.drawn(12, 0))
    ]
    found = grouping(np.stack(profiles, axis=1))
    assert found is not None
    assert found.is_real
    assert found.second == (1, 4, 6)
    prints = np.stack([voice_print(each.samples) for each in read_recordings(tmp_path).kept])
    prints = (prints - prints.mean(axis=0)) / prints.std(axis=0)
    is_second = np.isin(np.arange(len(prints)), found.second)
    apart = prints @ (prints[is_second].mean(axis=0) - prints[~is_second].mean(axis=0))
    assert apart[is_second].min() > apart[~is_second].max() + apart.std()


# ---------------------------------------------------------------- bad arguments, odd callers


def test_bad_seeds_and_lengths_are_told(bundled: Chat, tmp_path: Path) -> None:
    put(tmp_path, "a")
    for seed in (-1, 1.5, 2**63, "1", True):
        with pytest.raises(ConfigError, match="seed must be a whole number"):
            voices.learn(bundled, tmp_path, seed=seed)  # type: ignore[arg-type]
    for seconds in ("60", math.nan, -1):
        with pytest.raises(VoiceError, match="seconds must be above 0"):
            voices.learn(bundled, tmp_path, seconds=seconds)  # type: ignore[arg-type]


def test_damaged_voices_of_the_library_are_passed_over(
    bundled: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    speaker = bundled._loaded.speaker
    good = bundled.config.defaults.speakers["edith"]
    assert usable_speakers({"anna": good, "bert": good[:-3]}, speaker) == {"anna": good}
    assert "'bert'" in caplog.text


def test_speakers_that_are_all_equal_cannot_be_learned(bundled: Chat) -> None:
    speaker = copy.copy(bundled._loaded.speaker)
    speaker._std = torch.zeros_like(speaker.std)
    with pytest.raises(VoiceError, match="no deviations"):
        SpeakerSpace.of(speaker, torch.device("cpu"))


@pytest.mark.slow
def test_learning_in_inference_mode(
    bundled: Chat, said: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As scripts call the published package."""
    monkeypatch.setattr(speaker_search, "SearchSettings", lambda: QUICK)
    folder = record(tmp_path, said("edith", 2))
    told: list[str] = []
    with torch.inference_mode():
        found = voices.learn(bundled, folder, from_sample=True, show_tqdm=False, say=told.append)
        assert torch.is_inference_mode_enabled()
    assert re.match(r"learning from \d s of speech in 2 recordings takes at most about ", told[0])
    assert len(found.looks) == 2


def test_groups_are_as_long_as_they_may_be_with_their_padding() -> None:
    assert groups_of_similar_length([3, 1, 9, 1, 2], 6) == [[1, 3, 4], [0], [2]]
    assert groups_of_similar_length([2, 2, 2], 6) == [[0, 1, 2]]
