"""Calls of ``Chat`` that scripts for the published package make, on the small models."""

import inspect
import logging
import types
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError, NothingToSpeakError
from ChatTTS.pipeline.results import Waveforms
from ChatTTS.pipeline.streams import WaveformStream

from ..support.chat_tools import LIVELY, TEXT, Recording, equal, speak
from ..support.places import DATA

UNSPEAKABLE = ["", "!", ":)", "😀", " \n"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


# ---------------------------------------------------------------- rows with nothing to speak


def test_no_text_is_no_row(small: Chat) -> None:
    for split in (True, False):
        nothings: tuple[str | list[str], ...] = ("", [])
        for nothing in nothings:
            assert small.infer(nothing, split_text=split, max_split_batch=4) == []
            assert list(small.infer(nothing, stream=True, split_text=split)) == []
            assert small.infer(nothing, refine_text_only=True, split_text=split) == []


@pytest.mark.parametrize("text", UNSPEAKABLE)
def test_an_unspeakable_row_is_empty_and_named(
    standard: Chat, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = speak(standard, [text])
    assert isinstance(rows, Waveforms)
    assert [(len(row), row.dtype) for row in rows] == [(0, np.dtype(np.float32))]
    assert (rows.finish_reasons, rows.rows[0].utterances) == (["stop"], [])
    assert len(warnings(caplog)) == 1
    assert "text 0" in caplog.text
    assert repr(text) in caplog.text


def test_a_lone_text_of_marks_is_an_empty_row(standard: Chat) -> None:
    assert [len(row) for row in speak(standard, "!")] == [0]


def test_an_unspeakable_row_does_not_fail_the_others(
    small: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    rows = speak(small, ["", TEXT, ":)", "one good day.", "😀"])
    spoken = speak(small, [TEXT, "one good day."])
    assert [len(row) > 0 for row in rows] == [False, True, False, True, False]
    np.testing.assert_allclose(rows[1], spoken[0], atol=1e-4)
    np.testing.assert_allclose(rows[3], spoken[1], atol=1e-4)
    assert [message[:6] for message in warnings(caplog)] == ["text 0", "text 2", "text 4"]


@pytest.mark.slow_for("standard*")
def test_an_unspeakable_row_does_not_fail_the_others_in_a_stream(small: Chat) -> None:
    texts = ["!", TEXT, ""]
    stream = small.infer(texts, True, skip_refine_text=True, params_infer_code=LIVELY)
    chunks = list(stream)
    assert {len(chunk) for chunk in chunks} == {3}
    joined = np.concatenate(chunks, axis=1)
    assert not joined[[0, 2]].any()
    np.testing.assert_allclose(joined[1], speak(small, TEXT)[0], atol=1e-4)
    assert stream.finish_reasons == ["stop", "length", "stop"]


def test_a_stream_of_nothing_ends_at_once(standard: Chat) -> None:
    assert list(standard.infer(["!", ""], stream=True)) == []


def test_a_refined_list_keeps_its_rows(standard: Chat) -> None:
    refined = standard.infer(
        ["!", TEXT], refine_text_only=True, split_text=False, params_refine_text=LIVELY
    )
    assert refined[0] == ""
    assert refined[1]
    assert len(refined) == 2


def test_a_text_that_is_the_whole_request_is_still_an_error(standard: Chat) -> None:
    with pytest.raises(NothingToSpeakError):
        standard.stream("!")


# ---------------------------------------------------------------- arguments


@pytest.mark.slow_for("standard*")
def test_a_batch_of_none_where_nothing_is_split(small: Chat) -> None:
    def infer(text: Any, **options: Any) -> Waveforms:
        options = {"skip_refine_text": True, "params_infer_code": LIVELY, **options}
        waveforms: Waveforms = small.infer(text, max_split_batch=0, **options)
        return waveforms

    assert equal(infer(TEXT, split_text=False), speak(small, TEXT))
    assert np.concatenate(list(infer([TEXT], stream=True, split_text=False)), axis=1).any()
    with pytest.raises(ConfigError, match="max_split_batch"):
        infer(TEXT)


@pytest.mark.slow_for("standard*")
def test_odd_values_speak_as_their_meaning_does(small: Chat) -> None:
    changes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({"top_P": None}, {"top_P": 1.0}),
        ({"top_K": None}, {"top_K": 10**6}),
        ({"repetition_penalty": None}, {"repetition_penalty": 1.0}),
        ({"prompt": None}, {"prompt": ""}),
        ({"top_P": 0.0}, {"top_P": 1e-9}),
        ({"min_new_token": 99, "max_new_token": 7}, {"min_new_token": 7, "max_new_token": 7}),
        ({"stream_batch": 0, "stream_speed": None}, {}),
    )
    for odd, plain in changes:
        short = {"min_new_token": 12, "max_new_token": 12}
        assert equal(
            speak(small, TEXT, **{**short, **odd}), speak(small, TEXT, **{**short, **plain})
        )


@pytest.mark.slow
def test_streams_with_odd_sizes(standard: Chat) -> None:
    whole = speak(standard, TEXT)[0]
    odd_sizes: tuple[dict[str, Any], ...] = (
        {"stream_batch": 0},
        {"stream_batch": 8.5},
        {"stream_speed": 0},
        {"stream_batch": True},
    )
    for odd in odd_sizes:
        params = standard.InferCodeParams(**{**LIVELY, **odd})
        chunks = standard.infer(TEXT, True, skip_refine_text=True, params_infer_code=params)
        np.testing.assert_allclose(np.concatenate(list(chunks), axis=1)[0], whole, atol=1e-4)


def test_a_transcript_without_a_sample_is_spoken_first_and_once(
    standard: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    text = "come to the water, come to the water. one good day, this is one good day."
    for voice in ({}, {"spk_emb": standard.sample_random_speaker()}):
        with Recording(standard) as recording:
            speak(standard, text, txt_smp="hello you.", **voice)
        prompts = [standard.tokenizer.text(r.prompt.text) for r in recording.requests]
        assert ["hello you" in prompt for prompt in prompts] == [True, not voice]
    assert "txt_smp without spk_smp" in caplog.text


@pytest.mark.parametrize("lang", ["", "auto", "EN", "en-US", "ja"])
def test_odd_languages(standard: Chat, lang: str) -> None:
    params = {**LIVELY, "min_new_token": 3, "max_new_token": 3}
    rows = standard.infer("3 cats", lang=lang, skip_refine_text=True, params_infer_code=params)
    assert rows.rows[0].utterances[0].text == "three cats."


def test_a_refined_stream_gives_its_text_once(standard: Chat) -> None:
    for split in (True, False):
        options: dict[str, Any] = {
            "refine_text_only": True,
            "split_text": split,
            "params_refine_text": LIVELY,
        }
        stream = standard.infer(TEXT, stream=True, **options)
        assert isinstance(stream, Iterator)
        assert list(stream) == [standard.infer(TEXT, **options)]


# ---------------------------------------------------------------- loading, and names of parts


def test_names_are_missing_before_a_load() -> None:
    chat = Chat()
    for name in ("speaker", "tokenizer", "dvae", "gpt", "device", "device_gpt", "coef"):
        assert not hasattr(chat, name)
        assert hasattr(Chat, name)
    assert chat.config.gpt.num_vq == 4
    assert len(chat.sha256_map["sha256_asset_gpt_config_json"]) == 64


def test_old_ways_to_load() -> None:
    folder = str(DATA / "model-a")
    ways: tuple[dict[str, Any], ...] = (
        {"source": "custom", "custom_path": folder},
        {"source": "local", "local_path": folder},
        {"source": "local", "custom_path": folder},
    )
    for how in ways:
        chat = Chat()
        assert chat.load_models(**how, compile=False, device="cpu")
        assert chat.config.gpt.hidden_size == 64


def test_parts_can_be_set(caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat()
    chat.device = "cpu"
    assert str(chat.device) == "cpu"
    chat.load_or_raise("custom", custom_path=DATA / "model-a", device="cpu", use_vllm=False)
    before = speak(chat, TEXT)
    caplog.clear()
    chat.device = "cpu"
    assert warnings(caplog) == []
    chat.device = "meta"
    assert len(warnings(caplog)) == 1
    assert chat.device_gpt.type == "cpu"
    other = Chat()
    other.load_or_raise("custom", custom_path=DATA / "model-b", device="cpu", use_vllm=False)
    vocos, chat.vocos = chat.vocos, other.vocos
    assert not equal(before, speak(chat, TEXT))
    chat.vocos = vocos
    assert equal(before, speak(chat, TEXT))
    with pytest.raises(ConfigError, match="decoder must be a MelDecoder"):
        setattr(chat, "decoder", "better")  # noqa: B010  the type checker refuses it as well
    chat.unload()
    assert not hasattr(chat, "device")


def test_unloading_forgets_registered_normalizers() -> None:
    chat = Chat()
    assert chat.normalizer.register("en", lambda text: "first")
    chat.unload()
    assert chat.normalizer.register("en", lambda text: "second")


# ---------------------------------------------------------------- streams as generators


def stream_of(chat: Chat, **options: Any) -> Any:
    return chat.infer(TEXT, True, skip_refine_text=True, params_infer_code=LIVELY, **options)


def test_a_stream_is_a_generator(standard: Chat) -> None:
    stream = stream_of(standard)
    refined = standard.infer(TEXT, True, refine_text_only=True, params_refine_text=LIVELY)
    for each in (stream, refined):
        assert inspect.isgenerator(each)
        assert isinstance(each, types.GeneratorType)
        assert isinstance(each, Generator)
    assert isinstance(stream, WaveformStream)
    assert isinstance(stream, AsyncIterator)
    stream.close()


def test_a_stream_is_read_as_generators_are(standard: Chat) -> None:
    def passed_on() -> Iterator[Any]:
        yield from stream_of(standard)

    whole = speak(standard, TEXT)[0]
    np.testing.assert_allclose(np.concatenate(list(passed_on()), axis=1)[0], whole, atol=1e-4)
    stream = stream_of(standard)
    with pytest.raises(TypeError, match="just-started"):
        stream.send(1)
    first = stream.send(None)
    joined = np.concatenate([first, *stream], axis=1)
    np.testing.assert_allclose(joined[0], whole, atol=1e-4)
    assert stream.rows[0].left_out == ()
    with pytest.raises(StopIteration):
        stream.send(None)


@pytest.mark.parametrize(
    "thrown",
    [(KeyError("lost"),), (KeyError, "lost"), (KeyError,), (KeyError, KeyError("lost"))],
    ids=str,
)
def test_what_is_thrown_into_a_stream_ends_it(standard: Chat, thrown: tuple[Any, ...]) -> None:
    stream = stream_of(standard)
    next(stream)
    with pytest.raises(KeyError):
        stream.throw(*thrown)
    assert list(stream) == []
    stream.close()


def test_a_generator_that_is_closed_gives_nothing(standard: Chat) -> None:
    stream = stream_of(standard)
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)
