"""Voices that read phonemes: prompts, words, pronunciations, and what stays as it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import AssetError, ConfigError, TextError
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.speaker import Speaker
from ChatTTS.pipeline.results import Waveforms
from ChatTTS.text.alignment import text_columns
from ChatTTS.text.spoken_words import caller_words

from ..support.chat_tools import LIVELY, Recording, quick
from ..support.phoneme_voice import load_phoneme_voice, save_phoneme_voice
from ..support.places import DATA

ENGLISH = "We'll read it: is it 5 km?"
MANDARIN = "今天我们去3个地方，好吗？"
MIXED = "我用Python写了2个程序。Then we went home!"


@pytest.fixture(scope="module")
def voice(phoneme_checkpoint: Path) -> Chat:
    """The voice on the engine that starts fast, for what no engine sees."""
    return load_phoneme_voice(phoneme_checkpoint, use_vllm=False)


def prompts_of(chat: Chat, text: str, **options: Any) -> list[str]:
    """Return the prompts of what is spoken, as texts of tokens."""
    params = {**LIVELY, "min_new_token": 1, "max_new_token": 1, **options.pop("params", {})}
    with Recording(chat) as recording:
        chat.infer(text, skip_refine_text=True, params_infer_code=params, **options)
    return [decoded(chat, request.prompt.text) for request in recording.requests]


def decoded(chat: Chat, ids: np.ndarray) -> str:
    return "".join(chat.tokenizer.text(np.array([each])) for each in ids)


def spoken(chat: Chat, text: str | list[str], **options: Any) -> Waveforms:
    params = {**LIVELY, **options.pop("params", {})}
    waveforms: Waveforms = chat.infer(
        text, skip_refine_text=True, params_infer_code=params, word_times=True, **options
    )
    return waveforms


# ---------------------------------------------------------------- prompts


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("hello, world!", "həlˈO, wˈɜɹld!"),
        ("Hello [uv_break] world.", "həlˈO[uv_break]wˈɜɹld."),
        ("你好，Tom。", "ni↗xau↓, tˈɑm."),
    ],
)
def test_the_speech_pass_reads_phonemes(voice: Chat, text: str, prompt: str) -> None:
    (read,) = prompts_of(voice, text)
    tags = ("[Stts]", "[empty_spk]", "[speed_5]", "[Ptts]")
    assert [tag for tag in tags if tag not in read] == []
    inner = read.removeprefix("[Stts][empty_spk][speed_5]").removesuffix("[Ptts]")
    assert inner.replace("<", "").replace(">", "") == prompt
    assert inner.count("<") == len(prompt) - len("[uv_break]") * ("[" in prompt)


def test_transcripts_of_samples_are_phonemes_too(phonetic: Chat) -> None:
    sample = Speaker.encode_prompt(torch.ones(4, 6, dtype=torch.int64))
    params = {"spk_smp": sample, "txt_smp": "good day."}
    (read,) = prompts_of(phonetic, "hello.", params=params)
    assert read == ("[Stts][empty_spk]<ɡ><ˈ><ʊ><d>< ><d><ˈ><A><.>[speed_5]<h><ə><l><ˈ><O><.>[Ptts]")
    # The first utterance of a text is the sample of the rest.
    first, second = prompts_of(phonetic, "We all went home. It was good.")
    assert first.removeprefix("[Stts][empty_spk][speed_5]").removesuffix("[Ptts]") in second


def test_scripts_get_the_prompts_of_the_pipeline(voice: Chat) -> None:
    with Recording(voice) as recording:
        voice.infer("hello the world.", **quick())
    (decorated,) = voice.speaker.decorate_code_prompts(
        ["hello the world."], "[speed_5]", None, None
    )
    ids, _, _ = voice.tokenizer.encode([decorated], 4)
    assert ids[0, :, 0].tolist() == recording.requests[0].prompt.text.tolist()


@pytest.mark.slow
def test_texts_are_refined_as_letters_and_spoken_as_phonemes(phonetic: Chat) -> None:
    with Recording(phonetic) as recording:
        phonetic.infer("Say hello.", params_infer_code=LIVELY)
    passes = [request.key.kind for request in recording.requests]
    assert passes == [Pass.REFINE, Pass.CODE]
    refined, said = (decoded(phonetic, request.prompt.text) for request in recording.requests)
    assert refined.startswith("[Sbreak]S##a##y")
    assert "<" not in refined
    assert said.startswith("[Stts]")


def test_what_letters_cannot_write_is_not_refined(voice: Chat) -> None:
    refined = voice.infer([MANDARIN, "say [ipa:a|ah]."], refine_text_only=True, split_text=False)
    assert refined == ["今天我们去三个地方，好吗?", "say [ipa:a|ah]."]


# ---------------------------------------------------------------- words


@pytest.mark.slow
@pytest.mark.parametrize("text", [ENGLISH, MANDARIN, MIXED])
def test_word_times_keep_the_callers_words(phonetic: Chat, text: str) -> None:
    words = spoken(phonetic, text).words[0]
    assert [text[w.start_character : w.end_character] for w in words] == [w.text for w in words]
    whole = "".join(w.text for w in words)
    assert whole == "".join(char for char in text if char.isalnum() or char == "'")
    assert any(word.confidence > 0 for word in words)
    places = [place for w in words for place in (w.start_sample, w.end_sample)]
    assert places == sorted(places)


def test_each_token_leads_to_its_word(voice: Chat) -> None:
    text = "we 读书 [laugh] now."
    offsets = voice.tokenizer.offsets(text)
    assert voice.tokenizer.front_end is not None
    form = voice.tokenizer.front_end.spoken(text).text
    columns = text_columns(text, offsets, caller_words(text), str)
    tokens = re.findall(r"<.>|\[\w+\]", form)
    said = [
        (token.strip("<>"), owner) for token, owner in zip(tokens, columns.owners, strict=False)
    ]
    assert len(columns.owners) == len(tokens) + 1
    owned = ["".join(t for t, owner in said if owner == word) for word in range(-1, 4)]
    assert owned == [" [laugh].", "wi", "tu↗", "ʂu→", "nˈW"]
    assert columns.tags == {tokens.index("[laugh]")}


@pytest.mark.slow
def test_a_stream_is_the_whole(phonetic: Chat) -> None:
    whole = spoken(phonetic, MIXED)
    stream = phonetic.stream(MIXED, word_times=True, **quick())
    pieces = list(stream)
    joined = np.concatenate([piece.samples for piece in pieces])
    np.testing.assert_allclose(joined, whole[0], atol=1e-6)
    assert [word for piece in pieces for word in piece.words] == whole.words[0]


# ---------------------------------------------------------------- pronunciations

HELLO = {"nginx": "/ˈɛndʒɪnˌɛks/", "重庆": {"pinyin": "chong2qing4"}, "zorg": {"x-sampa": "zO:g"}}


def said(chat: Chat, text: str, **options: Any) -> str:
    """Return the phonemes of a text of one utterance, on one line."""
    (read,) = prompts_of(chat, text, **options)
    inner = read.removeprefix("[Stts][empty_spk][speed_5]").removesuffix("[Ptts]")
    return inner.replace("<", "").replace(">", "")


@pytest.mark.parametrize("normalizes", [True, False])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("we use nginx here.", "wi jˈuz ˈɛnʤɪnˌɛks hˈɪɹ."),
        ("nginx's zorg.", "ˈɛnʤɪnˌɛksᵻz zˈɔɡ."),
        ("我在重庆。", "wo↓ ʦai↘ ꭧʰʊ↗ŋʨʰi↘ŋ."),
        ("a [ipa:təˈmɑːtoʊ|tomato] [uv_break] and [x-sampa:g@U].", None),
    ],
)
def test_pronunciations_are_exact(
    voice: Chat, text: str, line: str | None, normalizes: bool
) -> None:
    found = said(voice, text, lexicon=HELLO, do_text_normalization=normalizes)
    if line is None:
        assert "təmˈɑtO[uv_break]" in found
        assert found.endswith("ɡˈO.")
    else:
        assert found == line


def test_pronounced_words_are_the_callers(phonetic: Chat) -> None:
    text = "Is [ipa:ɲuː jɔːk|New York] in nginx's 5 [pinyin:chong2 qing4]?"
    row = spoken(phonetic, text, lexicon=HELLO).rows[0]
    words = ["Is", "New York", "in", "nginx's", "5", "chong2 qing4"]
    assert [word.text for word in row.words] == words
    places = [text[w.start_character : w.end_character] for w in row.words]
    assert places == ["Is", "[ipa:ɲuː jɔːk|New York]", *words[2:5], "[pinyin:chong2 qing4]"]
    assert [u.text for u in row.utterances] == ["Is New York in nginxs five chong2 qing4?"]
    assert [(use.text, use.saying) for use in row.lexicon_uses] == [("nginx", "/ˈɛndʒɪnˌɛks/")]


def test_wrong_symbols_are_named(voice: Chat) -> None:
    with pytest.raises(TextError, match="no sound for '7'"):
        voice.infer("say [ipa:t7|tea].", skip_refine_text=True)


def test_voices_of_letters_say_letters(standard: Chat, caplog: pytest.LogCaptureFixture) -> None:
    def utterance(text: str, **options: Any) -> str:
        options = {"refine_text_only": False, "skip_refine_text": True, **options}
        rows = standard.infer(text, params_infer_code=LIVELY, **options).rows
        return " ".join(u.text for u in rows[0].utterances)

    assert utterance("hello [ipa:ˈtʃeɪndʒ|change].") == "hello chaynj."
    assert not caplog.records
    assert utterance("hello [pinyin:ma1|mother].") == "hello mother."
    assert "this voice reads letters" in caplog.text
    with pytest.raises(TextError, match="this voice reads letters, and 'ma1' cannot be respelled"):
        utterance("hello [pinyin:ma1].")
    both = {"nginx": {"ipa": "ˈɛndʒɪn", "say": "engine x"}}
    assert utterance("hello nginx.", lexicon=both) == "hello engine x."
    with pytest.raises(ConfigError, match="'nginx': this voice reads letters, and not '/ˈɛndʒɪn/'"):
        utterance("hello nginx.", lexicon={"nginx": "/ˈɛndʒɪn/"})


def test_ssml_gives_pronunciations_on_every_way(voice: Chat) -> None:
    pytest.importorskip("lxml")
    from ChatTTS.longform.ssml import read_ssml

    document = (
        '<speak>a <phoneme ph="təˈmɑːtəʊ">tomato</phoneme>, <phoneme alphabet="x-sampa" '
        'ph="g@U">go</phoneme> and <phoneme alphabet="pinyin" ph="ma1">mother</phoneme>.</speak>'
    )
    script = read_ssml(document, "a.ssml")
    assert not script.warnings
    (line,) = script.lines
    found = said(voice, line.text)
    for word in ("təmˈɑtO,", "ɡˈO", "ma→."):
        assert word in found.split()
    with Recording(voice) as recording:
        list(voice.read(script))
    assert decoded(voice, recording.requests[0].prompt.text).count("<ɑ>") == found.count("ɑ")
    wrong = read_ssml('<speak><phoneme ph="t7">tea</phoneme></speak>', "a.ssml")
    assert [line.text for line in wrong.lines] == ["tea"]
    assert "a.ssml:1: the voices have no sound for '7'" in wrong.warnings[0]


# ---------------------------------------------------------------- languages and checkpoints


def test_such_a_voice_speaks_both_languages(voice: Chat) -> None:
    assert voice.normalizer.languages == ("en", "zh")
    (row,) = spoken(voice, "say привет 你好").rows
    assert row.left_out == ("п", "р", "и", "в", "е", "т")


def test_a_function_of_the_callers_does_not_lose_pronunciations(phoneme_checkpoint: Path) -> None:
    chat = load_phoneme_voice(phoneme_checkpoint)
    chat.normalizer.register("en", lambda text: re.sub("[^a-z ]", "", text))
    assert "ɡˈO" in said(chat, "we said [x-sampa:g@U] and left")


def test_a_checkpoint_says_which_front_end_it_wants(tmp_path: Path) -> None:
    unknown = save_phoneme_voice(tmp_path / "unknown", pronunciation="klingon")
    with pytest.raises(ConfigError, match=r"defaults.pronunciation is 'klingon'; this version has"):
        load_phoneme_voice(unknown)
    letters = save_phoneme_voice(tmp_path / "letters")
    tokenizer = Path("asset", "tokenizer", "tokenizer.json")
    (letters / tokenizer).write_bytes((DATA / "model-a" / tokenizer).read_bytes())
    with pytest.raises(AssetError, match="does not read <;> as one token"):
        load_phoneme_voice(letters)


def test_phonemes_that_refined_texts_could_hold_are_refused(tmp_path: Path) -> None:
    checkpoint = save_phoneme_voice(tmp_path)
    file = checkpoint / "asset" / "tokenizer" / "tokenizer.json"
    text = file.read_text("utf-8")
    first = int(re.findall(r'"\[break_0\]": (\d+)', text)[0])
    last = int(re.findall(r'"<ᵻ>": (\d+)', text)[0])
    for token, number in (("[break_0]", last), ("<ᵻ>", first)):
        text = re.sub(rf'("{re.escape(token)}": )\d+', rf"\g<1>{number}", text)
        text = re.sub(
            rf'("id": )\d+(,\s+"content": "{re.escape(token)}")', rf"\g<1>{number}\2", text
        )
    file.write_text(text, "utf-8")
    with pytest.raises(AssetError, match="a refined text could hold it"):
        load_phoneme_voice(checkpoint)


def test_published_checkpoints_read_their_texts_as_they_are(standard: Chat) -> None:
    assert standard.tokenizer.front_end is None
    assert not standard.normalizer.reads_phonemes
    (read,) = prompts_of(standard, "hello world.")
    assert re.sub(r"\W|##", "", read) == "Sttsempty_spkspeed_5helloworldPtts"
