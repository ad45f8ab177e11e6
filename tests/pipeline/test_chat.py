"""``Chat`` as scripts use it, on a conformance model and on the bundled voice."""

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import ChatTTS
from ChatTTS.audio import save
from ChatTTS.checkpoints.assets import AssetFolder
from ChatTTS.config import VoiceDefaults
from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, ConfigError, NotLoadedError, TextError, VoiceError
from ChatTTS.loading import load_model
from ChatTTS.model.devices.placement import choose_placement
from ChatTTS.model.generation import Cancellation
from ChatTTS.model.gpt import EngineOptions
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.speaker import encode_sample
from ChatTTS.pipeline.results import EmptySpeechError
from ChatTTS.pipeline.speech_pass import SpeechPass
from ChatTTS.pipeline.utterance import Utterance

from ..support.bundled_voice import NAMES
from ..support.chat_tools import LIVELY, TEXT, EndsAtOnce, Recording, equal, quick, speak
from ..support.places import DATA
from ..support.velocity_models import change_json, copy_checkpoint


def test_load_answers_as_scripts_expect(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat()
    assert not chat.has_loaded()
    with pytest.raises(NotLoadedError, match=r"chat\.load"):
        chat.infer("hello")
    assert chat.load("custom", custom_path=str(tmp_path)) is False
    assert "asset" in caplog.text
    with pytest.raises(AssetError):
        chat.load_or_raise("custom", custom_path=tmp_path)
    assert chat.load("custom", custom_path=str(DATA / "model-a"), compile=False, device="cpu")
    assert chat.has_loaded()
    assert chat.has_loaded(use_decoder=True)
    before = chat.gpt
    assert chat.load("custom", custom_path=str(tmp_path)) is False
    assert chat.gpt is before  # a failed load keeps the model that was loaded
    chat.unload()
    assert not chat.has_loaded()


def test_the_callers_logger_is_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chat = Chat(logger=logging.getLogger("mine"))
    chat.load("custom", custom_path=tmp_path)
    assert [record.name for record in caplog.records] == ["mine"]


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"use_vllm": False, "use_flash_attn": True}, "CUDA"),
        ({"use_vllm": False, "experimental": True}, "without use_vllm=False"),
        ({"use_vllm": False, "kv_memory": "1GB"}, "kv_memory"),
        ({"use_vllm": False, "batch_invariant": True}, "velocity"),
        ({"coef": "一"}, "coef"),
        ({"use_vllm": True, "compile": True}, "compile"),
        ({"use_vllm": True, "experimental": True}, "experimental"),
        ({"use_vllm": True, "enable_cache": False}, "enable_cache"),
    ],
)
def test_options_without_effect_say_why(
    option: dict[str, Any], word: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Chat()
    assert chat.load("custom", custom_path=DATA / "model-a", device="cpu", **option)
    assert word in caplog.text


def test_wrong_options_are_named() -> None:
    for options, message in (
        ({"dtype": "int7"}, "int7"),
        ({"use_vllm": False, "dtype": "int8"}, "use_vllm"),
        ({"use_vllm": True, "kv_memory": "much"}, "kv_memory"),
        ({"use_vllm": True, "kv_memory": "1kB"}, "kv_memory"),
        ({"device": "quantum"}, "quantum"),
        ({"num_threads": 0}, "num_threads"),
        ({"source": "elsewhere"}, "elsewhere"),
    ):
        with pytest.raises(ConfigError, match=message):
            Chat().load_or_raise(**{"source": "bundled", **cast(Any, options)})


def test_one_text_or_several(small: Chat) -> None:
    one = speak(small, TEXT)
    assert isinstance(one, list)
    assert len(one) == 1
    assert one[0].ndim == 1
    assert one[0].dtype == np.float32
    several = speak(small, [TEXT, "come to the water.", "one good day."])
    assert len(several) == 3
    np.testing.assert_allclose(several[0], one[0], atol=1e-4)
    assert several.finish_reasons == ["length"] * 3
    assert [u.text for u in several.rows[1].utterances] == ["come to the water."]
    assert speak(small, []) == []


def test_lengths_follow_the_frames(small: Chat) -> None:
    for frames in (1, 2, 9):
        wav = speak(small, TEXT, min_new_token=frames, max_new_token=frames)[0]
        assert len(wav) == (2 * frames - 1) * 256


@pytest.mark.slow_for("standard*")
def test_both_ways_to_sound(small: Chat) -> None:
    ways = [small.infer(TEXT, use_decoder=way, **quick())[0] for way in (True, False)]
    assert ways[0].shape == ways[1].shape
    assert not np.allclose(ways[0], ways[1])


@pytest.mark.slow_for("standard*")
def test_a_call_changes_nothing(small: Chat) -> None:
    params = small.InferCodeParams(**LIVELY)
    before = repr(params)
    texts = [f"{TEXT} {TEXT} come to the water.", "one good day."]
    first = small.infer(texts, skip_refine_text=True, params_infer_code=params)
    speak(small, "come to the water", manual_seed=9)
    assert equal(first, small.infer(texts, skip_refine_text=True, params_infer_code=params))
    assert repr(params) == before
    assert repr(small.InferCodeParams()) == repr(ChatTTS.InferCodeParams())


@pytest.mark.slow_for("standard*")
def test_seeds(small: Chat) -> None:
    assert equal(speak(small, TEXT), speak(small, TEXT))
    assert equal(speak(small, TEXT), speak(small, TEXT, manual_seed=np.int64(3)))
    assert not equal(speak(small, TEXT), speak(small, TEXT, manual_seed=4))
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(speak(small, TEXT, manual_seed=None))
    assert equal(drawn[0], drawn[1])
    assert not equal(drawn[0], drawn[2])


@pytest.mark.slow_for("standard*")
def test_threads_share_one_chat(small: Chat) -> None:
    jobs = [(f"come to the water {'good ' * n}day.", n) for n in range(6)]
    alone = [speak(small, text, manual_seed=seed) for text, seed in jobs]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda job: speak(small, job[0], manual_seed=job[1]), jobs))
    assert all(equal(a, b) for a, b in zip(alone, together, strict=True))


@pytest.mark.slow_for("standard*")
def test_long_texts_speak_with_one_voice(small: Chat) -> None:
    text = " ".join(f"come to the water on day number {n} my good friend." for n in "abcdefghij")
    with Recording(small) as recording:
        waveforms = speak(small, [text, "hello."])
    utterances = [u for row in waveforms.rows for u in row.utterances]
    assert len(utterances) > 3
    firsts = [r for r in recording.requests if r.key.utterance == 0]
    later = [r for r in recording.requests if r.key.utterance > 0]
    assert len(firsts) == 2
    assert not any(len(r.prompt.codes) for r in firsts)
    sample = later[0].prompt.codes
    assert len(sample) == LIVELY["max_new_token"]
    assert all(np.array_equal(r.prompt.codes, sample) for r in later)
    assert len(waveforms[0]) == sum(u.samples for u in waveforms.rows[0].utterances)


@pytest.mark.slow_for("standard*")
def test_a_named_voice_stays_as_it_is(small: Chat) -> None:
    torch.manual_seed(1)
    voice = small.sample_random_speaker()
    text = " ".join(["come to the water on a good day."] * 12)
    with Recording(small) as recording:
        speak(small, text, spk_emb=voice)
    assert len(recording.requests) > 1
    for request in recording.requests:
        assert len(request.prompt.codes) == 0
        np.testing.assert_array_equal(request.prompt.speaker, small.speaker.vector(voice))


def test_a_sample_of_audio_is_a_voice(small: Chat) -> None:
    tone = 0.3 * np.sin(np.arange(48_000) / 20).astype(np.float32)
    sample = small.sample_audio_speaker(tone)
    with Recording(small) as recording:
        speak(small, TEXT, spk_smp=sample, txt_smp="one word")
    assert len(recording.requests[0].prompt.codes) == 94


def test_silence_around_the_speech_of_a_file_is_no_part_of_the_sample(
    small: Chat, tmp_path: Path
) -> None:
    tone = 0.3 * np.sin(np.arange(48_000) / 20).astype(np.float32)
    recording = np.concatenate([np.zeros(24_000, np.float32), tone, np.zeros(24_000, np.float32)])
    file = save(tmp_path / "me.wav", recording, subtype="FLOAT")
    spoken = small.sample_audio_speaker(recording[24_000 - 1200 : 72_000 + 1200])
    assert small.sample_audio_speaker(file) == spoken
    assert small.sample_audio_speaker(recording, trim=True) == spoken
    assert small.sample_audio_speaker(file, trim=False) == small.sample_audio_speaker(recording)
    assert small.sample_audio_speaker(recording) != spoken  # as the published package encodes it


def test_a_sample_that_is_too_quiet_to_trim_stays_whole(small: Chat) -> None:
    quiet = 5e-4 * np.sin(np.arange(48_000) / 20).astype(np.float32)
    assert small.sample_audio_speaker(quiet, trim=True) == small.sample_audio_speaker(quiet)


def test_rows_that_end_at_once_are_tried_again(small: Chat) -> None:
    with EndsAtOnce(small, times=2) as engine:
        waveforms = speak(small, TEXT, ensure_non_empty=True)
    assert [r.key.attempt for r in engine.requests] == [0, 1, 2]
    assert len(waveforms[0])


def test_rows_that_stay_empty(small: Chat) -> None:
    with EndsAtOnce(small, times=99) as engine:
        with pytest.raises(EmptySpeechError, match="come to the water") as caught:
            speak(small, ["come to the water.", "hello you."], ensure_non_empty=True)
        assert len(engine.requests) == 2 * 5
        assert caught.value.waveforms is not None
        assert len(caught.value.waveforms) == 2
        assert speak(small, "hello you.")[0].shape == (0,)
        with pytest.raises(EmptySpeechError):
            list(small.infer("hello you.", stream=True, **quick(ensure_non_empty=True)))
        engine.requests.clear()
        with pytest.raises(EmptySpeechError):  # greedy: no attempt would differ from the first
            speak(small, "hello you.", temperature=0, ensure_non_empty=True)
        assert len(engine.requests) == 1


def test_refined_text_keeps_its_published_shapes(small: Chat) -> None:
    params: dict[str, Any] = {
        "prompt": "[oral_2]",
        "manual_seed": 1,
        "max_new_token": 8,
        "min_new_token": 8,
    }
    settings: dict[str, Any] = {"refine_text_only": True, "params_refine_text": params}
    with Recording(small) as recording:
        joined = small.infer(["hello you.", "come to the water."], **settings)
        listed = small.infer(["hello you.", "come to the water."], split_text=False, **settings)
    assert all(request.key.kind is Pass.REFINE for request in recording.requests)
    assert isinstance(joined, str)
    assert joined.split("\n") == listed
    spoken = small.infer("hello you.", params_refine_text=params, params_infer_code=LIVELY)
    assert spoken.rows[0].utterances[0].text == listed[0]


def never_trained(what: str, folder: Path) -> Chat:
    """Load a copy of model-a whose ``config.json`` sets the default ``what`` to false."""
    copied = copy_checkpoint(folder)
    change_json(copied / "asset" / "config.json", defaults={what: False})
    chat = Chat()
    chat.load_or_raise("custom", custom_path=copied, device="cpu")
    return chat


def test_a_checkpoint_without_refine_skips_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chat = never_trained("refine_trained", tmp_path)
    with caplog.at_level(logging.INFO, "ChatTTS"):
        assert chat.infer("Hello you.", refine_text_only=True) == "Hello you."
    assert "not trained to refine" in caplog.text


def test_a_checkpoint_whose_refine_pass_only_adds(tmp_path: Path) -> None:
    """This one has learned nothing: its answers have other words, and are not used."""
    copied = copy_checkpoint(tmp_path)
    change_json(copied / "asset" / "config.json", defaults={"refine_keeps_words": True})
    chat = Chat()
    chat.load_or_raise("custom", custom_path=copied, device="cpu")

    def refined(prompt: str) -> tuple[object, int]:
        params = {"prompt": prompt, "manual_seed": 1, "max_new_token": 20, "show_tqdm": False}
        with Recording(chat) as recording:
            found = chat.infer("Hello you.", refine_text_only=True, params_refine_text=params)
        return found, sum(r.key.kind is Pass.REFINE for r in recording.requests)

    assert refined("[oral_0][laugh_0][break_0]") == ("Hello you.", 0)
    assert refined("[oral_2][laugh_0][break_0]") == ("Hello you.", 1)
    params = chat.RefineTextParams(
        prompt="[oral_2]", manual_seed=1, max_new_token=20, show_tqdm=False
    )
    answer = chat._refine_text(["Hello you."], "cpu", params).ids[0]
    assert answer.tolist() == chat._loaded.tokenizer.ids("Hello you.").tolist()


@pytest.mark.slow
def test_the_bundled_voice_speaks_by_its_defaults(bundled: Chat) -> None:
    params = bundled.InferCodeParams(manual_seed=1)
    with Recording(bundled) as recording:
        waveforms = bundled.infer("Hello, how are you?", params_infer_code=params)
    request = next(r for r in recording.requests if r.key.kind is Pass.CODE)
    clara = bundled.config.defaults.speakers["clara"]
    np.testing.assert_array_equal(request.prompt.speaker, bundled.speaker.vector(clara))
    assert request.sampling.repetition_penalty == 1.0  # the checkpoint's, not the published 1.05
    assert waveforms.finish_reasons == ["stop"]
    assert 0.4 < len(waveforms[0]) / 24_000 < 4
    named = bundled.infer(
        "Hello, how are you?", params_infer_code={"manual_seed": 1, "spk_emb": "clara"}
    )
    assert equal(waveforms, named)


def test_what_is_too_much_or_too_little(small: Chat) -> None:
    with pytest.raises(TextError, match="shorten"):
        small.infer("come to the water " * 400, split_text=False, **quick())
    with pytest.raises(ConfigError, match="max_split_batch"):
        small.infer(TEXT, max_split_batch=0)


@pytest.mark.slow_for("standard*")
def test_names_of_old_versions(small: Chat) -> None:
    chat = Chat()
    assert chat.load_models(source="local", local_path=str(DATA / "model-a"), compile=False)
    folder = chat.download_models("custom", custom_path=str(DATA / "model-a"))
    assert folder is not None
    assert Path(folder) == DATA / "model-a"
    wavs = chat.infer([TEXT], False, None, True, params_infer_code=LIVELY)
    np.testing.assert_allclose(wavs[0], speak(small, TEXT)[0], atol=1e-5)  # on either engine


def test_registered_normalizers_outlive_a_load() -> None:
    chat = Chat()
    assert chat.normalizer.register("en", lambda text: text.replace("world", "water"))
    chat.load_or_raise("custom", custom_path=DATA / "model-a", device="cpu")
    assert "water" in chat.normalizer("hello world")
    chat.normalizer.unregister("en")
    assert "world" in chat.normalizer("hello world")


@pytest.mark.slow
def test_half_precision_on_request(bundled: Chat) -> None:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", dtype="bfloat16")
    assert chat.gpt.embed.code.weight.dtype is torch.bfloat16
    params = chat.InferCodeParams(manual_seed=1)
    wav = chat.infer("Hello, how are you?", params_infer_code=params)[0]
    assert wav.dtype == np.float32
    assert np.isfinite(wav).all()
    assert len(wav) > 8_000


def test_voice_defaults_must_agree() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        VoiceDefaults(speaker="nobody")
    assert replace(VoiceDefaults(), speakers={"a": "x"}, speaker="a").speaker == "a"


def test_sample_prompts_that_were_never_learned_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chat = never_trained("samples_trained", tmp_path)
    sample = encode_sample(np.zeros((4, 20), dtype=np.int64))
    speak(chat, "hello you.", spk_smp=sample, txt_smp="hello you.")
    assert "never learned to follow sample prompts" in caplog.text


def test_a_table_of_homophones(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text('{"a": "e"}', encoding="utf-8")
    chat = Chat()
    chat.load_or_raise("custom", custom_path=DATA / "model-a", device="cpu", homophones=table)
    assert chat.normalizer("a cat") == "e cet"
    assert chat.normalizer("a cat", do_homophone_replacement=False) == "a cat"
    with pytest.raises(TextError, match="none"):
        chat.load_or_raise("bundled", homophones=tmp_path / "none.json")


def test_the_error_for_an_unknown_speaker_names_the_known_ones(bundled: Chat) -> None:
    with pytest.raises(VoiceError, match=", ".join(NAMES)):
        speak(bundled, "Good morning.", spk_emb="anna")


@pytest.mark.slow_for("standard*")
def test_sample_prompts_are_not_made_for_models_that_cannot_follow_them(small: Chat) -> None:
    folder = AssetFolder(DATA / "model-a", "custom")
    model = load_model(folder, choose_placement("cpu"), EngineOptions(use_vllm=False))
    defaults = replace(model.config.defaults, samples_trained=False)
    model = replace(model, config=replace(model.config, defaults=defaults))
    utterances = [Utterance(0, index, "come to the water.") for index in range(3)]
    params = small.InferCodeParams(**LIVELY)
    speech = SpeechPass(model, utterances, params, 1, batch_size=4, cancelled=Cancellation())
    with Recording(model) as recording:
        list(speech.updates())
    assert [len(r.prompt.codes) for r in recording.requests] == [0, 0, 0]


def test_a_pause_is_silence_of_exactly_its_length(standard: Chat) -> None:
    text = "[pause:500ms] Hello there. [pause:1.5s] Good day to you. [pause:0.25s][pause:250ms]"
    how = quick(manual_seed=3)
    plain = standard.infer("Hello there.\nGood day to you.", **how)
    paused = standard.infer(text, **how)
    first, second = np.split(plain[0], [plain.rows[0].utterances[0].samples])
    silence = [np.zeros(n, np.float32) for n in (12_000, 36_000, 12_000)]
    expected = np.concatenate([silence[0], first, silence[1], second, silence[2]])
    assert len(plain.rows[0].utterances) == 2
    assert np.allclose(paused[0], expected, atol=1e-6)
    pieces = standard.stream(text, **how)
    assert np.allclose(np.concatenate([p.samples for p in pieces]), expected, atol=1e-6)
    with pytest.raises(TextError, match=r"\[pause:1h\]' is not a pause"):
        standard.infer("Hello [pause:1h] there.", **how)


def test_a_pause_is_no_word_and_no_word_of_a_lexicon(standard: Chat) -> None:
    text = "Hello to you [pause:1s] there pause."
    how = quick(manual_seed=3)
    spoken = standard.infer(text, lexicon={"pause": "stop"}, **how)
    assert [u.text for u in spoken.rows[0].utterances] == ["Hello to you.", "there stop."]
    (use,) = spoken.lexicon_uses[0]
    assert text[use.start_character : use.end_character] == "pause"
    assert len(standard.infer("[pause:1s]", **how)[0]) == 0
