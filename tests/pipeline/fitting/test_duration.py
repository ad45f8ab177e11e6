"""``duration``: speech that fits its time, with an engine that speaks as long as a test says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE
from ChatTTS.audio.trim import speech_bounds
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, GenerationError
from ChatTTS.model.generation import Cancellation, FinishReason
from ChatTTS.model.random_numbers import Pass
from ChatTTS.pipeline.lazy_value import LazyValue
from ChatTTS.pipeline.results import DurationError, Fit, Waveforms
from ChatTTS.pipeline.speech_lengths import Pace, SpeechLengths, units_of

from ...support.paced_engine import PacedEngine
from ...support.waiting import wait_until
from ..test_word_times import load

TEXT = "hello the world, this is one good day."
SETTINGS = {"manual_seed": 3, "show_tqdm": False}
FRAME = 512 / SAMPLE_RATE
# Each level is five percent from the next; a hundred frames at level 5.
FACTORS = {level: 1.05 ** (5 - level) for level in range(10)}
PACES = tuple(Pace(f"[speed_{level}]", FACTORS[level]) for level in range(9, -1, -1))
# The text has about as many seconds as a hundred frames.
LENGTHS = SpeechLengths(0.2, 0.06, 0.1, 0.3, PACES)


def by_level(levels: tuple[int, ...], sample: int) -> int:
    return round(100 * FACTORS[levels[-1]])


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    """A conformance model that names heads, and whose lengths are known."""
    found = load(use_vllm=False)
    assert found._model is not None
    found._model = replace(found._model, learned_lengths=LazyValue(LENGTHS))
    yield found
    found.unload()


def spoken(chat: Chat, texts: Any, duration: Any, **options: Any) -> Waveforms:
    params = {**SETTINGS, **options.pop("params", {})}
    waveforms: Waveforms = chat.infer(
        texts, skip_refine_text=True, params_infer_code=params, duration=duration, **options
    )
    return waveforms


def fit_of(waveforms: Waveforms, index: int = 0) -> Fit:
    fit = waveforms.fits[index]
    assert fit is not None
    return fit


def check_exact(samples: np.ndarray, seconds: float) -> None:
    """Check that speech has its time: exact to the sample, without silence at its ends."""
    assert len(samples) == round(seconds * SAMPLE_RATE)
    start, stop = speech_bounds(samples, margin_s=0.0)
    assert start <= 0.02 * SAMPLE_RATE
    assert stop >= len(samples) - 0.02 * SAMPLE_RATE


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.75, 1.9, 2.05, 2.13, 2.222, 2.4, 2.6])
def test_speech_has_its_time_to_the_sample(chat: Chat, seconds: float) -> None:
    with PacedEngine(chat, by_level):
        waveforms = spoken(chat, TEXT, seconds)
    check_exact(waveforms[0], seconds)
    fit = fit_of(waveforms)
    assert fit.fits
    assert fit.duration == seconds
    assert 1 / 1.03 - 1e-9 <= fit.tempo <= 1.03 + 1e-9
    assert fit.late == 0
    assert fit.shortest <= seconds <= fit.longest


def test_the_speed_tag_is_chosen_by_the_predicted_length(chat: Chat) -> None:
    units = units_of(chat.tokenizer, TEXT)
    predicted = LENGTHS.seconds(units)
    with PacedEngine(
        chat, lambda levels, _: round(predicted / FRAME * FACTORS[levels[-1]])
    ) as engine:
        waveforms = spoken(chat, TEXT, predicted * FACTORS[3])
    assert engine.rounds == 1
    assert sorted(engine.paces) == [((2,), 2), ((3,), 0), ((3,), 3), ((4,), 1)]
    assert fit_of(waveforms).speeds == ("[speed_3]",)
    assert fit_of(waveforms).tempo == pytest.approx(1, abs=0.02)  # the ends are cut


def test_what_the_first_takes_tell_chooses_the_next_ones(chat: Chat) -> None:
    """A voice that is a quarter slower than predicted."""
    predicted = LENGTHS.seconds(units_of(chat.tokenizer, TEXT))
    frames = predicted / FRAME * 1.25
    with PacedEngine(chat, lambda levels, _: round(frames * FACTORS[levels[-1]])) as engine:
        waveforms = spoken(chat, TEXT, frames * FRAME * FACTORS[6])
    assert engine.rounds == 2
    assert {levels for levels, _ in engine.paces[4:]} <= {(5,), (6,), (7,)}
    assert fit_of(waveforms).speeds == ("[speed_6]",)
    assert fit_of(waveforms).fits


def test_the_takes_of_a_text_have_different_draws(chat: Chat) -> None:
    engine = PacedEngine(chat, lambda levels, sample: 80 + sample)
    with engine, pytest.raises(DurationError):
        spoken(chat, TEXT, 0.5)
    samples = [sample for _, sample in engine.paces]
    assert samples == list(range(12))
    assert {request.key.seed for request in engine.requests} == {3}


def test_a_checkpoint_whose_speed_tags_do_nothing_takes_the_nearest_draw(chat: Chat) -> None:
    with PacedEngine(chat, lambda levels, sample: (90, 96, 104, 112)[sample % 4]) as engine:
        waveforms = spoken(chat, TEXT, 104 * FRAME)
    assert engine.rounds == 1
    assert fit_of(waveforms).tempo == pytest.approx(1, abs=0.015)  # the ends are cut
    check_exact(waveforms[0], 104 * FRAME)


def test_a_take_that_loses_words_is_not_kept(chat: Chat) -> None:
    predicted = LENGTHS.seconds(units_of(chat.tokenizer, TEXT))
    frames = predicted / FRAME
    wanted = predicted * FACTORS[5]
    with PacedEngine(chat, lambda levels, _: round(frames * FACTORS[levels[-1]])) as engine:
        engine.skips.add((5,))
        waveforms = spoken(chat, TEXT, wanted)
    assert fit_of(waveforms).speeds != ("[speed_5]",)
    assert waveforms.faults == [[]]
    with PacedEngine(chat, lambda levels, _: round(frames * FACTORS[levels[-1]])) as engine:
        engine.skips |= {(level,) for level in range(10)}
        waveforms = spoken(chat, TEXT, wanted)
    assert engine.rounds == 3
    assert waveforms.faults[0]
    assert len(waveforms[0]) == round(wanted * SAMPLE_RATE)


@pytest.mark.slow
def test_what_cannot_fit_names_the_shortest_time(chat: Chat) -> None:
    with PacedEngine(chat, by_level), pytest.raises(DurationError) as caught:
        spoken(chat, [TEXT, TEXT], [0.6, 2.1])
    error = caught.value
    assert error.texts == [TEXT]
    [fit] = error.fits
    assert not fit.fits
    assert (
        f"the shortest time that it can take is {np.ceil(fit.shortest * 100) / 100:.2f} s"
        in str(error)
    )
    assert error.waveforms is not None
    assert len(error.waveforms[0]) / SAMPLE_RATE == pytest.approx(fit.shortest, abs=1e-3)
    assert fit.late == pytest.approx(fit.shortest - 0.6, abs=1e-3)
    check_exact(error.waveforms[1], 2.1)
    with PacedEngine(chat, by_level):
        again = spoken(chat, TEXT, float(np.ceil(fit.shortest * 100) / 100))
    assert fit_of(again).fits


def test_what_cannot_fit_may_be_late(chat: Chat) -> None:
    with PacedEngine(chat, by_level):
        waveforms = spoken(chat, [TEXT, TEXT], [0.6, 2.1], may_be_late=True)
    fit = fit_of(waveforms)
    assert fit.late > 0
    assert len(waveforms[0]) / SAMPLE_RATE == pytest.approx(fit.shortest, abs=1e-3)
    check_exact(waveforms[1], 2.1)
    with PacedEngine(chat, by_level):
        stream = chat.stream(
            TEXT, duration=0.6, may_be_late=True, skip_refine_text=True, params_infer_code=SETTINGS
        )
        pieces = [piece.samples for piece in stream]
    assert np.array_equal(np.concatenate(pieces), waveforms[0])


def test_what_is_too_short_ends_in_silence_with_a_warning(
    chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    with PacedEngine(chat, by_level), caplog.at_level(logging.WARNING, "ChatTTS"):
        waveforms = spoken(chat, TEXT, 5.0)
    assert len(waveforms[0]) == 5 * SAMPLE_RATE
    fit = fit_of(waveforms)
    assert not fit.fits
    assert fit.silence == pytest.approx(5.0 - fit.longest, abs=0.01)
    assert "is too short for its 5 s" in caplog.text


def test_texts_without_a_time_are_spoken_as_ever(chat: Chat) -> None:
    with PacedEngine(chat, by_level):
        plain = spoken(chat, [TEXT], None)
        both = spoken(chat, [TEXT, TEXT], [None, 2.0])
    assert np.array_equal(both[0], plain[0])
    assert both.fits[0] is None
    check_exact(both[1], 2.0)


def test_words_and_pauses_move_with_the_sound(chat: Chat) -> None:
    with PacedEngine(chat, by_level):
        waveforms = spoken(chat, TEXT, 2.3, word_times=True)
    words = waveforms.words[0]
    assert [word.text for word in words] == [part.strip(".,") for part in TEXT.split()]
    places = [place for word in words for place in (word.start_sample, word.end_sample)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= len(waveforms[0])
    assert places[-1] > 0.8 * len(waveforms[0])


def test_the_pauses_of_a_text_are_part_of_its_time(chat: Chat) -> None:
    text = f"{TEXT} [pause:500ms] {TEXT}"
    with PacedEngine(chat, by_level):
        waveforms = spoken(chat, text, 5.0)
    check_exact(waveforms[0], 5.0)
    first, second = waveforms.rows[0].utterances
    assert first.samples + second.samples == 5 * SAMPLE_RATE
    end = waveforms[0][: first.samples][-SAMPLE_RATE // 2 :]
    assert not end.any()


def test_the_sentences_of_a_text_share_its_time(chat: Chat) -> None:
    text = "hello the world, this is one good day. one more day for all of us. hello."
    with PacedEngine(chat, by_level):
        waveforms = spoken(chat, text, 5.5)
    check_exact(waveforms[0], 5.5)
    assert len(waveforms.rows[0].utterances) > 1
    assert len(fit_of(waveforms).speeds) == len(waveforms.rows[0].utterances)


@pytest.mark.slow
def test_a_stream_gives_the_sound_of_the_whole(chat: Chat) -> None:
    text = f"{TEXT} {TEXT}"
    how: dict[str, Any] = {"skip_refine_text": True, "params_infer_code": SETTINGS}
    with PacedEngine(chat, by_level):
        whole = spoken(chat, text, 4.5)
        stream = chat.stream(text, duration=4.5, low_latency=True, **how)
        pieces = list(stream)
        chunks = list(chat.infer([text, TEXT], stream=True, duration=[4.5, 2.0], **how))
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), whole[0])
    assert [word for piece in pieces for word in piece.words] == whole.words[0]
    assert stream.rows[0].fit == whole.fits[0]
    assert np.array_equal(np.concatenate(chunks, axis=1)[0], whole[0])


def test_a_stream_that_cannot_fit_fails_before_its_sound(chat: Chat) -> None:
    with PacedEngine(chat, by_level):
        stream = chat.stream(TEXT, duration=0.5, skip_refine_text=True, params_infer_code=SETTINGS)
        with pytest.raises(DurationError, match="shortest time") as caught:
            next(stream)
    assert caught.value.waveforms is None


def test_greedy_speech_is_drawn_once_at_each_pace(chat: Chat) -> None:
    with PacedEngine(chat, by_level) as engine, pytest.raises(DurationError):
        spoken(chat, TEXT, 0.5, params={"temperature": 0})
    levels = [levels for levels, _ in engine.paces]
    assert len(levels) == len(set(levels))


def test_the_settings_of_the_caller_stay_beside_the_pace(chat: Chat) -> None:
    with PacedEngine(chat, by_level) as engine:
        spoken(chat, TEXT, 2.1, params={"prompt": "[speed_0][oral_2]"})
    oral = chat.tokenizer.id("[oral_2]")
    assert all((request.prompt.text == oral).sum() == 1 for request in engine.requests)
    assert {len(levels) for levels, _ in engine.paces} == {1}


def test_an_interrupted_call_is_aborted(chat: Chat) -> None:
    class Stops(PacedEngine):
        def generate(self, requests: Any, cancelled: Cancellation) -> Any:
            for deltas in super().generate(requests, cancelled):
                cancelled.set()
                yield deltas

    with Stops(chat, by_level):
        waveforms = spoken(chat, [TEXT, TEXT], [2.0, 2.0])
    assert waveforms.finish_reasons == ["abort", "abort"]


def test_a_call_that_fails_leaves_nothing_to_decode(chat: Chat) -> None:
    class Fails(PacedEngine):
        def generate(self, requests: Any, cancelled: Cancellation) -> Any:
            yield [replace(d, finish=None) for d in next(super().generate(requests, cancelled))]
            raise GenerationError("the model gave NaN")

    with Fails(chat, by_level), pytest.raises(GenerationError):
        spoken(chat, TEXT, 2.0)
    assert chat._model is not None
    worker = chat._model.decode_worker
    wait_until(lambda: not worker._jobs)


def test_speech_that_stays_empty_says_so(chat: Chat) -> None:
    with PacedEngine(chat, lambda levels, _: 0):
        waveforms = spoken(chat, TEXT, 2.0, params={"ensure_non_empty": False})
        assert len(waveforms[0]) == 0
        assert waveforms.fits == [None]
        with pytest.raises(Exception, match="nothing was spoken"):
            spoken(chat, TEXT, 2.0)


def test_a_take_without_an_end_is_the_last_choice(chat: Chat) -> None:
    with PacedEngine(chat, by_level) as engine:
        engine.ends = FinishReason.LENGTH
        waveforms = spoken(chat, TEXT, 2.0)
    assert waveforms.finish_reasons == ["length"]
    assert engine.rounds == 3


@pytest.mark.parametrize(
    ("texts", "duration", "reason"),
    [
        (TEXT, 0, "above 0 and at most 600"),
        (TEXT, -1.0, "above 0 and at most 600"),
        (TEXT, float("nan"), "above 0 and at most 600"),
        (TEXT, float("inf"), "above 0 and at most 600"),
        (TEXT, True, "above 0 and at most 600"),
        (TEXT, "3", "above 0 and at most 600"),
        (TEXT, [1.0, 2.0], "1 numbers, not 2"),
        ([TEXT, TEXT], 3.0, "list with the seconds of each of 2 texts"),
        ([TEXT, TEXT], "33", "list with the seconds of each of 2 texts"),
        ([TEXT, TEXT], [3.0], "2 numbers, not 1"),
    ],
)
def test_a_duration_that_is_none_is_refused(
    chat: Chat, texts: Any, duration: Any, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        spoken(chat, texts, duration)


# ---------------------------------------------------------------- learning


def test_lengths_are_learned_at_the_first_use(chat: Chat) -> None:
    assert chat._model is not None
    model = chat._model
    kept: list[Any] = []
    fresh = replace(model, learned_lengths=LazyValue(keep=lambda content: kept.append(content)))
    chat._model = fresh
    try:
        with PacedEngine(chat, by_level) as engine:
            spoken(chat, TEXT, 2.1)
            asked = len(engine.requests)
            spoken(chat, TEXT, 2.1)
        assert len(kept) == 1
        assert asked > 20
        assert len(engine.requests) < asked + 13
    finally:
        chat._model = model


# ---------------------------------------------------------------- voices and engines


def test_without_a_voice_the_first_sentence_leads_the_others(chat: Chat) -> None:
    """It is chosen before they are drawn, since its codes are their sample prompt."""
    model = chat._model
    assert model is not None
    defaults = replace(model.config.defaults, samples_trained=True, speaker=None)
    chat._model = replace(model, config=replace(model.config, defaults=defaults))
    try:
        with PacedEngine(chat, by_level) as engine:
            waveforms = spoken(chat, f"{TEXT} one more day for all of us.", 5.0)
    finally:
        chat._model = model
    check_exact(waveforms[0], 5.0)
    lengths = [len(request.prompt.codes) for request in engine.requests]
    first = lengths.count(0)
    assert 0 < first < len(lengths)
    assert lengths == [0] * first + [lengths[-1]] * (len(lengths) - first)
    assert {request.key.utterance for request in engine.requests[first:]} == {1}


def test_refined_texts_are_fitted(chat: Chat) -> None:
    how: dict[str, Any] = {
        "params_infer_code": SETTINGS,
        "params_refine_text": {"max_new_token": 8, "manual_seed": 3, "show_tqdm": False},
    }
    texts: list[str] = []

    class Refined(PacedEngine):
        def generate(self, requests: Any, cancelled: Cancellation) -> Any:
            if requests[0].key.kind is Pass.REFINE:
                return self.inner.generate(requests, cancelled)
            texts.extend(chat.tokenizer.text(each.prompt.text) for each in requests)
            return super().generate(requests, cancelled)

    with Refined(chat, by_level):
        waveforms = chat.infer(TEXT, duration=2.8, **how)
        said = set(texts)
        pieces = list(chat.stream(TEXT, duration=2.8, **how))
    assert len(waveforms[0]) == round(2.8 * SAMPLE_RATE)
    assert not any("good day" in text for text in said)  # noise in place of the text
    assert np.array_equal(np.concatenate([piece.samples for piece in pieces]), waveforms[0])


@pytest.fixture(scope="module")
def velocity() -> Iterator[Chat]:
    """The voice inside the package, on velocity."""
    found = Chat()
    found.load_or_raise("bundled", device="cpu", use_vllm=True, num_threads=1)
    yield found
    found.unload()


SENTENCE = "We went to the market to buy some bread."
OTHERS = ["It was very cold last night.", "她打开窗户，看着外面的大海。"]


@pytest.mark.slow
def test_neighbours_change_nothing(velocity: Chat) -> None:
    alone = spoken(velocity, SENTENCE, 2.6)
    beside = spoken(velocity, [OTHERS[0], SENTENCE, OTHERS[1]], [1.9, 2.6, None])
    check_exact(alone[0], 2.6)
    check_exact(beside[0], 1.9)
    assert np.array_equal(alone[0], beside[1])
    assert alone.fits[0] == beside.fits[1]
    stream = velocity.stream(
        SENTENCE, duration=2.6, skip_refine_text=True, params_infer_code=SETTINGS
    )
    assert np.array_equal(np.concatenate([piece.samples for piece in stream]), alone[0])


@pytest.mark.slow
def test_both_engines_speak_alike(velocity: Chat, bundled: Chat) -> None:
    first, second = (spoken(chat, SENTENCE, 2.6) for chat in (velocity, bundled))
    assert first.fits[0] == second.fits[0]
    assert np.abs(first[0] - second[0]).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.6, 1.8, 2.0, 2.2, 2.4, 2.6, 2.8, 3.0])
def test_the_bundled_voice_fits_a_range_of_times(velocity: Chat, seconds: float) -> None:
    waveforms = spoken(velocity, SENTENCE, seconds, params={"spk_emb": "miles"})
    check_exact(waveforms[0], seconds)
    assert waveforms.faults == [[]]


def test_silence_at_the_ends_is_no_part_of_a_duration(chat: Chat) -> None:
    both: list[dict[str, Any]] = [{"silence_before": 0.2}, {"silence_after": 0.0}]
    for ends in both:
        with pytest.raises(ConfigError, match="leave out silence_before"):
            chat.infer(TEXT, duration=2.0, skip_refine_text=True, **ends)


def test_a_document_tells_its_durations_itself(chat: Chat) -> None:
    with pytest.raises(ConfigError, match="<prosody duration"):
        chat.infer("<speak>come here</speak>", duration=2.0, skip_refine_text=True)
