"""Mandarin: readings of characters, tones in a sentence, and any text at all."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ChatTTS.text.pronunciation import Pronounced, joined, pronounce_mandarin
from ChatTTS.text.pronunciation.mandarin.lexicon import lexicon
from ChatTTS.text.pronunciation.mandarin.light_tones import with_light_tones
from ChatTTS.text.pronunciation.mandarin.phrase import Phrase
from ChatTTS.text.pronunciation.mandarin.segmenter import segmented
from ChatTTS.text.pronunciation.mandarin.syllables import is_syllable, syllable_phonemes

SENTENCES = Path(__file__).with_name("mandarin_sentences.txt")
HAN_RUN = re.compile("[\u4e00-\u9fff]+")
# The symbols that the voices know, of those that Mandarin has.
ALPHABET = frozenset(';:,.!?—…"()“” pmftnlkxʨɕꭧʂɻʦsʰaɤəɚɔouiɨjɛeʊwyɥŋ→↗↓↘')


def dictionary_readings(text: str) -> dict[int, str]:
    """Return numbered pinyin of each character before third tones rise."""
    found = {}
    for run in HAN_RUN.finditer(text):
        phrase = with_light_tones(Phrase.of(run[0], lexicon()))
        for place, reading in enumerate(phrase.readings, run.start()):
            found[place] = f"{reading.pinyin}{reading.tone}"
    return found


def spoken(text: str) -> str:
    return joined(pronounce_mandarin(text))


def in_pinyin(*syllables: str) -> str:
    """Return the phonemes of words; syllables of a word are joined by a dot."""
    return " ".join(
        "".join(syllable_phonemes(one[:-1], int(one[-1])) for one in word.split("."))
        for word in syllables
    )


def test_characters_with_several_readings_have_the_one_of_their_sentence() -> None:
    wrong = []
    asked = 0
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        readings = dictionary_readings(re.sub("[a-z]+[1-5]", "", line))
        for place, match in enumerate(re.finditer("(.)([a-z]+[1-5])?", line)):
            asked += match[2] is not None
            if match[2] not in (None, readings.get(place)):
                wrong.append(f"{line}: {match[0]}, not {readings.get(place)}")
    assert asked > 600
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "syllables"),
    [
        ("你好", ["ni2.hao3"]),
        ("我很好", ["wo2", "hen2", "hao3"]),
        ("展览馆", ["zhan2.lan2.guan3"]),
        ("纸老虎", ["zhi3.lao2.hu3"]),
        ("老板买酒", ["lao2.ban3", "mai2", "jiu3"]),
        ("我想买水果", ["wo2", "xiang2", "mai3", "shui2.guo3"]),
        ("姐姐", ["jie3.jie5"]),
        ("哪里", ["na2.li5"]),
    ],
)
def test_third_tones_rise_before_third_tones(text: str, syllables: list[str]) -> None:
    assert spoken(text).replace(" ", "") == in_pinyin(*syllables).replace(" ", "")


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("一天", 4),
        ("一样", 2),
        ("一个", 2),
        ("一百", 4),
        ("一万", 2),
        ("第一天", 1),
        ("统一思想", 1),
        ("单一化", 1),
        ("一九九八", 1),
        ("十一个", 1),
        ("三点一四", 1),
        ("一月", 1),
        ("一楼", 1),
        ("唯一", 1),
        ("看一看", 5),
    ],
)
def test_yi_has_the_tone_of_its_place(text: str, tone: int) -> None:
    assert dictionary_readings(text)[text.index("一")] == f"yi{tone}"


@pytest.mark.parametrize(
    ("text", "tone"),
    [
        ("不好", 4),
        ("不对", 2),
        ("不是", 2),
        ("我不", 4),
        ("好不好", 5),
        ("看不见", 5),
        ("听不懂", 5),
        ("时不时", 4),
    ],
)
def test_bu_has_the_tone_of_its_place(text: str, tone: int) -> None:
    assert dictionary_readings(text)[text.index("不")] == f"bu{tone}"


@pytest.mark.parametrize(
    "text", ["我们", "桌子", "石头", "妈妈", "朋友", "好吗", "走吧", "看看", "漂亮", "一个", "想想"]
)
def test_last_syllable_is_light(text: str) -> None:
    assert dictionary_readings(text)[len(text) - 1].endswith("5")


@pytest.mark.parametrize("text", ["天子", "电子", "男子", "人人", "天天", "大学生"])
def test_last_syllable_keeps_its_tone(text: str) -> None:
    assert not dictionary_readings(text)[len(text) - 1].endswith("5")


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("花儿", "xwa→ɚ"),
        ("玩儿", "wa↗ɚ"),
        ("一会儿", "i↗xwə↘ɚ"),
        ("事儿", "ʂə↘ɚ"),
        ("小孩儿", "ɕjau↓xa↗ɚ"),
        ("女儿", "ny↓ɚ↗"),
        ("儿童", "ɚ↗tʰʊ↗ŋ"),
        ("哪儿有", "na↗ɚ jou↓"),
    ],
)
def test_er_merges_except_where_it_is_a_child(text: str, phonemes: str) -> None:
    assert spoken(text) == phonemes


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("銀行", "银行"),
        ("頭髮長長了", "头发长长了"),
        ("為什麼", "为什么"),
        ("看著她", "看着她"),
        ("乾淨", "干净"),
        ("兩隻貓", "两只猫"),
    ],
)
def test_traditional_characters_are_read_as_simplified_ones(
    traditional: str, simplified: str
) -> None:
    assert spoken(traditional).replace(" ", "") == spoken(simplified).replace(" ", "")


def test_each_character_is_a_piece_and_words_are_joined() -> None:
    assert pronounce_mandarin(" 银行，好") == [
        Pronounced(1, 2, "i↗n", joins_next=True),
        Pronounced(2, 3, "xa↗ŋ"),
        Pronounced(3, 4, ","),
        Pronounced(4, 5, "xau↓"),
    ]


def test_marks_are_those_that_voices_know() -> None:
    assert spoken("「你」：是《书》？！——嗯……") == "“ni↓”: ʂɨ↘ “ʂu→”?!— ə↘n…"


def test_what_has_no_sound_is_an_empty_piece() -> None:
    pieces = pronounce_mandarin("好ABC·𠮷")
    assert [(piece.start, piece.end) for piece in pieces] == [(0, 1), (1, 4), (4, 5), (5, 6)]
    assert [piece.phonemes for piece in pieces[1:]] == ["", "", ""]


def test_digits_and_repeated_characters_are_read() -> None:
    assert spoken("10") == spoken("一零")
    assert spoken("人々") == spoken("人人")


def test_rare_characters_are_read() -> None:
    assert spoken("龘") == "ta↗"
    assert spoken("㐀") == "ʨʰjou→"


@settings(max_examples=50)
@given(st.text(st.characters(codec="utf-8") | st.sampled_from("一不儿得地着了为看好 ，。a1々〇")))
def test_any_text_is_read_and_nothing_is_lost(text: str) -> None:
    pieces = pronounce_mandarin(text)
    covered = "".join(text[piece.start : piece.end] for piece in pieces)
    assert "".join(covered.split()) == "".join(text.split())
    assert all(a.end <= b.start for a, b in pairwise(pieces))
    assert set(joined(pieces)) <= ALPHABET


@given(st.text(st.sampled_from("中国人民银行的不一了大学生"), max_size=12))
def test_words_are_the_likeliest_ones(text: str) -> None:
    known = lexicon()

    def best(rest: str) -> int:
        if not rest:
            return 0
        sizes = range(1, min(len(rest), known.longest) + 1)
        known_words = [rest[:size] for size in sizes if size == 1 or rest[:size] in known.costs]
        return min(known.cost(word) + best(rest[len(word) :]) for word in known_words)

    words = segmented(text, known)
    assert "".join(words) == text
    assert sum(map(known.cost, words)) == best(text)


def test_every_reading_of_the_lexicon_is_a_syllable() -> None:
    known = lexicon()
    assert all(is_syllable(said[:-1]) for said in known.characters.values())
    for word, said in known.readings.items():
        syllables = said.split(" ")
        assert len(syllables) == len(word), word
        assert all(is_syllable(one[:-1]) and one[-1] in "12345" for one in syllables), word
