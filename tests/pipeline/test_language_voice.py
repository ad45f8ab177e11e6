"""The voice of a text for which the caller names none: that of the text's language."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ChatTTS.config import Config, VoiceDefaults
from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.longform.files import parse_script
from ChatTTS.longform.settings import ReadSettings, Role
from ChatTTS.model.lora.names import AdapterInfo
from ChatTTS.model.velocity.llm import LLM
from ChatTTS.params import InferCodeParams
from ChatTTS.pipeline.voice import resolve_voice, text_speaker
from ChatTTS.text.main_language import main_language

from ..support.chat_tools import LIVELY, Recording, equal, quick
from ..support.phoneme_voice import load_phoneme_voice
from ..support.two_speakers import CHINESE, ENGLISH, save_two_speakers, speaker_strings

ONE_FRAME = {"min_new_token": 1, "max_new_token": 1}
HELLO, NIHAO = "hello the world.", "你好，这是一个好天。"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    """A checkpoint with a speaker for each language."""
    return load_phoneme_voice(save_two_speakers(tmp_path_factory.mktemp("two")), use_vllm=False)


def heard(chat: Chat, call: Callable[[], Any]) -> list[str]:
    """Return the names of the speakers that a call's requests have, in order."""
    with Recording(chat) as recording:
        call()
    found = []
    for request in recording.requests:
        own = request.prompt.speaker
        assert own is not None
        found.append({0: ENGLISH, 1: CHINESE}[int(np.argmax(own))])
    return found


def of_text(chat: Chat, text: str | list[str], **options: Any) -> list[str]:
    code = options.pop("code", {})
    settings = quick(**ONE_FRAME, **code) | options
    return heard(chat, lambda: chat.infer(text, **settings))


# ---------------------------------------------------------------- the language of a text


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (HELLO, "en"),
        (NIHAO, "zh"),
        ("我用Python写了2个程序。", "zh"),
        ("The word for hello is 你好.", "en"),
        ("35", None),
        ('<b class="very strong indeed">你好</b>', "zh"),
        ("[pause:1.5s]你好[pinyin:hao3|好] [uv_break] [ipa:təˈmɑːtoʊ|番茄]", "zh"),
        ("https://example.com/a/long/address 你好", "zh"),
    ],
)
def test_the_language_is_that_of_most_words(text: str, language: str | None) -> None:
    assert main_language(text) == language


@pytest.mark.parametrize(
    ("lang", "language"),
    [("zh_CN", "zh"), ("chinese", "zh"), ("en-US", "en"), ("auto", "zh"), ("fr", "zh"), (0, "zh")],
)
def test_a_language_that_is_named_is_taken(lang: object, language: str) -> None:
    assert main_language("你好", lang) == language


# ---------------------------------------------------------------- infer and stream


def test_each_text_of_a_list_has_the_speaker_of_its_language(two: Chat) -> None:
    spoken: Any = None

    def call() -> None:
        nonlocal spoken
        spoken = two.infer([NIHAO, HELLO, "35"], **quick(**ONE_FRAME))

    assert heard(two, call) == [CHINESE, ENGLISH, ENGLISH]
    assert [row.speaker for row in spoken.rows] == [CHINESE, ENGLISH, ENGLISH]


def test_all_utterances_of_a_text_have_one_speaker(two: Chat) -> None:
    long = "这是一个好天。" * 60 + HELLO
    assert set(of_text(two, long)) == {CHINESE}


def test_a_language_that_is_named_decides(two: Chat) -> None:
    assert of_text(two, "35", lang="zh") == [CHINESE]
    assert of_text(two, NIHAO, lang="en") == [ENGLISH]


def test_a_voice_that_is_named_is_kept(two: Chat) -> None:
    named: Any = two.infer(NIHAO, **quick(**ONE_FRAME, spk_emb=ENGLISH))
    assert named.rows[0].speaker is None
    assert of_text(two, NIHAO, code={"spk_emb": ENGLISH}) == [ENGLISH]
    string = two.config.defaults.speakers[CHINESE]
    assert of_text(two, HELLO, code={"spk_emb": string}) == [CHINESE]


def test_the_sound_is_that_of_the_speaker_named(two: Chat) -> None:
    settings = {"max_new_token": 8, "min_new_token": 8}
    for text, speaker in ((NIHAO, CHINESE), (HELLO, ENGLISH)):
        named = two.infer(text, **quick(**settings, spk_emb=speaker))
        assert equal(two.infer(text, **quick(**settings)), named)


def test_streams_tell_the_speaker(two: Chat) -> None:
    stream = two.stream(NIHAO, **quick(**ONE_FRAME))
    assert heard(two, lambda: list(two.stream(NIHAO, **quick(**ONE_FRAME)))) == [CHINESE]
    assert stream.rows[0].speaker == CHINESE
    stream.close()


def test_a_document_has_one_speaker_beside_those_that_it_names(two: Chat) -> None:
    pytest.importorskip("lxml")
    document = f'<speak>{NIHAO}<p>{HELLO}</p><voice name="{ENGLISH}">天</voice></speak>'
    assert of_text(two, document) == [CHINESE, CHINESE, ENGLISH]
    assert of_text(two, document, code={"spk_emb": ENGLISH}) == [ENGLISH] * 3
    spoken: Any = two.infer(document, **quick(**ONE_FRAME))
    assert spoken.rows[0].speaker == CHINESE


def test_scripts_that_join_the_passes_have_it_too(two: Chat) -> None:
    params = two.InferCodeParams(**{**LIVELY, **ONE_FRAME})

    def call() -> None:
        list(two._infer_code((NIHAO, HELLO), False, two.device, True, params))

    assert heard(two, call) == [CHINESE, ENGLISH]


def test_a_checkpoint_that_names_none_is_as_it_was(standard: Chat) -> None:
    with Recording(standard) as recording:
        rows = standard.infer([NIHAO, HELLO], **quick(**ONE_FRAME)).rows
    assert [request.prompt.speaker for request in recording.requests] == [None, None]
    assert [row.speaker for row in rows] == [None, None]


def test_english_is_spoken_as_before_by_the_bundled_voice(bundled: Chat) -> None:
    speakers = bundled.config.defaults
    assert (speakers.speaker_of("en"), speakers.speaker_of(None)) == ("clara", "clara")
    assert speakers.speaker_of("zh") == "lan"


# ---------------------------------------------------------------- long works


def read(chat: Chat, text: str, **settings: Any) -> set[str]:
    """Return the speakers of a script; a line may be tried several times."""
    chosen = ReadSettings(parameters={**LIVELY, **ONE_FRAME}, side_by_side=1, **settings)
    script = parse_script(text, format="dialogue")
    return set(heard(chat, lambda: list(chat.read(script, chosen))))


def test_most_words_of_a_script_choose_one_speaker_for_it(two: Chat) -> None:
    assert read(two, f"{NIHAO}\nOK.") == {CHINESE}
    assert read(two, f"{HELLO}\n你好。") == {ENGLISH}
    assert read(two, "35", lang="zh") == {CHINESE}


def test_lines_with_a_voice_do_not_choose(two: Chat) -> None:
    roles = {"B": Role(ENGLISH), "C": Role(None)}
    assert read(two, f"C: 你好。\nB: {HELLO}", voices=roles) == {CHINESE, ENGLISH}
    assert read(two, "你好。", voice=ENGLISH) == {ENGLISH}


# ---------------------------------------------------------------- configurations


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"zh": "bert"}, "bert"),
        ({"cn": "anna"}, "'cn'; known are en, zh"),
        ({"zh": 5}, "texts"),
    ],
)
def test_a_wrong_configuration_is_named(wrong: Any, words: str) -> None:
    values = {"speaker": "anna", "speakers": {"anna": "一"}, "language_speakers": wrong}
    with pytest.raises(ConfigError, match=words):
        Config.from_dict({"defaults": values})


def test_other_texts_need_a_speaker_too() -> None:
    with pytest.raises(ConfigError, match=r"defaults\.speaker"):
        VoiceDefaults(speakers={"anna": "一"}, language_speakers={"zh": "anna"})


# ---------------------------------------------------------------- adapters, and LLM


def test_an_adapter_is_a_voice_in_all_languages(two: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    model = two._loaded
    monkeypatch.setattr(model.gpt, "adapters", {"style": AdapterInfo(None, "")})
    assert text_speaker(model, InferCodeParams(adapter="style"), NIHAO) is None
    named = resolve_voice(model, InferCodeParams(adapter="style")).speaker
    assert named is not None
    assert int(np.argmax(named)) == 0  # that of the default speaker, with which it may have learned
    assert text_speaker(model, InferCodeParams(adapter="base"), NIHAO) == CHINESE


def test_the_engine_by_itself_speaks_by_the_adapter_or_the_default_speaker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LLM(save_two_speakers(tmp_path), device="cpu", num_threads=1) as llm:
        monkeypatch.setattr(llm, "_run", lambda requests, use_tqdm: requests)

        def speakers(**options: Any) -> list[int]:
            asked: Any = llm.generate([NIHAO, HELLO, "35"], seeds=1, **options)
            return [int(np.argmax(request.prompt.speaker)) for request in asked]

        assert speakers() == [0, 0, 0]
        assert speakers(speaker=CHINESE) == [1, 1, 1]
        trained = {
            "own": AdapterInfo(speaker_strings()[CHINESE], ""),
            "style": AdapterInfo(None, ""),
        }
        monkeypatch.setattr(llm.engine.engine.executor, "adapters", trained)
        assert speakers(adapter="own") == [1, 1, 1]
        assert speakers(adapter="style") == [0, 0, 0]
        assert speakers(adapter="own", speaker=ENGLISH) == [0, 0, 0]
